/* Generated index table segments, fed in pieces of any size. */
#include <string.h>

#include "stages/media/index/mxf_index.h"
#include "tests/stages/media/index/pieces.h"

enum { MOST = 4096, PICTURE = 34 };
static const uint8_t key[16] = {0x06, 0x0e, 0x2b, 0x34, 0x02, 0x53, 0x01, 0x01, 0x0d, 0x01, 0x02, 0x01, 0x01, 0x10, 1};

static uint8_t made[MOST];
static size_t bytes;

static void put(uint64_t value, size_t count) {
    for (size_t i = count; i-- > 0;)
        made[bytes++] = (uint8_t)(value >> 8 * i);
}

static void put_item(unsigned tag, size_t length, uint64_t value) {
    put(tag, 2);
    put(length, 2);
    if (length == 8)
        put(value, 8);
    else
        for (size_t i = 0; i < length; i++)
            put(0x3f, 1);
}

/* Adds a segment whose duration follows an item with `before` bytes. */
static void put_segment(size_t before, uint64_t pictures) {
    memcpy(made + bytes, key, sizeof key);
    bytes += sizeof key;
    put(0x83, 1);
    put(4 + before + 12 + 5, 3);
    put_item(0x3f0a, before, 0);
    put_item(0x3f0d, 8, pictures);
    put_item(0x3f05, 1, 0);
}

static uint64_t take(size_t piece) {
    mr_mxf_index index = {0};
    for (size_t at = 0; at < bytes; at += piece)
        mr_mxf_index_feed(&index, (int64_t)at, made + at, bytes - at < piece ? bytes - at : piece);
    return index.bytes;
}

static uint64_t taken(void) {
    const uint64_t takes = in_any_pieces(take, 2 * MOST);
    bytes = 0;
    return takes;
}

TEST(test_durations_claim) {
    for (size_t i = 0; i < 50; i++)
        put(i, 1);
    put_segment(0, 1000);
    put_item(0x3f0d, 8, 77); /* outside any segment */
    put_segment(1000, 50);
    put_segment(7, 60000000);
    assert_int_equal(taken(), (uint64_t)(1000 + 50 + 60000000) * PICTURE);
    put_segment(9, UINT64_MAX);
    put_segment(9, UINT64_MAX);
    assert_true(taken() > UINT64_MAX / 4);
}

TEST(test_damaged) {
    memcpy(made, key, sizeof key);
    bytes = sizeof key;
    put(0x89, 1); /* a nine-byte length is invalid */
    put_segment(3, 5);
    assert_int_equal(taken(), 5 * PICTURE);
    put_segment(3, 5);
    bytes -= 8; /* truncated */
    assert_int_equal(taken(), 0);
    mr_mxf_index index = {0};
    put_segment(3, 5);
    mr_mxf_index_feed(&index, 0, made, 30);
    mr_mxf_index_feed(&index, 100, made, bytes); /* reading continues elsewhere */
    assert_int_equal(index.bytes, 5 * PICTURE);
    bytes = 0;
}

RUN_TESTS(NULL, NULL)
