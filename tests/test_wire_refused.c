/* Bytes that are no messages: damage in every part, what would take more memory than is allowed; and that reading
 * allocates nothing for a frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "tests/support/wire_frames.h"

/* A message with one picture and one tensor, read after `damage` was done to its parts. */
static int read_damaged(void (*damage)(mr_wire_part *parts, size_t *count), char *words) {
    wire_fixture f;
    wire_open(&f, MR_COMPRESSION_NONE, true);
    mr_frame *frame = wire_picture(&f, MR_PIXEL_I420, 64, 64);
    wire_add_tensor(&f, frame, 5000);
    mr_cut_item item = {.kind = MR_CUT_FRAME, .frame = frame, .position = 1};
    mr_cut_message came, message = {.kind = MR_MESSAGE_ITEMS, .version = MR_PROTOCOL_NEWEST, .items = {&item, 1}};
    const mr_wire_part *parts;
    mr_wire_part carried[4];
    size_t count;
    assert_int_equal(mr_wire_write(f.writer, &message, NOW, &parts, &count), MR_OK);
    assert_int_equal(count, 3);
    wire_carry(parts, count, carried, false);
    mr_wire_part damaged[4];
    memcpy(damaged, carried, sizeof carried);
    size_t damaged_count = count;
    damage(damaged, &damaged_count);
    int status = mr_wire_read(f.reader, damaged, damaged_count, NOW, &came);
    snprintf(words, 200, "%s", mr_message());
    wire_uncarry(carried, count, false);
    mr_frame_unref(&frame);
    wire_close(&f);
    return status;
}

static void flip_a_bit_of_the_envelope(mr_wire_part *parts, size_t *count) {
    (void)count;
    ((uint8_t *)(uintptr_t)parts[0].data)[9] ^= 4;
}
static void flip_a_bit_of_the_payload(mr_wire_part *parts, size_t *count) {
    (void)count;
    ((uint8_t *)(uintptr_t)parts[1].data)[9] ^= 4;
}
static void lose_a_part(mr_wire_part *parts, size_t *count) {
    (void)parts;
    --*count;
}
static void shorten_a_part(mr_wire_part *parts, size_t *count) {
    (void)count;
    parts[1].bytes--;
}
static void lose_the_envelope(mr_wire_part *parts, size_t *count) {
    --*count;
    memmove(parts, parts + 1, *count * sizeof *parts);
}
static void lose_all(mr_wire_part *parts, size_t *count) {
    (void)parts;
    *count = 0;
}

static void test_damage(void **state) {
    (void)state;
    char words[200];
    static void (*const damage[])(mr_wire_part *, size_t *) = {flip_a_bit_of_the_envelope, flip_a_bit_of_the_payload,
                                                               lose_a_part, shorten_a_part, lose_the_envelope,
                                                               lose_all};
    static const char *const expected[] = {
        "an envelope whose checksum is wrong", "a payload whose checksum is wrong",
        "1 parts of payload where the envelope tells of 2", "a part of 8159 bytes that should have 8160",
        "an envelope whose checksum is wrong", "a message of 0 parts; it has 1 to 257"};
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        assert_int_equal(read_damaged(damage[i], words), MR_ERROR_PROTOCOL);
        assert_string_equal(words, expected[i]);
    }
}

static void test_memory_is_bounded(void **state) {
    (void)state;
    wire_fixture f;
    wire_open(&f, MR_COMPRESSION_NONE, false);
    mr_frame *frame = wire_tensor(&f, MR_DTYPE_U8, 1, &(int64_t){50000});
    frame->plane[0].buffer->memory = MR_MEMORY_DEVICE;
    mr_cut_item item = {.kind = MR_CUT_FRAME, .frame = frame, .position = 1};
    mr_cut_message came, message = {.kind = MR_MESSAGE_ITEMS, .version = MR_PROTOCOL_NEWEST, .items = {&item, 1}};
    const mr_wire_part *parts;
    size_t count;
    assert_int_equal(mr_wire_write(f.writer, &message, NOW, &parts, &count), MR_ERROR_DATA);
    frame->plane[0].buffer->memory = MR_MEMORY_HOST;
    assert_int_equal(mr_wire_write(f.writer, &message, NOW, &parts, &count), MR_OK);
    const mr_wire_reader_params small = {
        .source_count = 4, .names = f.names, .store = f.store, .most_bytes = 49999};
    mr_wire_reader_destroy(&f.reader);
    assert_int_equal(mr_wire_reader_create(&f.reader, &small), MR_OK);
    assert_int_equal(mr_wire_read(f.reader, parts, count, NOW, &came), MR_ERROR_PROTOCOL);
    assert_string_equal(mr_message(), "a message with more payload than the 49999 bytes that are taken");
    mr_frame_unref(&frame);
    wire_close(&f);
}

/* After some messages nothing is allocated for more of them, but buffers that frames hold. */
static void test_nothing_is_allocated(void **state) {
    (void)state;
    wire_fixture f;
    wire_open(&f, MR_COMPRESSION_NONE, false);
    uint64_t before = 0;
    mr_frame *frame = wire_picture(&f, MR_PIXEL_I420, 640, 480);
    wire_add_classes(&f, frame, "classify");
    mr_cut_item item = {.kind = MR_CUT_FRAME, .frame = frame, .position = 1};
    mr_cut_message came, message = {.kind = MR_MESSAGE_ITEMS, .version = MR_PROTOCOL_NEWEST, .items = {&item, 1}};
    for (int i = 0; i < 20; i++) {
        const mr_wire_part *parts;
        size_t count;
        if (i == 5)
            before = mr_allocation_count();
        assert_int_equal(mr_wire_write(f.writer, &message, NOW, &parts, &count), MR_OK);
        assert_int_equal(mr_wire_read(f.reader, parts, count, NOW, &came), MR_OK);
        mr_frame_unref(&came.items.item->frame);
    }
    assert_int_equal(mr_allocation_count(), before);
    mr_frame_unref(&frame);
    wire_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_nothing_is_allocated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
