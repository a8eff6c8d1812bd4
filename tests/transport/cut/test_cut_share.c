/* Frames that cross a cut in shared memory, from the wire's writer to the reader, with both ends that lend and
 * borrow. */
#include <string.h>

#include "engine/device/device.h"
#include "millrace/log.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/transport/cut_ends.h"

static mr_frame *new_picture(cut_ends *f, uint8_t value) {
    mr_frame *frame;
    mr_buffer *buffer;
    assert_int_equal(mr_store_frame(f->store, &frame), MR_OK);
    assert_int_equal(mr_pool_acquire(f->pool, &buffer), MR_OK);
    memset(buffer->data, value, buffer->bytes);
    mr_frame_place(frame, &cut_ends_picture, buffer, 0, MR_ROW_ALIGNMENT);
    mr_buffer_unref(&buffer);
    return frame;
}

/* Returns the frame at the other end; *payload: bytes in parts besides the envelope. */
static mr_frame *cross(cut_ends *f, mr_frame *frame, size_t *payload) {
    mr_cut_item item = {.kind = MR_CUT_FRAME, .identity = frame->identity, .frame = frame, .position = 1};
    const mr_cut_message sent = {
        .kind = MR_MESSAGE_ITEMS, .version = MR_PROTOCOL_NEWEST,
        .session = 1, .number = 1, .items = {.item = &item, .count = 1}};
    const mr_wire_part *parts;
    mr_cut_message got;
    size_t count;
    mr_cut_exporter_aim(f->exporter, CUT_ENDS_SESSION);
    assert_int_equal(mr_wire_write(f->writer, &sent, 0, &parts, &count), MR_OK);
    *payload = 0;
    for (size_t i = 1; i < count; i++)
        *payload += parts[i].bytes;
    mr_cut_importer_aim(f->importer, 0);
    assert_int_equal(mr_wire_read(f->reader, parts, count, 0, &got), MR_OK);
    assert_int_equal(got.items.count, 1);
    return got.items.item[0].frame;
}

static void expect_picture(const mr_frame *frame, uint8_t value) {
    assert_int_equal(frame->format.width, CUT_ENDS_WIDTH);
    for (mr_row row = {0}; mr_next_row(&cut_ends_picture, &row);)
        for (size_t x = 0; x < row.bytes; x++)
            assert_int_equal(mr_row_at(frame->plane, &row)[x], value);
}

CUT_TEST(a_picture_stays_where_it_lies) {
    size_t payload;
    for (uint8_t i = 0; i < 2 * CUT_ENDS_SLOTS; i++) {
        mr_frame *sent = new_picture(f, i), *got = cross(f, sent, &payload);
        /* Anything smaller than MR_SHM_LEAST_BYTES may still be inline. */
        assert_true(payload < mr_format_bytes(&cut_ends_picture) / 2);
        assert_int_equal(got->plane[0].buffer->memory, MR_MEMORY_SHARED);
        mr_frame_unref(&sent);
        expect_picture(got, i);
        assert_int_equal(mr_pool_free_count(f->pool), CUT_ENDS_SLOTS - 1);
        mr_frame_unref(&got);
        mr_cut_exporter_work(f->exporter);
        assert_int_equal(mr_pool_free_count(f->pool), CUT_ENDS_SLOTS);
    }
}

/* Before the peer has come, after it has gone, and from plain memory. */
TEST(what_cannot_be_shared_crosses_inline) {
    cut_ends f;
    size_t payload;
    for (int turn = 0; turn < 3; turn++) {
        cut_ends_begin(&f, turn == 2 ? MR_MEMORY_HOST : MR_MEMORY_SHARED);
        if (turn)
            cut_ends_join(&f);
        const mr_action gone = cut_ends_change(CUT_ENDS_SESSION, MR_PEER_SILENT, NULL);
        if (turn == 1)
            mr_cut_exporter_update(f.exporter, &gone);
        mr_frame *sent = new_picture(&f, 9), *got = cross(&f, sent, &payload);
        assert_true(payload >= mr_format_bytes(&cut_ends_picture));
        expect_picture(got, 9);
        mr_frame_unref(&sent);
        mr_frame_unref(&got);
        cut_ends_end(&f);
    }
}

CUT_TEST_APART(a_peer_that_comes_again_is_lent_to_again) {
    size_t payload;
    cut_ends_join(f);
    mr_frame *sent = new_picture(f, 1), *held = cross(f, sent, &payload);
    mr_frame_unref(&sent);
    const mr_action silent = cut_ends_change(CUT_ENDS_SESSION, MR_PEER_SILENT, NULL);
    mr_cut_exporter_update(f->exporter, &silent);
    assert_int_equal(mr_pool_free_count(f->pool), CUT_ENDS_SLOTS);
    for (int i = 0; i < 3; i++) {
        cut_ends_join(f);
        sent = new_picture(f, 2);
        ENDED_BY(mr_frame_unref) mr_frame *got = cross(f, sent, &payload);
        assert_true(payload < mr_format_bytes(&cut_ends_picture) / 2);
        expect_picture(got, 2);
        mr_frame_unref(&sent);
    }
    mr_frame_unref(&held);
}

static int warnings;

static void count_warnings(void *context, mr_log_level level, const char *line) {
    warnings += level == MR_LOG_WARNING && strstr(line, "a->b: frames cross as copies: shared memory: ") != NULL;
}

CUT_TEST_APART(why_not_is_told_once) {
    mr_log_to(count_warnings, NULL);
    const mr_action elsewhere = cut_ends_change(0, MR_PEER_JOINED, "another-host /tmp/shm");
    const mr_action guest =
        cut_ends_change(CUT_ENDS_SESSION, MR_PEER_JOINED, "another-host 00112233445566778899aabbccddeeff");
    for (int i = 0; i < 2; i++) {
        mr_cut_importer_update(f->importer, &elsewhere);
        mr_cut_exporter_update(f->exporter, &guest);
    }
    mr_log_to(NULL, NULL);
    assert_int_equal(warnings, 2);
}

TEST(a_cut_that_is_inline_shares_nothing) {
    const mr_cut cut = {.name = "a->b", .max_peers = 1, .connect_count = 1};
    ENDED_BY(mr_cut_exporter_destroy) mr_cut_exporter *exporter;
    ENDED_BY(mr_cut_importer_destroy) mr_cut_importer *importer;
    const mr_action joined = cut_ends_change(0, MR_PEER_JOINED, "host /tmp/shm");
    assert_int_equal(mr_cut_exporter_create(&exporter, &cut), MR_OK);
    assert_int_equal(mr_cut_importer_create(&importer, &cut), MR_OK);
    assert_null(exporter);
    assert_null(importer);
    assert_string_equal(mr_cut_exporter_text(exporter), "");
    assert_string_equal(mr_cut_importer_text(importer), "");
    assert_int_equal(mr_cut_exporter_fd(exporter), -1);
    mr_cut_exporter_update(exporter, &joined);
    mr_cut_importer_update(importer, &joined);
    mr_cut_exporter_work(exporter);
    assert_true(mr_cut_importer_arm(importer));
    mr_cut_exporter_aim(exporter, 0);
    const mr_ring_message *message_in;
    const mr_cut_message message = {
        .kind = MR_MESSAGE_BEAT, .version = MR_PROTOCOL_NEWEST, .session = CUT_ENDS_SESSION, .number = 1};
    assert_false(mr_cut_exporter_post(exporter, &message, NULL, 0));
    assert_false(mr_cut_importer_next(importer, 0, &message_in));
    assert_false(mr_cut_importer_post(importer, 0, &message, NULL, 0));
    assert_int_equal(mr_cut_exporter_places(exporter), 0);
    assert_int_equal(mr_cut_importer_fd(importer), -1);
    mr_cut_importer_aim(importer, 0);
}

RUN_TESTS(NULL, NULL)
