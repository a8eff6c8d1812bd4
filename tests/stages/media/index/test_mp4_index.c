/* Generated indexes, fed in pieces of any size. A size counts if libavformat would allocate it. Indexes for long
 * recordings must pass. */
#include <stdlib.h>
#include <string.h>

#include "stages/media/index/mp4_index.h"
#include "tests/stages/media/index/pieces.h"

enum { MOST = 1 << 16, DAY_OF_60_FPS = 24 * 3600 * 60, DAY_OF_AAC = 24 * 3600 * 375 / 8 };
static const uint64_t bound = (uint64_t)256 << 20;

static uint8_t made[MOST];
static size_t bytes;

static void put32(uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8)
        made[bytes++] = (uint8_t)(value >> shift);
}

/* Begins a box; end() sets the size. */
static size_t begin(const char *type) {
    const size_t at = bytes;
    put32(0);
    memcpy(made + bytes, type, 4);
    bytes += 4;
    return at;
}

static void end(size_t at) {
    const size_t here = bytes;
    bytes = at;
    put32((uint32_t)(here - at));
    bytes = here;
}

static void box(const char *type, size_t count, const uint32_t *values) {
    const size_t at = begin(type);
    for (size_t i = 0; i < count; i++)
        put32(values[i]);
    end(at);
}
#define BOX(type, ...) \
    box(type, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (uint32_t[]){__VA_ARGS__})

static uint32_t handler(const char *name) {
    return (uint32_t)name[0] << 24 | (uint32_t)name[1] << 16 | (uint32_t)name[2] << 8 | (uint32_t)name[3];
}

static size_t begin_track(const char *kind) {
    const size_t track = begin("trak");
    BOX("hdlr", 0, 0, handler(kind), 0, 0);
    return track;
}

static uint64_t take(size_t piece) {
    mr_mp4_index *index = mr_mp4_index_create();
    for (size_t at = 0; at < bytes; at += piece)
        mr_mp4_index_feed(index, (int64_t)at, made + at, bytes - at < piece ? bytes - at : piece);
    const uint64_t takes = mr_mp4_index_bytes(index);
    mr_mp4_index_destroy(&index);
    return takes;
}

static uint64_t taken(void) {
    const uint64_t takes = in_any_pieces(take, MOST);
    bytes = 0;
    return takes;
}

static void make_track(const char *kind, uint32_t samples) {
    const size_t track = begin_track(kind);
    BOX("stts", 0, 1, samples, 1024);
    BOX("stsz", 0, 10, samples);
    end(track);
}

TEST(test_a_day_passes) {
    const size_t moov = begin("moov");
    size_t track = begin_track("vide");
    BOX("elst", 0, 2, 1000, UINT32_MAX, 1 << 16, 1000, 0, 1 << 16);
    BOX("stts", 0, 1, DAY_OF_60_FPS, 1000);
    BOX("ctts", 0, 2, DAY_OF_60_FPS - 1, 2000, 1, 1000);
    BOX("stsz", 0, 10, DAY_OF_60_FPS);
    end(track);
    make_track("soun", DAY_OF_AAC);
    end(moov);
    const uint64_t takes = taken();
    assert_true(takes >= (uint64_t)DAY_OF_60_FPS * 32 + (uint64_t)DAY_OF_AAC * 24 && takes < bound);
}

/* Each PCM sample is a sample in the table, but 1,024 share one entry. */
TEST(test_sound_of_one_tick_a_sample) {
    const size_t track = begin_track("soun");
    const uint32_t samples = 48000U * 3600 * 24;
    BOX("stts", 0, 1, samples, 1);
    BOX("stsc", 0, 1, 1, 48000, 1);
    BOX("stsz", 0, 4, samples);
    const size_t offsets = begin("stco");
    put32(0);
    put32(100);
    bytes += 400;
    end(offsets);
    end(track);
    assert_int_equal(taken(), 100 * 47 * 24);
    make_track("vide", samples);
    assert_true(taken() > bound);
}

TEST(test_tables_claim) {
    make_track("vide", 80000000);
    assert_int_equal(taken(), 80000000ULL * 24);
    for (int i = 0; i < 3; i++)
        make_track("vide", 20000000);
    assert_int_equal(taken(), 3 * 20000000ULL * 24);
    /* Composition times expand to one per sample. */
    size_t track = begin_track("vide");
    BOX("ctts", 0, 1, 40000000, 5);
    end(track);
    assert_int_equal(taken(), 40000000ULL * 8);
    /* Each edit has separate entries. */
    track = begin_track("vide");
    BOX("elst", 0, 3, 1000, 0, 1, 1000, 1, 1, 1000, UINT32_MAX, 1);
    BOX("stsz", 0, 10, 1000);
    end(track);
    assert_int_equal(taken(), 2 * 1000 * 24);
    const uint8_t half_bytes[] = {0, 0, 0, 4};
    const size_t at = begin("stz2");
    put32(0);
    memcpy(made + bytes, half_bytes, sizeof half_bytes);
    bytes += sizeof half_bytes;
    put32(100);
    bytes += 50;
    end(at);
    assert_int_equal(taken(), 2400);
}

TEST(test_fragments_claim) {
    size_t moof = begin("moof"), traf = begin("traf");
    BOX("trun", 0, 80000000);
    BOX("trun", 0, 80000000);
    end(traf);
    end(moof);
    assert_int_equal(taken(), 48 + 2 * 80000000ULL * 32);
    /* Each fragment needs an entry for each track. */
    for (int i = 0; i < 10; i++)
        make_track("vide", 0);
    for (int i = 0; i < 100; i++)
        end(begin("moof"));
    BOX("sidx", 0, 1, 1000, 0, 0, 2, 1, 2, 3, 4, 5, 6);
    assert_int_equal(taken(), 102 * (48 + 10 * 64));
    BOX("sidx", 1 << 24, 1, 1000, 0, 0, 0, 0, 1, 1, 2, 3);
    assert_int_equal(taken(), 48);
}

/* Boxes are found wherever libavformat looks for them. */
TEST(test_odd_places) {
    size_t outer = begin("free");
    BOX("mvhd", 0);
    make_track("vide", 80000000);
    end(outer);
    assert_int_equal(taken(), 80000000ULL * 24);
    outer = begin("meta");
    put32(0);
    put32(0);
    BOX("hdlr", 0, 0, 0);
    make_track("vide", 80000000);
    end(outer);
    /* As in libavformat, a track inside another box ends that box. */
    assert_int_equal(taken(), 0);
    outer = begin("meta");
    put32(0);
    BOX("hdlr", 0, 0, 0);
    BOX("stsz", 0, 10, 80000000);
    end(outer);
    assert_int_equal(taken(), 80000000ULL * 24);
    /* A box larger than the one around it ends with that one. */
    outer = begin("udta");
    BOX("skip", 1);
    memcpy(made + 8, (uint8_t[]){0x7f, 0, 0, 0}, 4);
    end(outer);
    BOX("stsz", 0, 10, 80000000);
    assert_int_equal(taken(), 80000000ULL * 24);
    /* A box with a 64-bit size, and one that extends to the end. */
    BOX("skip", 0, 24, 0, 0);
    memcpy(made, (uint8_t[]){0, 0, 0, 1}, 4);
    BOX("moov", 12 + 8, 0x7374737a, 0, 10, 80000000);
    memset(made + 24, 0, 4);
    assert_int_equal(taken(), 80000000ULL * 24);
}

TEST(test_hidden) {
    const size_t moov = begin("moov");
    BOX("cmov", 0);
    end(moov);
    assert_int_equal(taken(), UINT64_MAX);
    const size_t description = begin("stsd");
    put32(0);
    put32(1);
    const size_t entry = begin("mp4v");
    bytes += 77;
    BOX("stsz", 0, 10, 1);
    end(entry);
    end(description);
    assert_int_equal(taken(), UINT64_MAX);
    /* Rows that would extend into the following boxes. */
    BOX("stts", 0, 3, 1, 1, 1, 1);
    assert_int_equal(taken(), UINT64_MAX);
    BOX("stss", 0, 1000);
    assert_int_equal(taken(), UINT64_MAX);
    BOX("ctts", 0, 1000000, 1, 1);
    assert_int_equal(taken(), UINT64_MAX);
}

/* Media data can be skipped. Bytes that are read again do not count again. A jump finds fragments. */
TEST(test_seeking) {
    mr_mp4_index *index = mr_mp4_index_create();
    BOX("skip", 0);
    const size_t data = begin("mdat"), behind = data + 1000000;
    bytes = data;
    put32(1000000);
    bytes = data + 8;
    mr_mp4_index_feed(index, 0, made, bytes);
    bytes = 0;
    make_track("vide", 1000);
    mr_mp4_index_feed(index, (int64_t)behind, made, bytes);
    mr_mp4_index_feed(index, (int64_t)behind, made, bytes);
    mr_mp4_index_feed(index, 100, made, bytes);
    assert_int_equal(mr_mp4_index_bytes(index), 24000);
    bytes = 0;
    const size_t moof = begin("moof");
    BOX("trun", 0, 1000);
    end(moof);
    mr_mp4_index_feed(index, 5000000, made, bytes);
    assert_int_equal(mr_mp4_index_bytes(index), 24000 + 48 + 64 + 32000);
    mr_mp4_index_destroy(&index);
    bytes = 0;
}

RUN_TESTS(NULL, NULL)
