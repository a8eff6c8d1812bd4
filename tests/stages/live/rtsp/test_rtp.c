/* Packet order. mr_rtp_order is compared with a model that keeps all packets in a table, without rings, wraps or
 * limits. */
#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/live/rtsp/rtp.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

enum { RATE = 90000, MS = 1000000 };

/* ---- headers ----------------------------------------------------------------------------------------------------- */

TEST(test_headers_are_read) {
    /* RFC 3550, 5.1: two contributing sources, a one-word extension, and three padding bytes. */
    const uint8_t data[] = {0xb2, 0xe0, 0x12, 0x34, 0, 0, 1, 2, 9, 8, 7, 6, 1, 1, 1, 1, 2, 2, 2, 2,
                            0xbe, 0xde, 0, 1, 5, 5, 5, 5, 'a', 'b', 'c', 0, 0, 3};
    mr_rtp_packet packet;
    assert_true(mr_rtp_parse(&packet, data, sizeof data));
    assert_int_equal(packet.type, 96);
    assert_true(packet.marker);
    assert_int_equal(packet.sequence, 0x1234);
    assert_int_equal(packet.timestamp, 0x102);
    assert_int_equal(packet.source, 0x09080706);
    assert_int_equal(packet.bytes, 3);
    assert_memory_equal(packet.payload, "abc", 3);
    for (size_t bytes = 0; bytes < 28; bytes++)
        assert_false(mr_rtp_parse(&packet, data, bytes) && packet.bytes > bytes);
    const uint8_t old[12] = {0x40}, padded[13] = {[0] = 0xa0, [12] = 14};
    assert_false(mr_rtp_parse(&packet, old, sizeof old));
    assert_false(mr_rtp_parse(&packet, padded, sizeof padded));
}

/* ---- packets for tests ------------------------------------------------------------------------------------------- */

/* Makes the packet with this number, which is also the payload. */
static mr_rtp_packet packet_of(int64_t number, uint8_t payload[8]) {
    memcpy(payload, &number, sizeof number);
    return (mr_rtp_packet){.source = 7, .sequence = (uint16_t)number, .timestamp = (uint32_t)(number * 900),
                           .payload = payload, .bytes = sizeof number};
}

static int64_t number_in(const mr_rtp_packet *packet) {
    int64_t number;
    assert_int_equal(packet->bytes, sizeof number);
    memcpy(&number, packet->payload, sizeof number);
    return number;
}

static mr_rtp_put put(mr_rtp_order *order, int64_t number, int64_t now_ns) {
    uint8_t payload[8];
    mr_rtp_packet packet = packet_of(number, payload);
    return mr_rtp_order_put(order, &packet, now_ns);
}

/* Puts a packet, then invalidates the memory as a receive buffer would. Only a packet in order may be taken from there.
 * Returns -1 if none is ready. */
static int64_t put_and_take(mr_rtp_order *order, int64_t number, int64_t now_ns) {
    uint8_t payload[8];
    mr_rtp_packet packet = packet_of(number, payload), taken;
    assert_int_equal(mr_rtp_order_put(order, &packet, now_ns), MR_RTP_TAKEN);
    return mr_rtp_order_take(order, &taken, now_ns) ? number_in(&taken) : -1;
}

static int64_t take(mr_rtp_order *order, int64_t now_ns, uint32_t *lost) {
    mr_rtp_packet packet;
    if (!mr_rtp_order_take(order, &packet, now_ns))
        return -1;
    *lost = packet.lost;
    return number_in(&packet);
}

static mr_rtp_order *make(int64_t wait_ns) {
    mr_rtp_order *order;
    assert_int_equal(mr_rtp_order_create(&order, wait_ns, RATE), MR_OK);
    return order;
}

/* ---- single cases ------------------------------------------------------------------------------------------------ */

TEST(test_a_missing_packet_is_waited_for) {
    mr_rtp_order *order = make(50 * MS);
    uint32_t lost = 9;
    assert_int_equal(put_and_take(order, 10, 0), 10);
    assert_int_equal(mr_rtp_order_due_ns(order), INT64_MAX);
    assert_int_equal(put_and_take(order, 12, 10 * MS), -1);
    assert_int_equal(put_and_take(order, 13, 20 * MS), -1);
    assert_int_equal(mr_rtp_order_due_ns(order), 60 * MS);
    assert_int_equal(take(order, 60 * MS - 1, &lost), -1);
    assert_int_equal(put_and_take(order, 11, 60 * MS - 1), 11);
    assert_int_equal(take(order, 60 * MS - 1, &lost), 12);
    assert_int_equal(lost, 0);
    assert_int_equal(take(order, 60 * MS - 1, &lost), 13);
    /* This one comes too late: it was already given up. */
    assert_int_equal(put_and_take(order, 16, 100 * MS), -1);
    assert_int_equal(take(order, 150 * MS, &lost), 16);
    assert_int_equal(lost, 2);
    assert_int_equal(put(order, 15, 151 * MS), MR_RTP_LATE);
    assert_int_equal(put(order, 15, 151 * MS), MR_RTP_TWICE);
    assert_int_equal(put(order, 16, 151 * MS), MR_RTP_TWICE);
    assert_int_equal(put(order, 14, 151 * MS), MR_RTP_LATE);
    assert_int_equal(put_and_take(order, 17, 152 * MS), 17);
    mr_rtp_order_destroy(&order);
    assert_null(order);
}

TEST(test_nothing_is_waited_for_where_order_is_kept) {
    ENDED_BY(mr_rtp_order_destroy) mr_rtp_order *order = make(0);
    uint8_t payload[8];
    mr_rtp_packet packet = packet_of(65534, payload), taken;
    assert_int_equal(mr_rtp_order_put(order, &packet, 0), MR_RTP_TAKEN);
    assert_true(mr_rtp_order_take(order, &taken, 0));
    assert_ptr_equal(taken.payload, payload); /* not copied */
    packet = packet_of(65540, payload);
    assert_int_equal(mr_rtp_order_put(order, &packet, 0), MR_RTP_TAKEN);
    assert_true(mr_rtp_order_take(order, &taken, 0));
    assert_int_equal(taken.lost, 5);
    assert_int_equal(taken.number, 65540);
    assert_false(mr_rtp_order_take(order, &taken, 0));
}

TEST(test_a_sender_begins_anew) {
    ENDED_BY(mr_rtp_order_destroy) mr_rtp_order *order = make(50 * MS);
    mr_rtp_packet packet, taken;
    uint8_t payload[8];
    assert_int_equal(put_and_take(order, 1000, 0), 1000);
    assert_int_equal(put_and_take(order, 1002, 0), -1);
    /* One stray packet from another sender changes nothing. Two in a row start anew. */
    packet = packet_of(40000, payload);
    packet.source = 8;
    assert_int_equal(mr_rtp_order_put(order, &packet, 10 * MS), MR_RTP_STRAY);
    assert_int_equal(put_and_take(order, 1001, 20 * MS), 1001);
    assert_true(mr_rtp_order_take(order, &taken, 20 * MS));
    const int64_t last = taken.time;
    for (int i = 0; i < 2; i++) {
        packet = packet_of(40010 + i, payload);
        packet.source = 8;
        packet.timestamp = 5;
        assert_int_equal(mr_rtp_order_put(order, &packet, 1020 * MS), i == 0 ? MR_RTP_STRAY : MR_RTP_TAKEN);
    }
    assert_true(mr_rtp_order_take(order, &taken, 1020 * MS));
    assert_true(taken.restart);
    assert_int_equal(taken.source, 8);
    assert_int_equal(number_in(&taken), 40011);
    /* The time advances by the time since the last packet. */
    assert_int_equal(taken.time - last, RATE * 102 / 100);
    packet = packet_of(40012, payload);
    packet.source = 8;
    packet.timestamp = 5 + 900;
    assert_int_equal(mr_rtp_order_put(order, &packet, 1030 * MS), MR_RTP_TAKEN);
    assert_true(mr_rtp_order_take(order, &taken, 1030 * MS));
    assert_false(taken.restart);
    assert_int_equal(taken.time - last, RATE * 102 / 100 + 900);
}

TEST(test_times_unwrap) {
    ENDED_BY(mr_rtp_order_destroy) mr_rtp_order *order = make(0);
    mr_rtp_packet packet, taken;
    uint8_t payload[8];
    /* A day at 90 kHz, one packet a second: 32 bits wrap 1.8 times. */
    for (int64_t i = 0; i < 86400; i++) {
        packet = packet_of(i, payload);
        packet.timestamp = (uint32_t)(4000000000 + i * RATE);
        assert_int_equal(mr_rtp_order_put(order, &packet, i * 1000 * MS), MR_RTP_TAKEN);
        assert_true(mr_rtp_order_take(order, &taken, i * 1000 * MS));
        assert_int_equal(taken.number, i);
        assert_int_equal(taken.time, 4000000000 + i * RATE);
    }
}

TEST(test_memory_is_bounded) {
    ENDED_BY(mr_rtp_order_destroy) mr_rtp_order *order = make(1000000LL * MS);
    uint32_t lost = 0;
    static uint8_t large[65000];
    int given = 0, full = 0;
    assert_int_equal(put_and_take(order, 0, 0), 0);
    /* Number 1 never comes. With the largest packets, 4 MiB hold 64. */
    for (int64_t n = 2; n < 1000; n++) {
        mr_rtp_packet packet = packet_of(n, large), taken;
        packet.bytes = sizeof large;
        const mr_rtp_put first = mr_rtp_order_put(order, &packet, 0);
        full += first == MR_RTP_FULL;
        while (mr_rtp_order_take(order, &taken, 0)) {
            given++;
            lost += taken.lost;
            int64_t number;
            memcpy(&number, taken.payload, sizeof number);
            assert_int_equal(number, given + 1);
        }
        if (first == MR_RTP_FULL) {
            assert_int_equal(mr_rtp_order_put(order, &packet, 0), MR_RTP_TAKEN);
            while (mr_rtp_order_take(order, &taken, 0))
                given++;
        }
        assert_in_range(n - 1 - given, 0, 65);
    }
    assert_int_equal(full, 1); /* after that, none is missing */
    assert_int_equal(lost, 1);
    assert_int_equal(given, 998);
    /* With small packets, the ring holds 1,024 numbers. */
    for (int64_t n = 1001; n < 1000 + 1024; n++)
        assert_int_equal(put_and_take(order, n, 0), -1);
    assert_int_equal(put(order, 1000 + 1024, 0), MR_RTP_FULL);
    for (int64_t n = 1001; n < 1000 + 1024; n++)
        assert_int_equal(take(order, 0, &lost), n);
}

/* ---- random arrivals --------------------------------------------------------------------------------------------- */

enum { PACKETS = 3000, MOST_EVENTS = 2 * PACKETS };

typedef struct arrival {
    int64_t number, at_ns;
} arrival;

typedef struct model {
    int64_t came_ns[PACKETS]; /* -1: not yet */
    bool given_up[PACKETS];
    int64_t next, lost, late, twice;
} model;

static int by_time(const void *a, const void *b) {
    const arrival *first = a, *second = b;
    if (first->at_ns != second->at_ns)
        return first->at_ns < second->at_ns ? -1 : 1;
    return first->number < second->number ? -1 : first->number > second->number;
}

/* Returns the number to take now; -1: none. */
static int64_t expect(model *of, int64_t now_ns, int64_t wait_ns) {
    int64_t n = of->next;
    while (n < PACKETS && of->came_ns[n] < 0)
        n++;
    if (n == PACKETS || (n > of->next && now_ns - of->came_ns[n] < wait_ns))
        return -1;
    for (int64_t i = of->next; i < n; i++) {
        of->given_up[i] = true;
        of->lost++;
    }
    of->next = n + 1;
    return n;
}

static void check_taken(mr_rtp_order *order, model *of, int64_t first, int64_t now_ns, int64_t wait_ns, int64_t *lost) {
    int64_t expected;
    do {
        mr_rtp_packet packet;
        expected = expect(of, now_ns, wait_ns);
        const bool any = mr_rtp_order_take(order, &packet, now_ns);
        assert_int_equal(any, expected >= 0);
        if (any) {
            assert_int_equal(number_in(&packet), first + expected);
            assert_int_equal(packet.time - (int64_t)(uint32_t)(first * 900), expected * 900);
            *lost += packet.lost;
            assert_int_equal(*lost, of->lost);
        }
    } while (expected >= 0);
}

/* Draws packets a millisecond apart: delayed by up to `spread` ms, some lost, some doubled. */
static size_t draw_arrivals(arrival *arrivals, int spread, int percent_lost, int percent_twice) {
    size_t count = 0;
    for (int64_t n = 0; n < PACKETS; n++) {
        const int64_t at_ns = n * MS;
        if (n > 0 && n < PACKETS - 1 && between(0, 99) < percent_lost)
            continue;
        const int copies = between(0, 99) < percent_twice ? 2 : 1;
        for (int i = 0; i < copies; i++)
            arrivals[count++] = (arrival){n, at_ns + (n == 0 ? 0 : between(0, spread * 1000) * 1000LL)};
    }
    qsort(arrivals, count, sizeof *arrivals, by_time);
    return count;
}

static void run_random(int64_t first, int64_t wait_ns, const arrival *arrivals, size_t count) {
    static model of;
    ENDED_BY(mr_rtp_order_destroy) mr_rtp_order *order = make(wait_ns);
    int64_t lost = 0, late = 0, twice = 0;
    memset(&of, 0, sizeof of);
    memset(of.came_ns, -1, sizeof of.came_ns);
    for (size_t i = 0; i < count; i++) {
        const int64_t n = arrivals[i].number, now_ns = arrivals[i].at_ns;
        uint8_t payload[8];
        /* Also at times between arrivals. */
        check_taken(order, &of, first, now_ns, wait_ns, &lost);
        mr_rtp_packet packet = packet_of(first + n, payload);
        const mr_rtp_put put_as = mr_rtp_order_put(order, &packet, now_ns);
        late += put_as == MR_RTP_LATE;
        twice += put_as == MR_RTP_TWICE;
        if (n < of.next && of.given_up[n]) {
            of.given_up[n] = false;
            of.late++;
        } else if (n < of.next || of.came_ns[n] >= 0) {
            of.twice++;
        } else {
            of.came_ns[n] = now_ns;
        }
        check_taken(order, &of, first, now_ns, wait_ns, &lost);
        assert_int_equal(late, of.late);
        assert_int_equal(twice, of.twice);
    }
    check_taken(order, &of, first, INT64_MAX / 2, wait_ns, &lost);
    assert_int_equal(of.next, PACKETS);
}

TEST(test_random_arrivals) {
    static arrival arrivals[MOST_EVENTS];
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 200; i++) {
        random_state = seed + (uint64_t)i;
        const int64_t wait_ns = between(1, 60) * (int64_t)MS;
        const int64_t first = between(0, 1) ? 65536 - between(0, PACKETS) : between(0, 65535);
        const size_t count = draw_arrivals(arrivals, between(0, 80), between(0, 10), between(0, 5));
        run_random(first, wait_ns, arrivals, count);
    }
}

RUN_TESTS(NULL, NULL)
