/* Frames that cross a cut in shared memory: from the wire's writer to its reader, with the two ends that lend and
 * borrow; and messages that go beside ZeroMQ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/data/pool.h"
#include "engine/device/device.h"
#include "engine/transport/cut_share.h"
#include "engine/transport/shm.h"
#include "engine/transport/shm_area.h"
#include "engine/transport/shm_socket.h"
#include "millrace/status.h"

enum { WIDTH = 128, HEIGHT = 96, SLOTS = 3, SESSION = 7 };

static const mr_format picture = {
    .payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = WIDTH, .height = HEIGHT};

typedef struct fixture {
    mr_cut cut;
    mr_pool *pool;
    mr_store *store;
    mr_names *names;
    mr_cut_lender *lender;
    mr_cut_borrower *borrower;
    mr_wire_writer *writer;
    mr_wire_reader *reader;
} fixture;

static void open_fixture(fixture *f, mr_memory memory) {
    *f = (fixture){.cut = {.name = "a->b", .shared_memory = true, .max_peers = 2, .connect_count = 1}};
    assert_int_equal(mr_pool_create(&f->pool, mr_device_cpu(), memory, mr_format_bytes(&picture), SLOTS), MR_OK);
    assert_int_equal(mr_store_create(&f->store), MR_OK);
    assert_int_equal(mr_names_create(&f->names, 100, 1000), MR_OK);
    assert_int_equal(mr_cut_lender_create(&f->lender, &f->cut), MR_OK);
    assert_int_equal(mr_cut_borrower_create(&f->borrower, &f->cut), MR_OK);
    assert_non_null(f->lender);
    assert_non_null(f->borrower);
    const mr_wire_writer_params writing = {.share = mr_cut_lend, .context = f->lender};
    const mr_wire_reader_params reading = {
        .source_count = 1, .names = f->names, .store = f->store, .map = mr_cut_borrow, .context = f->borrower};
    assert_int_equal(mr_wire_writer_create(&f->writer, &writing), MR_OK);
    assert_int_equal(mr_wire_reader_create(&f->reader, &reading), MR_OK);
}

static void close_fixture(fixture *f) {
    mr_cut_borrower_destroy(&f->borrower);
    mr_cut_lender_destroy(&f->lender);
    mr_wire_writer_destroy(&f->writer);
    mr_wire_reader_destroy(&f->reader);
    mr_store_release(&f->store);
    mr_names_destroy(&f->names);
    assert_int_equal(mr_pool_free_count(f->pool), SLOTS);
    mr_pool_release(&f->pool);
}

static mr_action change(uint32_t peer, mr_peer_change what, const char *memory) {
    return (mr_action){.kind = MR_ACTION_PEER, .peer = peer, .of = {.change = what, .session = peer, .memory = memory}};
}

/* As the session tells it: the giving side hears of the peer first. */
static void join(fixture *f) {
    const mr_action come = change(SESSION, MR_PEER_JOINED, mr_cut_borrower_text(f->borrower));
    const mr_action welcome = change(0, MR_PEER_JOINED, mr_cut_lender_text(f->lender));
    mr_cut_lender_note(f->lender, &come);
    mr_cut_borrower_note(f->borrower, &welcome);
    for (int i = 0; i < 2; i++)
        mr_cut_lender_work(f->lender);
}

static mr_frame *new_picture(fixture *f, uint8_t value) {
    mr_frame *frame;
    mr_buffer *buffer;
    size_t offset = 0;
    assert_int_equal(mr_store_frame(f->store, &frame), MR_OK);
    assert_int_equal(mr_pool_acquire(f->pool, &buffer), MR_OK);
    memset(buffer->data, value, buffer->bytes);
    frame->format = picture;
    for (int i = 0; i < 3; i++) {
        size_t stride = mr_plane_stride(picture.pixel, i, WIDTH);
        size_t bytes = stride * (size_t)mr_plane_rows(picture.pixel, i, HEIGHT);
        frame->plane[i] = (mr_plane){mr_buffer_ref(buffer), buffer->data + offset, (ptrdiff_t)stride, bytes};
        offset += bytes;
    }
    mr_buffer_unref(&buffer);
    return frame;
}

/* What the frame is at the other end; *payload: bytes of the parts that it took beside the envelope. */
static mr_frame *cross(fixture *f, mr_frame *frame, size_t *payload) {
    mr_cut_item item = {.kind = MR_CUT_FRAME, .identity = frame->identity, .frame = frame, .position = 1};
    const mr_cut_message sent = {
        .kind = MR_MESSAGE_ITEMS, .version = MR_PROTOCOL_NEWEST,
        .session = 1, .number = 1, .items = {.item = &item, .count = 1}};
    const mr_wire_part *parts;
    mr_cut_message got;
    size_t count;
    mr_cut_lender_aim(f->lender, SESSION);
    assert_int_equal(mr_wire_write(f->writer, &sent, 0, &parts, &count), MR_OK);
    *payload = 0;
    for (size_t i = 1; i < count; i++)
        *payload += parts[i].bytes;
    mr_cut_borrower_aim(f->borrower, 0);
    assert_int_equal(mr_wire_read(f->reader, parts, count, 0, &got), MR_OK);
    assert_int_equal(got.items.count, 1);
    return got.items.item[0].frame;
}

static void expect_picture(const mr_frame *frame, uint8_t value) {
    assert_int_equal(frame->format.width, WIDTH);
    for (int i = 0; i < 3; i++)
        for (int32_t y = 0; y < mr_plane_rows(picture.pixel, i, HEIGHT); y++)
            for (size_t x = 0; x < mr_plane_row_bytes(picture.pixel, i, WIDTH); x++)
                assert_int_equal(frame->plane[i].data[y * frame->plane[i].stride + (ptrdiff_t)x], value);
}

static void a_picture_stays_where_it_lies(void **state) {
    (void)state;
    fixture f;
    size_t payload;
    open_fixture(&f, MR_MEMORY_SHARED);
    join(&f);
    for (uint8_t i = 0; i < 2 * SLOTS; i++) {
        mr_frame *sent = new_picture(&f, i), *got = cross(&f, sent, &payload);
        /* What is smaller than MR_SHM_LEAST_BYTES may still go inline. */
        assert_true(payload < mr_format_bytes(&picture) / 2);
        assert_int_equal(got->plane[0].buffer->memory, MR_MEMORY_SHARED);
        mr_frame_unref(&sent);
        expect_picture(got, i);
        assert_int_equal(mr_pool_free_count(f.pool), SLOTS - 1);
        mr_frame_unref(&got);
        mr_cut_lender_work(f.lender);
        assert_int_equal(mr_pool_free_count(f.pool), SLOTS);
    }
    close_fixture(&f);
}

/* Before the peer has come, after it has gone, and from plain memory. */
static void what_cannot_be_shared_crosses_inline(void **state) {
    (void)state;
    fixture f;
    size_t payload;
    for (int turn = 0; turn < 3; turn++) {
        open_fixture(&f, turn == 2 ? MR_MEMORY_HOST : MR_MEMORY_SHARED);
        if (turn)
            join(&f);
        const mr_action gone = change(SESSION, MR_PEER_SILENT, NULL);
        if (turn == 1)
            mr_cut_lender_note(f.lender, &gone);
        mr_frame *sent = new_picture(&f, 9), *got = cross(&f, sent, &payload);
        assert_true(payload >= mr_format_bytes(&picture));
        expect_picture(got, 9);
        mr_frame_unref(&sent);
        mr_frame_unref(&got);
        close_fixture(&f);
    }
}

static void a_peer_that_comes_again_is_lent_to_again(void **state) {
    (void)state;
    fixture f;
    size_t payload;
    open_fixture(&f, MR_MEMORY_SHARED);
    join(&f);
    mr_frame *sent = new_picture(&f, 1), *held = cross(&f, sent, &payload);
    mr_frame_unref(&sent);
    const mr_action silent = change(SESSION, MR_PEER_SILENT, NULL);
    mr_cut_lender_note(f.lender, &silent);
    assert_int_equal(mr_pool_free_count(f.pool), SLOTS);
    for (int i = 0; i < 3; i++) {
        join(&f);
        sent = new_picture(&f, 2);
        mr_frame *got = cross(&f, sent, &payload);
        assert_true(payload < mr_format_bytes(&picture) / 2);
        expect_picture(got, 2);
        mr_frame_unref(&sent);
        mr_frame_unref(&got);
    }
    mr_frame_unref(&held);
    close_fixture(&f);
}

static int warnings;

static void count_warnings(void *context, mr_log_level level, const char *line) {
    (void)context;
    warnings += level == MR_LOG_WARNING && strstr(line, "a->b: frames cross as copies: shared memory: ") != NULL;
}

static void why_not_is_told_once(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, MR_MEMORY_SHARED);
    mr_log_to(count_warnings, NULL);
    const mr_action elsewhere = change(0, MR_PEER_JOINED, "another-host /tmp/shm");
    const mr_action guest = change(SESSION, MR_PEER_JOINED, "another-host 00112233445566778899aabbccddeeff");
    for (int i = 0; i < 2; i++) {
        mr_cut_borrower_note(f.borrower, &elsewhere);
        mr_cut_lender_note(f.lender, &guest);
    }
    mr_log_to(NULL, NULL);
    assert_int_equal(warnings, 2);
    close_fixture(&f);
}

/* ---- letters ----------------------------------------------------------------------------------------------------- */

enum { MOST_PARTS = MR_WIRE_BLOCKS + 1 };

static mr_cut_message message_of(uint64_t number) {
    return (mr_cut_message){.kind = MR_MESSAGE_BEAT, .version = MR_PROTOCOL_NEWEST,
                            .session = SESSION, .number = number};
}

/* Parts of 0, 1, 2, ... bytes that are all their own number. */
static void make_parts(mr_wire_part *parts, size_t count) {
    static uint8_t bytes[MOST_PARTS][MOST_PARTS];
    for (size_t i = 0; i < count; i++) {
        memset(bytes[i], (int)i, i);
        parts[i] = (mr_wire_part){.data = bytes[i], .bytes = i};
    }
}

static void a_letter_is_read_as_it_was_written(void **state) {
    static _Alignas(8) uint8_t note[MR_SHM_NOTE_BYTES];
    static mr_wire_part parts[MOST_PARTS];
    static mr_letter letter;
    const mr_cut_message message = message_of(UINT64_MAX);
    (void)state;
    make_parts(parts, MOST_PARTS);
    for (size_t count = 1; count <= MOST_PARTS; count++) {
        size_t bytes = 0, again = 0;
        assert_int_equal(mr_letter_write(note, sizeof note, &message, parts, count, &bytes), MR_OK);
        assert_int_equal(mr_letter_write(note, bytes, &message, parts, count, &again), MR_OK);
        assert_int_equal(again, bytes);
        assert_int_equal(mr_letter_write(note, bytes - 1, &message, parts, count, &again), MR_ERROR_AGAIN);
        assert_int_equal(mr_letter_write(note, bytes, &message, parts, count, &again), MR_OK);
        assert_int_equal(mr_letter_read(note, bytes, &letter), MR_OK);
        assert_int_equal(letter.session, SESSION);
        assert_int_equal(letter.number, UINT64_MAX);
        assert_int_equal(letter.count, count);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(letter.parts[i].bytes, i);
            assert_int_equal((uintptr_t)letter.parts[i].data % 8, 0);
            assert_memory_equal(letter.parts[i].data, parts[i].data, i);
        }
    }
}

/* Notes of every length in blocks of their own, so that a sanitizer sees who reads beyond; and with each of their sizes
 * and their count beyond what there is. */
static void what_is_no_letter_is_refused(void **state) {
    static uint8_t note[4096];
    static mr_wire_part parts[MOST_PARTS];
    static mr_letter letter;
    const mr_cut_message message = message_of(1);
    size_t bytes;
    (void)state;
    make_parts(parts, 20);
    assert_int_equal(mr_letter_write(note, sizeof note, &message, parts, 20, &bytes), MR_OK);
    for (size_t length = 0; length < bytes; length++) {
        uint8_t *cut = malloc(length + 1);
        memcpy(cut, note, length);
        assert_int_equal(mr_letter_read(cut, length, &letter), MR_ERROR_PROTOCOL);
        free(cut);
    }
    static const uint64_t wrong[] = {0, MOST_PARTS + 1, 1 << 20, UINT64_MAX / 8 + 1, UINT64_MAX - 6, UINT64_MAX};
    for (size_t at = 2 * sizeof(uint64_t); at < (3 + 20) * sizeof(uint64_t); at += sizeof(uint64_t))
        for (size_t i = at > 2 * sizeof(uint64_t); i < sizeof wrong / sizeof *wrong; i++) {
            uint8_t *damaged = malloc(bytes);
            memcpy(damaged, note, bytes);
            memcpy(damaged + at, &wrong[i], sizeof wrong[i]);
            assert_int_equal(mr_letter_read(damaged, bytes, &letter), MR_ERROR_PROTOCOL);
            free(damaged);
        }
    assert_int_equal(mr_letter_read(note, bytes + 8, &letter), MR_ERROR_PROTOCOL);
    assert_string_equal(mr_message(), "shared memory: the other end sends a note that is no message");
}

static bool rests(const fixture *f) {
    return mr_cut_borrower_rest(f->borrower);
}

static bool is_ringing(const fixture *f) {
    return poll(&(struct pollfd){.fd = mr_cut_borrower_fd(f->borrower), .events = POLLIN}, 1, 0) == 1;
}

static bool post(fixture *f, uint64_t number, size_t bytes) {
    static uint8_t payload[2 * MR_SHM_NOTE_BYTES];
    const mr_cut_message message = message_of(number);
    const mr_wire_part parts[] = {{.data = payload, .bytes = 100}, {.data = payload, .bytes = bytes}};
    mr_cut_lender_aim(f->lender, SESSION);
    return mr_cut_lender_post(f->lender, &message, parts, 2);
}

static void expect_letter(fixture *f, uint64_t number, size_t bytes) {
    const mr_letter *letter = NULL;
    for (int again = 0; again < 2; again++) {
        assert_true(mr_cut_borrower_next(f->borrower, 0, &letter));
        assert_int_equal(letter->session, SESSION);
        assert_int_equal(letter->number, number);
        assert_int_equal(letter->count, 2);
        assert_int_equal(letter->parts[1].bytes, bytes);
    }
    mr_cut_borrower_take(f->borrower, 0);
}

static void letters_go_to_a_peer_that_is_attached(void **state) {
    (void)state;
    fixture f;
    const mr_letter *letter;
    open_fixture(&f, MR_MEMORY_SHARED);
    assert_false(post(&f, 1, 1));
    assert_false(mr_cut_borrower_next(f.borrower, 0, &letter));
    join(&f);
    assert_true(rests(&f));
    /* What is said to begin with is of the other way: a handshake, and the rings that come before all letters. */
    assert_false(mr_cut_borrower_next(f.borrower, 0, &letter));
    assert_false(is_ringing(&f));
    assert_false(post(&f, 0, 1));
    assert_false(post(&f, 1, MR_SHM_NOTE_BYTES));
    assert_false(is_ringing(&f));
    assert_true(post(&f, 1, 7));
    assert_true(is_ringing(&f));
    expect_letter(&f, 1, 7);
    assert_true(rests(&f));
    assert_false(is_ringing(&f));
    /* One that waits for its turn keeps nobody awake. */
    assert_true(post(&f, 3, 8));
    assert_true(post(&f, 4, 9));
    assert_true(mr_cut_borrower_next(f.borrower, 0, &letter));
    assert_true(rests(&f));
    assert_false(is_ringing(&f));
    assert_true(post(&f, 5, 10));
    assert_false(is_ringing(&f));
    expect_letter(&f, 3, 8);
    assert_false(rests(&f));
    expect_letter(&f, 4, 9);
    expect_letter(&f, 5, 10);
    assert_true(rests(&f));
    assert_false(is_ringing(&f));
    close_fixture(&f);
}

static int crowded;

static void count_crowded(void *context, mr_log_level level, const char *line) {
    (void)context;
    crowded += level == MR_LOG_INFO && strstr(line, "a->b: the ring beside ZeroMQ is full") != NULL;
}

/* A taker that reads nothing fills the ring; what then goes the other way is not lost, and what is there stays. */
static void a_full_ring_sends_letters_the_other_way(void **state) {
    (void)state;
    fixture f;
    const mr_letter *letter;
    open_fixture(&f, MR_MEMORY_SHARED);
    join(&f);
    crowded = 0;
    mr_log_set_level(MR_LOG_INFO);
    mr_log_to(count_crowded, NULL);
    for (int turn = 1; turn <= 2; turn++) {
        uint64_t count = 0;
        while (post(&f, count + 1, 1000))
            assert_in_range(++count, 1, 100000);
        assert_false(post(&f, count + 1, 1000));
        for (uint64_t i = 1; i <= count; i++)
            expect_letter(&f, i, 1000);
        assert_false(mr_cut_borrower_next(f.borrower, 0, &letter));
    }
    mr_log_to(NULL, NULL);
    mr_log_set_level(MR_LOG_WARNING);
    assert_int_equal(crowded, 1);
    close_fixture(&f);
}

/* What has arrived before the giving side ended is still there; its end keeps nobody awake. */
static void letters_outlive_their_sender(void **state) {
    (void)state;
    fixture f;
    const mr_letter *letter;
    open_fixture(&f, MR_MEMORY_SHARED);
    join(&f);
    assert_true(post(&f, 1, 5));
    assert_true(post(&f, 2, 6));
    mr_cut_lender_destroy(&f.lender);
    expect_letter(&f, 1, 5);
    expect_letter(&f, 2, 6);
    for (int i = 0; i < 2; i++)
        assert_false(mr_cut_borrower_next(f.borrower, 0, &letter));
    assert_true(rests(&f));
    assert_false(is_ringing(&f));
    close_fixture(&f);
}

/* ---- letters back ------------------------------------------------------------------------------------------------ */

static bool post_back(fixture *f, uint64_t session, uint64_t number, size_t bytes) {
    static uint8_t payload[2 * MR_SHM_NOTE_BYTES];
    mr_cut_message message = message_of(number);
    const mr_wire_part part = {.data = payload, .bytes = bytes};
    message.session = session;
    return mr_cut_borrower_post(f->borrower, 0, &message, &part, 1);
}

/* The place of the one taker. */
static size_t place_of_it(fixture *f) {
    const mr_letter *letter;
    size_t place = 0;
    while (place < mr_cut_lender_places(f->lender) && !mr_cut_lender_next(f->lender, place, &letter))
        place++;
    return place;
}

static void expect_letter_back(fixture *f, uint64_t number, size_t bytes) {
    const mr_letter *letter = NULL;
    size_t place = place_of_it(f);
    assert_true(place < mr_cut_lender_places(f->lender));
    for (int again = 0; again < 2; again++) {
        assert_true(mr_cut_lender_next(f->lender, place, &letter));
        assert_int_equal(letter->session, SESSION);
        assert_int_equal(letter->number, number);
        assert_int_equal(letter->count, 1);
        assert_int_equal(letter->parts[0].bytes, bytes);
    }
    mr_cut_lender_take(f->lender, place);
}

static bool calls(fixture *f) {
    mr_cut_lender_work(f->lender);
    return poll(&(struct pollfd){.fd = mr_cut_lender_fd(f->lender), .events = POLLIN}, 1, 0) == 1;
}

static void letters_come_back(void **state) {
    (void)state;
    fixture f;
    const mr_letter *letter;
    open_fixture(&f, MR_MEMORY_SHARED);
    assert_false(post_back(&f, SESSION, 1, 1));
    join(&f);
    /* The giving side has not said yet that it knows this one; what it says is taken in with its letters. */
    assert_false(post_back(&f, SESSION, 1, 1));
    assert_false(mr_cut_borrower_next(f.borrower, 0, &letter));
    assert_false(post_back(&f, SESSION, 0, 1));
    assert_false(post_back(&f, SESSION, 1, MR_SHM_NOTE_BYTES));
    assert_false(calls(&f));
    assert_true(post_back(&f, SESSION, 1, 7));
    assert_true(calls(&f));
    expect_letter_back(&f, 1, 7);
    assert_false(calls(&f));
    /* One that waits for its turn keeps nobody awake. */
    assert_true(post_back(&f, SESSION, 3, 8));
    assert_true(post_back(&f, SESSION, 4, 9));
    assert_int_not_equal(place_of_it(&f), mr_cut_lender_places(f.lender));
    assert_false(calls(&f));
    expect_letter_back(&f, 3, 8);
    assert_true(calls(&f));
    expect_letter_back(&f, 4, 9);
    assert_int_equal(place_of_it(&f), mr_cut_lender_places(f.lender));
    close_fixture(&f);
}

/* A taker speaks of its own session only; one that does not is not listened to before it comes again. */
static void a_taker_that_speaks_for_others_is_not_heard(void **state) {
    (void)state;
    fixture f;
    const mr_letter *letter;
    open_fixture(&f, MR_MEMORY_SHARED);
    for (int turn = 0; turn < 2; turn++) {
        join(&f);
        assert_false(mr_cut_borrower_next(f.borrower, 0, &letter));
        assert_true(post_back(&f, SESSION, 1, 3));
        expect_letter_back(&f, 1, 3);
        assert_true(post_back(&f, SESSION + 1, 2, 3));
        assert_true(post_back(&f, SESSION, 2, 3));
        assert_int_equal(place_of_it(&f), mr_cut_lender_places(f.lender));
        assert_false(calls(&f));
        assert_int_equal(place_of_it(&f), mr_cut_lender_places(f.lender));
    }
    close_fixture(&f);
}

static void letters_outlive_the_taker(void **state) {
    (void)state;
    fixture f;
    const mr_letter *letter;
    open_fixture(&f, MR_MEMORY_SHARED);
    join(&f);
    assert_false(mr_cut_borrower_next(f.borrower, 0, &letter));
    assert_true(post(&f, 1, 5));
    assert_true(post_back(&f, SESSION, 1, 6));
    assert_true(post_back(&f, SESSION, 2, 7));
    mr_cut_borrower_destroy(&f.borrower);
    assert_true(calls(&f));
    expect_letter_back(&f, 1, 6);
    expect_letter_back(&f, 2, 7);
    assert_int_equal(place_of_it(&f), mr_cut_lender_places(f.lender));
    assert_false(calls(&f));
    assert_false(post(&f, 2, 5));
    close_fixture(&f);
}

/* ---- what is none ------------------------------------------------------------------------------------------------ */

/* A giving side that is none, and what it sends. */
static void a_note_that_is_no_letter_ends_them(void **state) {
    (void)state;
    fixture f;
    const mr_letter *letter;
    char text[MR_SHM_TEXT];
    mr_shm_listener listener;
    int fd;
    mr_shm_offer offer = {.path = ""};
    open_fixture(&f, MR_MEMORY_SHARED);
    assert_int_equal(mr_shm_listen(&listener, "/tmp"), MR_OK);
    memcpy(offer.path, listener.path, sizeof offer.path);
    mr_shm_host(offer.host);
    const mr_action welcome = change(0, MR_PEER_JOINED, mr_shm_offer_print(&offer, text));
    mr_cut_borrower_note(f.borrower, &welcome);
    assert_int_equal(mr_shm_accept(listener.fd, &fd), MR_OK);
    mr_shm_area *area;
    int file;
    uint8_t *place;
    size_t room;
    assert_int_equal(mr_shm_area_create(&area, &file), MR_OK);
    const mr_shm_message rings = {.kind = MR_SHM_RINGS};
    assert_int_equal(mr_shm_send(fd, &rings, NULL, 0, (const int[]){file, mr_cut_borrower_fd(f.borrower)}, 2), MR_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mr_shm_notes_room(&area->down, &place, &room), MR_OK);
        memcpy(place, "garbage", 7);
        mr_shm_notes_post(&area->down, 7);
    }
    assert_false(mr_cut_borrower_next(f.borrower, 0, &letter));
    assert_true(rests(&f));
    assert_false(mr_cut_borrower_next(f.borrower, 0, &letter));
    mr_shm_area_unmap(&area);
    close(file);
    close(fd);
    mr_shm_unlisten(&listener);
    close_fixture(&f);
}

static void a_cut_that_is_inline_shares_nothing(void **state) {
    (void)state;
    const mr_cut cut = {.name = "a->b", .max_peers = 1, .connect_count = 1};
    mr_cut_lender *lender;
    mr_cut_borrower *borrower;
    const mr_action joined = change(0, MR_PEER_JOINED, "host /tmp/shm");
    assert_int_equal(mr_cut_lender_create(&lender, &cut), MR_OK);
    assert_int_equal(mr_cut_borrower_create(&borrower, &cut), MR_OK);
    assert_null(lender);
    assert_null(borrower);
    assert_string_equal(mr_cut_lender_text(lender), "");
    assert_string_equal(mr_cut_borrower_text(borrower), "");
    assert_int_equal(mr_cut_lender_fd(lender), -1);
    mr_cut_lender_note(lender, &joined);
    mr_cut_borrower_note(borrower, &joined);
    mr_cut_lender_work(lender);
    assert_true(mr_cut_borrower_rest(borrower));
    mr_cut_lender_aim(lender, 0);
    const mr_letter *letter;
    const mr_cut_message message = message_of(1);
    assert_false(mr_cut_lender_post(lender, &message, NULL, 0));
    assert_false(mr_cut_borrower_next(borrower, 0, &letter));
    assert_false(mr_cut_borrower_post(borrower, 0, &message, NULL, 0));
    assert_int_equal(mr_cut_lender_places(lender), 0);
    assert_int_equal(mr_cut_borrower_fd(borrower), -1);
    mr_cut_borrower_aim(borrower, 0);
    mr_cut_lender_destroy(&lender);
    mr_cut_borrower_destroy(&borrower);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_stays_where_it_lies),
        cmocka_unit_test(what_cannot_be_shared_crosses_inline),
        cmocka_unit_test(a_peer_that_comes_again_is_lent_to_again),
        cmocka_unit_test(why_not_is_told_once),
        cmocka_unit_test(a_letter_is_read_as_it_was_written),
        cmocka_unit_test(what_is_no_letter_is_refused),
        cmocka_unit_test(letters_go_to_a_peer_that_is_attached),
        cmocka_unit_test(a_full_ring_sends_letters_the_other_way),
        cmocka_unit_test(letters_outlive_their_sender),
        cmocka_unit_test(letters_come_back),
        cmocka_unit_test(a_taker_that_speaks_for_others_is_not_heard),
        cmocka_unit_test(letters_outlive_the_taker),
        cmocka_unit_test(a_note_that_is_no_letter_ends_them),
        cmocka_unit_test(a_cut_that_is_inline_shares_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
