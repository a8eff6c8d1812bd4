/* JPEGs from a byte stream, in reads of any length, in each form that cameras send. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "stages/live/mjpeg/joined.h"
#include "tests/support/suite.h"

enum { MOST = 1 << 20, STREAM = 1 << 16 };

/* Makes a small JPEG with structure only: APP0, a frame header with that size, and a scan with misleading bytes
 * (stuffed zeros, restart markers, boundaries). */
static size_t write_jpeg(uint8_t *to, int width, int height, const char *in_scan, bool ended) {
    const uint8_t head[] = {0xff, 0xd8, 0xff, 0xe0, 0, 6, 0xff, 0xd8, 0xff, 0xd9, 0xff, 0xc0, 0, 11, 8,
                            (uint8_t)(height >> 8), (uint8_t)height, (uint8_t)(width >> 8), (uint8_t)width, 1, 1, 0x11,
                            0, 0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 1, 2, 0xff, 0, 0xd9, 0xff, 0xd3, 7};
    size_t bytes = sizeof head, more = strlen(in_scan);
    memcpy(to, head, bytes);
    memcpy(to + bytes, in_scan, more);
    bytes += more;
    to[bytes] = 0x33;
    memcpy(to + bytes + 1, "\xff\xd9", 2);
    return bytes + (ended ? 3 : 1);
}

typedef struct stream {
    uint8_t data[STREAM];
    size_t bytes;
    uint8_t pictures[8][512];
    size_t sizes[8];
    int count;
} stream;

static void add(stream *to, const char *text) {
    memcpy(to->data + to->bytes, text, strlen(text));
    to->bytes += strlen(text);
}

static void add_jpeg(stream *to, const char *in_scan, bool ended) {
    const size_t bytes = write_jpeg(to->pictures[to->count], 160 + to->count, 120, in_scan, ended);
    memcpy(to->data + to->bytes, to->pictures[to->count], bytes);
    to->bytes += bytes;
    to->sizes[to->count++] = bytes;
}

/* Adds a part whose header declares `bytes`. Below 0: the right number. */
static void add_part(stream *to, const char *boundary, long bytes) {
    char text[128];
    uint8_t unused[512];
    const size_t right = write_jpeg(unused, 1, 1, "", true);
    snprintf(text, sizeof text, "%sContent-Type: image/jpeg\r\nContent-Length: %ld\r\n\r\n", boundary,
             bytes < 0 ? (long)right : bytes);
    add(to, text);
    add_jpeg(to, "", true);
}

static int put(mr_joined *joined, const uint8_t *data, size_t bytes) {
    size_t room;
    uint8_t *to = mr_joined_room(joined, &room);
    assert_non_null(to);
    assert_in_range(bytes, 1, room);
    memcpy(to, data, bytes);
    mr_joined_put(joined, bytes);
    return 0;
}

/* Checks that all pictures come, with reads of `step` bytes. `open`: without EOI. */
static void check_in_steps(const stream *of, size_t step, bool open) {
    mr_joined *joined;
    mr_joined_picture picture;
    int count = 0;
    assert_int_equal(mr_joined_create(&joined, MOST), MR_OK);
    for (size_t at = 0; at < of->bytes; at += step) {
        put(joined, of->data + at, at + step < of->bytes ? step : of->bytes - at);
        int status;
        while (!(status = mr_joined_take(joined, &picture))) {
            assert_in_range(count, 0, of->count - 1);
            assert_int_equal(picture.bytes, of->sizes[count]);
            assert_memory_equal(picture.data, of->pictures[count], picture.bytes);
            assert_int_equal(picture.width, 160 + count++);
            assert_int_equal(picture.height, 120);
            assert_int_equal(picture.open, open);
            assert_false(picture.damaged);
        }
        assert_int_equal(status, MR_ERROR_AGAIN);
    }
    assert_int_equal(count, of->count);
    assert_int_equal(mr_joined_broken(joined), 0);
    mr_joined_destroy(&joined);
    assert_null(joined);
}

static void check(const stream *of, bool open) {
    for (size_t step = 1; step < 40; step++)
        check_in_steps(of, step, open);
    check_in_steps(of, 4000, open);
}

TEST(test_forms) {
    static const char *const boundaries[] = {"\r\n--x\r\n", "\n--x\n", "\r\n----x y\r\n", "\r\nx\r\n", ""};
    static const long lengths[] = {-1, 1, 10, 100000, 0};
    for (size_t i = 0; i < sizeof boundaries / sizeof *boundaries; i++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            stream of = {.bytes = 0};
            for (int number = 0; number < 4; number++)
                add_part(&of, boundaries[i], lengths[k]);
            check(&of, false);
        }
}

TEST(test_without_headers) {
    stream of = {.bytes = 0}, between = {.bytes = 0};
    for (int i = 0; i < 4; i++)
        add_jpeg(&of, "\r\n--x\r\nContent-Type: text/plain\r\n\r\n", true);
    check(&of, false);
    for (int i = 0; i < 4; i++) {
        add(&between, "--x\r\nContent-Type: text/plain\r\nContent-Length: 70000\r\n\r\n"
                      "hello \xff\xff and \xff\xd8!\r\n--x\r\n\r\n");
        add_jpeg(&between, "", true);
    }
    check(&between, false);
}

/* A part whose declared size exceeds the first JPEG contains a second one. */
TEST(test_a_second_picture_of_a_part) {
    stream of = {.bytes = 0};
    uint8_t second[512];
    const size_t bytes = write_jpeg(second, 16, 16, "", true);
    for (int i = 0; i < 3; i++) {
        add_part(&of, "\r\n--x\r\n", (long)(2 * bytes));
        memcpy(of.data + of.bytes, second, bytes);
        of.bytes += bytes;
    }
    check(&of, false);
}

TEST(test_without_an_end) {
    char text[64];
    stream of = {.bytes = 0}, undeclared = {.bytes = 0};
    uint8_t unused[512];
    snprintf(text, sizeof text, "\r\n--x\r\nContent-Length: %zu\r\n\r\n", write_jpeg(unused, 1, 1, "", false));
    for (int i = 0; i < 4; i++) {
        add(&of, text);
        add_jpeg(&of, "", false);
    }
    add(&of, "\r\n--x\r\n");
    check(&of, true);
    for (int i = 0; i < 4; i++) {
        add(&undeclared, "\r\n--x\r\n\r\n");
        add_jpeg(&undeclared, "", false);
    }
    /* Without a declared size, the last one ends when the next begins. */
    undeclared.count--;
    check(&undeclared, true);
}

TEST(test_cut_off) {
    stream of = {.bytes = 0};
    ENDED_BY(mr_joined_destroy) mr_joined *joined;
    mr_joined_picture picture;
    add_jpeg(&of, "", true);
    of.bytes -= 4; /* inside the scan */
    add_jpeg(&of, "", true);
    of.bytes -= 30; /* inside the segments: the next SOI is read as part of a segment */
    add_jpeg(&of, "", true);
    add_jpeg(&of, "", true);
    assert_int_equal(mr_joined_create(&joined, MOST), MR_OK);
    put(joined, of.data, of.bytes);
    assert_int_equal(mr_joined_take(joined, &picture), MR_OK);
    assert_true(picture.damaged && picture.open);
    int sound = 0;
    while (!mr_joined_take(joined, &picture))
        sound += !picture.damaged;
    assert_true(sound >= 1);
    assert_int_equal(picture.width, 163);
}

/* Bytes without a picture must be bounded, whatever they look like, and so must the memory for them. */
TEST(test_too_much) {
    static const char *const begins[] = {"", "\xff\xd8\xff",
                                         "--x\r\nContent-Length: 2000000000\r\n\r\n\xff\xd8\xff\xda"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        ENDED_BY(mr_joined_destroy) mr_joined *joined;
        mr_joined_picture picture;
        uint8_t more[8192];
        size_t sent = 0;
        memset(more, 0x55, sizeof more);
        assert_int_equal(mr_joined_create(&joined, MOST), MR_OK);
        if (*begins[i])
            put(joined, (const uint8_t *)begins[i], strlen(begins[i]));
        while (mr_joined_take(joined, &picture) == MR_ERROR_AGAIN) {
            put(joined, more, sizeof more);
            sent += sizeof more;
            assert_in_range(sent, 1, MOST + 2 * sizeof more);
        }
        assert_int_equal(mr_joined_take(joined, &picture), MR_ERROR_DATA);
        assert_true(sent >= MOST - sizeof more);
    }
}

TEST(test_types) {
    ENDED_BY(mr_joined_destroy) mr_joined *joined;
    mr_joined_picture picture;
    static const char text[] = "--x\r\nContent-Type: image/png\r\nContent-Length: 4\r\n\r\n\x89PNG";
    assert_int_equal(mr_joined_create(&joined, MOST), MR_OK);
    assert_string_equal(mr_joined_type(joined), "");
    put(joined, (const uint8_t *)text, sizeof text - 1);
    assert_int_equal(mr_joined_take(joined, &picture), MR_ERROR_AGAIN);
    assert_string_equal(mr_joined_type(joined), "image/png");
}

/* Random changes in a stream: the reader must not read past it, and each picture must lie within it. */
TEST(test_any_bytes) {
    unsigned seed = 7;
    for (int round = 0; round < 3000; round++) {
        stream of = {.bytes = 0};
        ENDED_BY(mr_joined_destroy) mr_joined *joined;
        mr_joined_picture picture;
        for (int i = 0; i < 4; i++)
            add_part(&of, "\r\n--x\r\n", rand_r(&seed) % 200);
        for (int i = 0; i < 6; i++)
            of.data[(size_t)rand_r(&seed) % of.bytes] = (uint8_t)(i % 2 ? 0xff : rand_r(&seed));
        assert_int_equal(mr_joined_create(&joined, MOST), MR_OK);
        for (size_t at = 0, step; at < of.bytes; at += step) {
            step = 1 + (size_t)rand_r(&seed) % 100;
            step = step < of.bytes - at ? step : of.bytes - at;
            put(joined, of.data + at, step);
            while (!mr_joined_take(joined, &picture))
                assert_true(picture.bytes >= 2 && picture.bytes <= at + step && picture.data[0] == 0xff);
        }
    }
}

RUN_TESTS(NULL, NULL)
