/* A cut's messages through shared memory, beside ZeroMQ: both directions, and on whose behalf. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/data/pool.h"
#include "engine/device/device.h"
#include "engine/transport/cut/cut_share.h"
#include "engine/transport/shm/shm.h"
#include "engine/transport/shm/shm_area.h"
#include "engine/transport/shm/shm_socket.h"
#include "millrace/log.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/transport/cut_ends.h"

enum { MOST_PARTS = MR_WIRE_BLOCKS + 1 };

static mr_cut_message message_of(uint64_t number) {
    return (mr_cut_message){.kind = MR_MESSAGE_BEAT, .version = MR_PROTOCOL_NEWEST,
                            .session = CUT_ENDS_SESSION, .number = number};
}

/* Parts with 0, 1, 2, ... bytes, each filled with the part number. */
static void make_parts(mr_wire_part *parts, size_t count) {
    static uint8_t bytes[MOST_PARTS][MOST_PARTS];
    for (size_t i = 0; i < count; i++) {
        memset(bytes[i], (int)i, i);
        parts[i] = (mr_wire_part){.data = bytes[i], .bytes = i};
    }
}

TEST(a_letter_is_read_as_it_was_written) {
    static _Alignas(8) uint8_t record[MR_SHM_RECORD_BYTES];
    static mr_wire_part parts[MOST_PARTS];
    static mr_ring_message message_in;
    const mr_cut_message message = message_of(UINT64_MAX);
    make_parts(parts, MOST_PARTS);
    for (size_t count = 1; count <= MOST_PARTS; count++) {
        size_t bytes = 0, again = 0;
        assert_int_equal(mr_ring_message_write(record, sizeof record, &message, parts, count, &bytes), MR_OK);
        assert_int_equal(mr_ring_message_write(record, bytes, &message, parts, count, &again), MR_OK);
        assert_int_equal(again, bytes);
        assert_int_equal(mr_ring_message_write(record, bytes - 1, &message, parts, count, &again), MR_ERROR_AGAIN);
        assert_int_equal(mr_ring_message_write(record, bytes, &message, parts, count, &again), MR_OK);
        assert_int_equal(mr_ring_message_read(record, bytes, &message_in), MR_OK);
        assert_int_equal(message_in.session, CUT_ENDS_SESSION);
        assert_int_equal(message_in.number, UINT64_MAX);
        assert_int_equal(message_in.count, count);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(message_in.parts[i].bytes, i);
            assert_int_equal((uintptr_t)message_in.parts[i].data % 8, 0);
            assert_memory_equal(message_in.parts[i].data, parts[i].data, i);
        }
    }
}

/* Notes with every length, in separate blocks, so that a sanitizer can see reads past the end; also with each size and
 * the count too large. */
TEST(what_is_no_letter_is_refused) {
    static uint8_t record[4096];
    static mr_wire_part parts[MOST_PARTS];
    static mr_ring_message message_in;
    const mr_cut_message message = message_of(1);
    size_t bytes;
    make_parts(parts, 20);
    assert_int_equal(mr_ring_message_write(record, sizeof record, &message, parts, 20, &bytes), MR_OK);
    for (size_t length = 0; length < bytes; length++) {
        FREED uint8_t *cut = malloc(length + 1);
        memcpy(cut, record, length);
        assert_int_equal(mr_ring_message_read(cut, length, &message_in), MR_ERROR_PROTOCOL);
    }
    static const uint64_t wrong[] = {0, MOST_PARTS + 1, 1 << 20, UINT64_MAX / 8 + 1, UINT64_MAX - 6, UINT64_MAX};
    for (size_t at = 2 * sizeof(uint64_t); at < (3 + 20) * sizeof(uint64_t); at += sizeof(uint64_t))
        for (size_t i = at > 2 * sizeof(uint64_t); i < sizeof wrong / sizeof *wrong; i++) {
            FREED uint8_t *damaged = malloc(bytes);
            memcpy(damaged, record, bytes);
            memcpy(damaged + at, &wrong[i], sizeof wrong[i]);
            assert_int_equal(mr_ring_message_read(damaged, bytes, &message_in), MR_ERROR_PROTOCOL);
        }
    assert_int_equal(mr_ring_message_read(record, bytes + 8, &message_in), MR_ERROR_PROTOCOL);
    assert_string_equal(mr_message(), "shared memory: the other end sends a malformed record");
}

static bool rests(const cut_ends *f) {
    mr_cut_importer_clear_doorbell(f->importer);
    return mr_cut_importer_arm(f->importer);
}

static bool is_ringing(const cut_ends *f) {
    return poll(&(struct pollfd){.fd = mr_cut_importer_fd(f->importer), .events = POLLIN}, 1, 0) == 1;
}

static bool post(cut_ends *f, uint64_t number, size_t bytes) {
    static uint8_t payload[2 * MR_SHM_RECORD_BYTES];
    const mr_cut_message message = message_of(number);
    const mr_wire_part parts[] = {{.data = payload, .bytes = 100}, {.data = payload, .bytes = bytes}};
    mr_cut_exporter_aim(f->exporter, CUT_ENDS_SESSION);
    return mr_cut_exporter_post(f->exporter, &message, parts, 2);
}

static void expect_letter(cut_ends *f, uint64_t number, size_t bytes) {
    const mr_ring_message *message_in = NULL;
    for (int again = 0; again < 2; again++) {
        assert_true(mr_cut_importer_next(f->importer, 0, &message_in));
        assert_int_equal(message_in->session, CUT_ENDS_SESSION);
        assert_int_equal(message_in->number, number);
        assert_int_equal(message_in->count, 2);
        assert_int_equal(message_in->parts[1].bytes, bytes);
    }
    mr_cut_importer_take(f->importer, 0);
}

CUT_TEST_APART(letters_go_to_a_peer_that_is_attached) {
    const mr_ring_message *message_in;
    assert_false(post(f, 1, 1));
    assert_false(mr_cut_importer_next(f->importer, 0, &message_in));
    cut_ends_join(f);
    /* The rings have come and may hold something. */
    assert_false(rests(f));
    /* The first messages use the other path: a handshake, and the rings that must come before any letter. */
    assert_false(mr_cut_importer_next(f->importer, 0, &message_in));
    assert_false(is_ringing(f));
    assert_false(post(f, 0, 1));
    assert_false(post(f, 1, MR_SHM_RECORD_BYTES));
    assert_false(is_ringing(f));
    assert_true(post(f, 1, 7));
    assert_true(is_ringing(f));
    expect_letter(f, 1, 7);
    assert_true(rests(f));
    assert_false(is_ringing(f));
    /* A letter that must wait keeps nobody awake. */
    assert_true(post(f, 3, 8));
    assert_true(post(f, 4, 9));
    assert_true(mr_cut_importer_next(f->importer, 0, &message_in));
    assert_true(rests(f));
    assert_false(is_ringing(f));
    assert_true(post(f, 5, 10));
    assert_false(is_ringing(f));
    expect_letter(f, 3, 8);
    assert_false(rests(f));
    expect_letter(f, 4, 9);
    expect_letter(f, 5, 10);
    assert_true(rests(f));
    assert_false(is_ringing(f));
}

/* Each side learns from memory while the other polls, and from the descriptor otherwise. */
CUT_TEST_APART(who_looks_is_not_rung_for) {
    const mr_ring_message *message_in;
    assert_false(mr_cut_importer_poll(f->importer, false));
    assert_false(mr_cut_exporter_poll(f->exporter, false));
    cut_ends_join(f);
    assert_false(mr_cut_importer_next(f->importer, 0, &message_in));
    for (uint64_t number = 1; number < 10; number += 3) {
        assert_true(rests(f));
        assert_false(mr_cut_importer_poll(f->importer, false));
        assert_true(post(f, number, 5));
        assert_true(mr_cut_importer_poll(f->importer, false));
        assert_false(mr_cut_importer_poll(f->importer, false)); /* It was already informed. */
        assert_false(is_ringing(f));
        expect_letter(f, number, 5);
        assert_false(mr_cut_importer_poll(f->importer, false)); /* It is not resting. */
        assert_true(rests(f));
        assert_false(mr_cut_importer_poll(f->importer, false));
        assert_false(mr_cut_importer_poll(f->importer, true));
        assert_true(post(f, number + 1, 5));
        assert_true(is_ringing(f));
        expect_letter(f, number + 1, 5);
        /* A letter that must wait is nothing to poll for; nor are those after it. */
        assert_true(post(f, number + 2, 5));
        assert_true(mr_cut_importer_next(f->importer, 0, &message_in));
        assert_true(rests(f));
        assert_false(mr_cut_importer_poll(f->importer, false));
        expect_letter(f, number + 2, 5);
    }
}

static int crowded;

static void count_crowded(void *context, mr_log_level level, const char *line) {
    crowded += level == MR_LOG_INFO && strstr(line, "a->b: the ring beside ZeroMQ is full") != NULL;
}

/* A consumer that reads nothing fills the ring. Later messages use the other path and are not lost; those in the ring
 * stay. */
CUT_TEST(a_full_ring_sends_letters_the_other_way) {
    const mr_ring_message *message_in;
    crowded = 0;
    mr_log_set_level(MR_LOG_INFO);
    mr_log_to(count_crowded, NULL);
    for (int turn = 1; turn <= 2; turn++) {
        uint64_t count = 0;
        while (post(f, count + 1, 1000))
            assert_in_range(++count, 1, 100000);
        assert_false(post(f, count + 1, 1000));
        for (uint64_t i = 1; i <= count; i++)
            expect_letter(f, i, 1000);
        assert_false(mr_cut_importer_next(f->importer, 0, &message_in));
    }
    mr_log_to(NULL, NULL);
    mr_log_set_level(MR_LOG_WARNING);
    assert_int_equal(crowded, 1);
}

/* Letters that arrived before the producer ended are still there; the end keeps nobody awake. */
CUT_TEST(letters_outlive_their_sender) {
    const mr_ring_message *message_in;
    assert_true(post(f, 1, 5));
    assert_true(post(f, 2, 6));
    mr_cut_exporter_destroy(&f->exporter);
    expect_letter(f, 1, 5);
    expect_letter(f, 2, 6);
    for (int i = 0; i < 2; i++)
        assert_false(mr_cut_importer_next(f->importer, 0, &message_in));
    assert_true(rests(f));
    assert_false(is_ringing(f));
}

/* ---- letters back ------------------------------------------------------------------------------------------------ */

static bool post_back(cut_ends *f, uint64_t session, uint64_t number, size_t bytes) {
    static uint8_t payload[2 * MR_SHM_RECORD_BYTES];
    mr_cut_message message = message_of(number);
    const mr_wire_part part = {.data = payload, .bytes = bytes};
    message.session = session;
    return mr_cut_importer_post(f->importer, 0, &message, &part, 1);
}

/* The only consumer's place. */
static size_t place_of_it(cut_ends *f) {
    const mr_ring_message *message_in;
    size_t place = 0;
    while (place < mr_cut_exporter_places(f->exporter) && !mr_cut_exporter_next(f->exporter, place, &message_in))
        place++;
    return place;
}

static void expect_letter_back(cut_ends *f, uint64_t number, size_t bytes) {
    const mr_ring_message *message_in = NULL;
    size_t place = place_of_it(f);
    assert_true(place < mr_cut_exporter_places(f->exporter));
    for (int again = 0; again < 2; again++) {
        assert_true(mr_cut_exporter_next(f->exporter, place, &message_in));
        assert_int_equal(message_in->session, CUT_ENDS_SESSION);
        assert_int_equal(message_in->number, number);
        assert_int_equal(message_in->count, 1);
        assert_int_equal(message_in->parts[0].bytes, bytes);
    }
    mr_cut_exporter_take(f->exporter, place);
}

static bool is_called(const cut_ends *f) {
    return poll(&(struct pollfd){.fd = mr_cut_exporter_fd(f->exporter), .events = POLLIN}, 1, 0) == 1;
}

static bool calls(cut_ends *f) {
    mr_cut_exporter_work(f->exporter);
    return is_called(f);
}

CUT_TEST_APART(letters_come_back) {
    const mr_ring_message *message_in;
    assert_false(post_back(f, CUT_ENDS_SESSION, 1, 1));
    cut_ends_join(f);
    /* The producer has not confirmed this one yet; the confirmation comes with the letters. */
    assert_false(post_back(f, CUT_ENDS_SESSION, 1, 1));
    assert_false(mr_cut_importer_next(f->importer, 0, &message_in));
    assert_false(post_back(f, CUT_ENDS_SESSION, 0, 1));
    assert_false(post_back(f, CUT_ENDS_SESSION, 1, MR_SHM_RECORD_BYTES));
    assert_false(calls(f));
    assert_true(post_back(f, CUT_ENDS_SESSION, 1, 7));
    assert_true(calls(f));
    expect_letter_back(f, 1, 7);
    assert_false(calls(f));
    /* A letter that must wait keeps nobody awake. */
    assert_true(post_back(f, CUT_ENDS_SESSION, 3, 8));
    assert_true(post_back(f, CUT_ENDS_SESSION, 4, 9));
    assert_int_not_equal(place_of_it(f), mr_cut_exporter_places(f->exporter));
    assert_false(calls(f));
    expect_letter_back(f, 3, 8);
    assert_true(calls(f));
    expect_letter_back(f, 4, 9);
    assert_int_equal(place_of_it(f), mr_cut_exporter_places(f->exporter));
}

CUT_TEST(who_looks_is_not_called) {
    const mr_ring_message *message_in;
    assert_false(mr_cut_importer_next(f->importer, 0, &message_in));
    for (uint64_t number = 1; number < 7; number += 2) {
        assert_false(calls(f));
        assert_false(mr_cut_exporter_poll(f->exporter, false));
        assert_true(post_back(f, CUT_ENDS_SESSION, number, 5));
        assert_true(mr_cut_exporter_poll(f->exporter, false));
        assert_false(mr_cut_exporter_poll(f->exporter, false));
        assert_false(is_called(f));
        expect_letter_back(f, number, 5);
        assert_false(calls(f));
        assert_false(mr_cut_exporter_poll(f->exporter, false));
        assert_false(mr_cut_exporter_poll(f->exporter, true));
        assert_true(post_back(f, CUT_ENDS_SESSION, number + 1, 5));
        assert_true(is_called(f));
        expect_letter_back(f, number + 1, 5);
    }
}

/* A consumer may only speak for the session it belongs to. If it does not, nobody listens until it comes again. */
CUT_TEST_APART(a_consumer_that_speaks_for_others_is_not_heard) {
    const mr_ring_message *message_in;
    for (int turn = 0; turn < 2; turn++) {
        cut_ends_join(f);
        assert_false(mr_cut_importer_next(f->importer, 0, &message_in));
        assert_true(post_back(f, CUT_ENDS_SESSION, 1, 3));
        expect_letter_back(f, 1, 3);
        assert_true(post_back(f, CUT_ENDS_SESSION + 1, 2, 3));
        assert_true(post_back(f, CUT_ENDS_SESSION, 2, 3));
        assert_int_equal(place_of_it(f), mr_cut_exporter_places(f->exporter));
        assert_false(calls(f));
        assert_int_equal(place_of_it(f), mr_cut_exporter_places(f->exporter));
    }
}

CUT_TEST(letters_outlive_the_consumer) {
    const mr_ring_message *message_in;
    assert_false(mr_cut_importer_next(f->importer, 0, &message_in));
    assert_true(post(f, 1, 5));
    assert_true(post_back(f, CUT_ENDS_SESSION, 1, 6));
    assert_true(post_back(f, CUT_ENDS_SESSION, 2, 7));
    mr_cut_importer_destroy(&f->importer);
    assert_true(calls(f));
    expect_letter_back(f, 1, 6);
    expect_letter_back(f, 2, 7);
    assert_int_equal(place_of_it(f), mr_cut_exporter_places(f->exporter));
    assert_false(calls(f));
    assert_false(post(f, 2, 5));
}

/* ---- what is none ------------------------------------------------------------------------------------------------ */

/* An imitated producer, and what it sends. */
typedef struct producer {
    mr_shm_listener listener;
    mr_shm_area *area;
    int fd, file;
} producer;

static void begin_producer(producer *g, cut_ends *f) {
    char text[MR_SHM_TEXT];
    mr_shm_offer offer = {.path = ""};
    assert_int_equal(mr_shm_listen(&g->listener, "/tmp"), MR_OK);
    memcpy(offer.path, g->listener.path, sizeof offer.path);
    mr_shm_host(offer.host);
    const mr_action welcome = cut_ends_change(0, MR_PEER_JOINED, mr_shm_offer_print(&offer, text));
    mr_cut_importer_update(f->importer, &welcome);
    assert_int_equal(mr_shm_accept(&g->listener, &g->fd), MR_OK);
    assert_int_equal(mr_shm_area_create(&g->area, &g->file), MR_OK);
    const mr_shm_message rings = {.kind = MR_SHM_RINGS};
    const int passed[] = {g->file, mr_cut_importer_fd(f->importer)};
    assert_int_equal(mr_shm_send(g->fd, &rings, NULL, 0, passed, 2), MR_OK);
}

static void end_producer(producer *g) {
    mr_shm_area_unmap(&g->area);
    close(g->file);
    close(g->fd);
    mr_shm_unlisten(&g->listener);
}

CUT_TEST_APART(a_note_that_is_no_letter_ends_them) {
    producer g;
    const mr_ring_message *message_in;
    uint8_t *place;
    size_t room;
    begin_producer(&g, f);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mr_shm_records_room(&g.area->down, &place, &room), MR_OK);
        memcpy(place, "garbage", 7);
        mr_shm_records_post(&g.area->down, 7);
    }
    assert_false(mr_cut_importer_next(f->importer, 0, &message_in));
    assert_true(rests(f));
    assert_false(mr_cut_importer_next(f->importer, 0, &message_in));
    end_producer(&g);
}

/* Its ring still exists and nobody reads it: only ZeroMQ can reach whoever replaced it. */
CUT_TEST_APART(a_killed_producer_is_not_told_that_one_is_there) {
    producer g;
    const mr_ring_message *message_in;
    begin_producer(&g, f);
    assert_false(mr_cut_importer_next(f->importer, 0, &message_in));
    assert_true(post_back(f, CUT_ENDS_SESSION, 1, 1));
    assert_int_equal(shutdown(g.fd, SHUT_RDWR), 0);
    assert_false(post_back(f, CUT_ENDS_SESSION, 2, 1));
    end_producer(&g);
}

RUN_TESTS(NULL, NULL)
