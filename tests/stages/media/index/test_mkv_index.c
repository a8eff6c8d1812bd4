/* Generated headers, fed in pieces of any size. An element counts if libavformat would read it. */
#include <stdlib.h>
#include <string.h>

#include "stages/media/index/mkv_index.h"
#include "tests/stages/media/index/pieces.h"

enum { MOST = 1 << 14, TRACK = 2048, HEADER = 0x1a45dfa3, SEGMENT = 0x18538067, TRACKS = 0x1654ae6b,
       TAGS = 0x1254c367, CLUSTER = 0x1f43b675, ENTRY = 0xae, TAG = 0x7373, SIMPLE = 0x67c8, VOID = 0xec };

static uint8_t made[MOST];
static size_t bytes;

static void put_id(uint32_t id) {
    for (int shift = 24; shift >= 0; shift -= 8)
        if (id >> shift)
            made[bytes++] = (uint8_t)(id >> shift);
}

/* Begins an element. The size, in eight bytes, is unknown until end() sets it. */
static size_t begin(uint32_t id) {
    put_id(id);
    made[bytes] = 1;
    memset(made + bytes + 1, 0xff, 7);
    return bytes += 8;
}

static void end(size_t at) {
    const uint64_t size = bytes - at;
    for (size_t i = 0; i < 7; i++)
        made[at - 7 + i] = (uint8_t)(size >> 8 * (6 - i));
}

static void put(uint32_t id, size_t times) {
    for (size_t i = 0; i < times; i++) {
        put_id(id);
        made[bytes++] = 0x80;
    }
}

static uint64_t take(size_t piece) {
    mr_mkv_index *index = mr_mkv_index_create();
    for (size_t at = 0; at < bytes; at += piece)
        mr_mkv_index_feed(index, (int64_t)at, made + at, bytes - at < piece ? bytes - at : piece);
    const uint64_t takes = mr_mkv_index_bytes(index);
    mr_mkv_index_destroy(&index);
    return takes;
}

static uint64_t taken(void) {
    const uint64_t takes = in_any_pieces(take, MOST);
    bytes = 0;
    return takes;
}

static void put_tracks(size_t count) {
    const size_t tracks = begin(TRACKS);
    put(ENTRY, count);
    end(tracks);
}

TEST(test_tracks_and_tags) {
    const size_t head = begin(HEADER);
    bytes += 20;
    end(head);
    assert_true(mr_mkv_begins(made, bytes));
    assert_false(mr_mkv_begins(made + 1, bytes - 1));
    const size_t segment = begin(SEGMENT);
    put_tracks(1000);
    const size_t tags = begin(TAGS), tag = begin(TAG), simple = begin(SIMPLE);
    put(SIMPLE, 10);
    end(simple);
    end(tag);
    end(tags);
    end(segment);
    assert_int_equal(taken(), 1000 * TRACK + 128 + 11 * 128);
}

/* Live streams have segments, clusters and other elements without a size. */
TEST(test_without_sizes) {
    begin(SEGMENT);
    begin(TAGS);
    put(TAG, 3);
    put_tracks(2);
    for (int i = 0; i < 10; i++) {
        begin(CLUSTER);
        put(0xe7, 1);
        put(0xa3, 100);
    }
    put_tracks(5);
    assert_int_equal(taken(), 3 * 128 + 7 * TRACK);
}

/* The parser skips an element in the wrong place. After one that does not fit, it finds the next. */
TEST(test_odd_places) {
    const size_t outer = begin(VOID);
    put_tracks(7);
    end(outer);
    put(ENTRY, 7);
    assert_int_equal(taken(), 0);
    const size_t tracks = begin(TRACKS);
    put(ENTRY, 2);
    begin(ENTRY);
    end(tracks);
    bytes += 3;
    put_tracks(4);
    assert_int_equal(taken(), 7 * TRACK);
}

TEST(test_seeking) {
    mr_mkv_index *index = mr_mkv_index_create();
    put_tracks(1);
    mr_mkv_index_feed(index, 0, made, bytes);
    mr_mkv_index_feed(index, 5000, made, bytes);
    mr_mkv_index_feed(index, 100, (const uint8_t *)"media data", 10);
    assert_int_equal(mr_mkv_index_bytes(index), 2 * TRACK);
    mr_mkv_index_destroy(&index);
    bytes = 0;
}

RUN_TESTS(NULL, NULL)
