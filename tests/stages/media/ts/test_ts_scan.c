/* Generated transport streams: each loss must show at the right picture only. */
#include <stdlib.h>
#include <string.h>

#include "stages/media/ts/ts_scan.h"
#include "tests/support/suite.h"

enum { TS = 188, PID = 0x100, OTHER = 0x101, PES_HEADER = 14, MOST = 4096 };

typedef struct stream {
    uint8_t data[MOST * 204];
    size_t bytes, count;
    int raw;
    int number[2];
    int64_t at[64];    /* where pictures begin */
    size_t sizes[64], pictures;
} stream;

static stream made;

static void add_packet(int pid, bool begins, const uint8_t *payload, size_t bytes) {
    uint8_t *to = made.data + made.bytes + (made.raw == 192 ? 4 : 0);
    const size_t stuffing = TS - 4 - bytes;
    memset(made.data + made.bytes, 0, (size_t)made.raw);
    to[0] = 0x47;
    to[1] = (uint8_t)(pid >> 8 | (begins ? 0x40 : 0));
    to[2] = (uint8_t)pid;
    to[3] = (uint8_t)((stuffing ? 0x30 : 0x10) | (made.number[pid - PID]++ & 15));
    if (stuffing) {
        to[4] = (uint8_t)(stuffing - 1);
        memset(to + 6, 0xff, stuffing > 2 ? stuffing - 2 : 0);
        if (stuffing > 1)
            to[5] = 0;
    }
    memcpy(to + 4 + stuffing, payload, bytes);
    made.bytes += (size_t)made.raw;
    made.count++;
}

/* Adds a picture with that many bytes. If `announced`, the PES header gives the length. */
static void add_picture(size_t bytes, bool announced) {
    uint8_t pes[8192] = {0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, PES_HEADER - 9};
    const size_t all = bytes + PES_HEADER;
    memset(pes + PES_HEADER, 0xab, bytes);
    pes[4] = (uint8_t)(announced ? (all - 6) >> 8 : 0);
    pes[5] = (uint8_t)(announced ? all - 6 : 0);
    made.at[made.pictures] = (int64_t)made.bytes + (made.raw == 192 ? 4 : 0);
    made.sizes[made.pictures++] = bytes;
    for (size_t at = 0; at < all; at += TS - 4) {
        add_packet(PID, at == 0, pes + at, all - at < TS - 4 ? all - at : TS - 4);
        if (made.count % 3 == 0)
            add_packet(OTHER, false, pes, TS - 4);
    }
}

static void begin_stream(int raw) {
    made.bytes = made.count = made.pictures = 0;
    made.raw = raw;
    made.number[0] = made.number[1] = 5;
}

/* Finds the packets that carry this picture. */
static size_t packets_of(size_t picture, size_t found[64]) {
    size_t count = 0;
    for (size_t i = 0; i < made.count; i++) {
        const uint8_t *one = made.data + i * (size_t)made.raw + (made.raw == 192 ? 4 : 0);
        const int64_t at = one - made.data;
        const bool within = at >= made.at[picture] &&
                            (picture + 1 == made.pictures || at < made.at[picture + 1]);
        if (within && one[2] == (PID & 255))
            found[count++] = i;
    }
    return count;
}

/* Feeds all packets but `gone` in pieces, then looks up all pictures. Picture `lacking` is `lost` bytes smaller. `gone`
 * may be past the end: no packet is missing. */
static void look(size_t gone, size_t piece, mr_ts_found found[64], size_t lacking, size_t lost) {
    static uint8_t fed[sizeof made.data];
    const size_t raw = (size_t)made.raw, hole = gone * raw, cut = gone < made.count ? raw : 0;
    const size_t bytes = made.bytes - cut;
    memcpy(fed, made.data, cut ? hole : bytes);
    if (cut)
        memcpy(fed + hole, made.data + hole + raw, made.bytes - hole - raw);
    mr_ts_scan *scan = mr_ts_scan_create();
    assert_non_null(scan);
    for (size_t at = 0; at < bytes; at += piece)
        mr_ts_scan_feed(scan, (int64_t)at, fed + at, bytes - at < piece ? bytes - at : piece);
    assert_int_equal(mr_ts_scan_end(scan), bytes);
    mr_ts_cursor cursor = {0};
    for (size_t i = 0; i < made.pictures; i++) {
        const int64_t at = made.at[i] - (cut && made.at[i] >= (int64_t)hole ? (int64_t)cut : 0);
        const size_t size = made.sizes[i] - (i == lacking ? lost : 0);
        found[i] = mr_ts_scan_find(scan, &cursor, PID, at, size);
        assert_true(found[i].known);
    }
    mr_ts_scan_destroy(&scan);
    assert_null(scan);
}

static void make_pictures(int raw, bool announced) {
    begin_stream(raw);
    for (size_t i = 0; i < 12; i++)
        add_picture(i % 4 == 0 ? 2000 + i : 40 + 170 * (i % 5), announced);
}

TEST(test_whole) {
    mr_ts_found found[64];
    static const int raws[] = {188, 192, 204};
    for (int k = 0; k < 6; k++) {
        make_pictures(raws[k % 3], k > 2);
        for (size_t piece = 1; piece < 2000; piece += 331) {
            look(SIZE_MAX / 1000, piece, found, 64, 0);
            for (size_t i = 0; i < made.pictures; i++)
                assert_false(found[i].lacks || found[i].gap || found[i].within);
        }
    }
}

/* Repeated packets must change nothing. In a group of three, the third is a sign of loss. */
TEST(test_repeated) {
    static uint8_t fed[3 * sizeof made.data];
    make_pictures(188, true);
    for (size_t times = 2; times <= 3; times++) {
        ENDED_BY(mr_ts_scan_destroy) mr_ts_scan *scan = mr_ts_scan_create();
        mr_ts_cursor cursor = {0};
        size_t count, damaged = 0;
        for (size_t i = 0; i < made.count; i++)
            for (size_t k = 0; k < times; k++)
                memcpy(fed + (i * times + k) * TS, made.data + i * TS, TS);
        const size_t bytes = times * made.bytes, part = 100 * TS + 50;
        mr_ts_scan_feed(scan, 0, fed, part);
        assert_int_equal(mr_ts_scan_rest(scan), TS - 50);
        const int64_t *repeated = mr_ts_scan_repeated(scan, &count);
        for (size_t i = 0; times == 2 && i < count; i++)
            assert_int_equal(repeated[i], (2 * i + 1) * TS);
        assert_int_equal(count, times == 2 ? 50 : 33);
        mr_ts_scan_feed(scan, (int64_t)part, fed + part, bytes - part);
        for (size_t i = 0; i < made.pictures; i++) {
            const mr_ts_found found = mr_ts_scan_find(scan, &cursor, PID, (int64_t)times * made.at[i], made.sizes[i]);
            assert_true(found.known);
            damaged += found.lacks || found.gap;
        }
        assert_int_equal(damaged > 0, times == 3);
    }
}

/* A picture with scrambled packets must be counted, and must show as a gap before the next one. */
TEST(test_scrambled) {
    enum { FIRST = 3, LAST = 5 };
    mr_ts_cursor cursor = {0};
    ENDED_BY(mr_ts_scan_destroy) mr_ts_scan *scan = mr_ts_scan_create();
    make_pictures(188, true);
    for (int64_t at = made.at[FIRST]; at < made.at[LAST + 1]; at += TS) {
        made.data[at + 3] |= 0x80;
        for (int i = 4; i < TS; i++)
            made.data[at + i] ^= made.data[at + 3] & 0x20 && i < 5 + made.data[at + 4] ? 0 : 0x5a;
    }
    mr_ts_scan_watch(scan, PID);
    mr_ts_scan_feed(scan, 0, made.data, made.bytes);
    assert_int_equal(mr_ts_scan_scrambled(scan), LAST - FIRST + 1);
    for (size_t i = 0; i < made.pictures; i++) {
        const mr_ts_found found = mr_ts_scan_find(scan, &cursor, PID, made.at[i], made.sizes[i]);
        assert_int_equal(found.known, i < FIRST || i > LAST);
        assert_int_equal(found.gap, i == LAST + 1);
    }
}

/* Drops each packet of the fifth picture in turn, except the first, since the picture would not exist without that. */
TEST(test_lost) {
    enum { HIT = 4 };
    mr_ts_found found[64];
    size_t packets[64];
    for (int k = 0; k < 2; k++) {
        make_pictures(188, k);
        const size_t count = packets_of(HIT, packets);
        assert_true(count > 8);
        for (size_t n = 1; n < count; n++) {
            const bool last = n + 1 == count;
            look(packets[n], 1000, found, HIT, last ? (made.sizes[HIT] + PES_HEADER) % (TS - 4) : TS - 4);
            for (size_t i = 0; i < made.pictures; i++) {
                assert_int_equal(found[i].lacks, i == HIT);
                assert_int_equal(found[i].within, i == HIT && !last);
                assert_int_equal(found[i].gap, last && i == HIT + 1);
            }
        }
    }
}

/* Without the first packet, the rest of a picture looks like part of the previous one. */
TEST(test_lost_begin) {
    size_t packets[64];
    make_pictures(188, false);
    packets_of(4, packets);
    const size_t rest = made.sizes[4] - (184 - PES_HEADER), joined = made.sizes[3] + rest;
    for (size_t i = 5; i < made.pictures; i++) {
        made.at[i - 1] = made.at[i];
        made.sizes[i - 1] = made.sizes[i];
    }
    made.sizes[3] = joined;
    made.pictures--;
    mr_ts_found found[64];
    look(packets[0], 1000, found, 64, 0);
    for (size_t i = 0; i < made.pictures; i++) {
        assert_int_equal(found[i].lacks, i == 3);
        assert_false(found[i].gap);
    }
}

/* Joined recordings: numbers jump, but no packet is missing. */
TEST(test_joined) {
    mr_ts_found found[64];
    begin_stream(188);
    for (size_t i = 0; i < 8; i++) {
        if (i == 4)
            made.number[0] += 5;
        add_picture(700, false);
    }
    look(SIZE_MAX / 1000, 1000, found, 64, 0);
    for (size_t i = 0; i < made.pictures; i++) {
        assert_false(found[i].lacks);
        assert_int_equal(found[i].gap, i == 4);
    }
}

/* A packet that the receiver marked as erroneous. */
TEST(test_erroneous) {
    mr_ts_found found[64];
    size_t packets[64];
    make_pictures(188, false);
    packets_of(4, packets);
    made.data[packets[3] * TS + 1] |= 0x80;
    look(SIZE_MAX / 1000, 1000, found, 64, 0);
    for (size_t i = 0; i < made.pictures; i++)
        assert_int_equal(found[i].lacks, i == 4);
}

/* After a jump, earlier packets must not count. Unknown positions must not be found. */
TEST(test_elsewhere) {
    make_pictures(188, false);
    ENDED_BY(mr_ts_scan_destroy) mr_ts_scan *scan = mr_ts_scan_create();
    mr_ts_cursor cursor = {0};
    mr_ts_scan_feed(scan, 0, made.data, 3 * 188);
    mr_ts_scan_feed(scan, made.at[6], made.data + made.at[6], made.bytes - (size_t)made.at[6]);
    const mr_ts_found found = mr_ts_scan_find(scan, &cursor, PID, made.at[6], made.sizes[6]);
    assert_true(found.known && !found.lacks && !found.gap);
    assert_false(mr_ts_scan_find(scan, &cursor, OTHER, made.at[7], 1).known);
    assert_false(mr_ts_scan_find(scan, &cursor, PID, -1, 1).known);
}

/* Random bytes, with and without sync bytes in place. */
TEST(test_malformed) {
    ENDED_BY(mr_ts_scan_destroy) mr_ts_scan *scan = mr_ts_scan_create();
    mr_ts_cursor cursor = {0};
    int64_t offset = 0;
    srand(1);
    for (int i = 0; i < 3000; i++) {
        const size_t bytes = 1 + (size_t)rand() % 2000;
        FREED uint8_t *data = malloc(bytes);
        assert_non_null(data);
        for (size_t k = 0; k < bytes; k++)
            data[k] = (uint8_t)(i % 3 && ((size_t)offset + k) % 188 == 0 ? 0x47 : rand() % (i % 2 ? 256 : 3));
        mr_ts_scan_feed(scan, offset, data, bytes);
        (void)mr_ts_scan_find(scan, &cursor, rand() % 4, offset - rand() % 1000, (size_t)rand() % 5000);
        offset += i % 50 ? (int64_t)bytes : rand() % 100000;
    }
}

RUN_TESTS(NULL, NULL)
