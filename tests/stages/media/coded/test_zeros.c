/* Zeros in slices: damage, and the padding that some streams have. */
#include <libavcodec/codec_par.h>
#include <string.h>

#include "stages/media/coded/zeros.h"
#include "tests/support/suite.h"

/* ISO/IEC 14496-15, 5.3.3.1: units have four-byte lengths. */
static uint8_t avc[] = {1, 100, 0, 30, 0xff, 0xe1, 0, 2, 0x67, 9, 1, 0, 2, 0x68, 8};

static bool find(mr_zeros *zeros, enum AVCodecID codec, bool lengths, const void *data, size_t bytes) {
    AVCodecParameters parameters = {.codec_id = codec, .extradata = lengths ? avc : NULL,
                                    .extradata_size = lengths ? (int)sizeof avc : 0};
    mr_media media = {.codec = &parameters};
    uint8_t copy[512];
    assert_in_range(bytes, 1, sizeof copy);
    memcpy(copy, data, bytes);
    const mr_packet packet = {.media = &media, .data = copy, .bytes = bytes};
    return mr_zeros_find(zeros, &packet);
}

#define FOUND(codec, lengths, text)                                                                                   \
    find(&(mr_zeros){.packets = 20}, AV_CODEC_ID_##codec, lengths, text, sizeof text - 1)

TEST(three_zeros_within_a_slice_are_damage) {
    assert_true(FOUND(H264, false, "\0\0\1\x41\x9a\0\0\0\x23"));
    assert_true(FOUND(H264, false, "\0\0\1\x41\x9a\0\0\0\0\0\x23\0\0\1\x41\x9a"));
    assert_true(FOUND(HEVC, false, "\0\0\1\x02\1\x9a\x11\0\0\0\x23"));
    assert_true(FOUND(H264, true, "\0\0\0\6\x41\x9a\0\0\0\x23"));
    assert_false(FOUND(H264, false, "\0\0\1\x41\x9a\0\0\3\0\0\3\0\x23"));
    assert_false(FOUND(H264, true, "\0\0\0\5\x41\x9a\0\0\3"));
}

TEST(other_units_and_codecs_may_have_zeros) {
    assert_false(FOUND(H264, false, "\0\0\1\6\5\0\0\0\x23"));           /* SEI */
    assert_false(FOUND(H264, true, "\0\0\0\4\x0c\0\0\0\0\0\0\2\x41\x9a")); /* filler data */
    assert_false(FOUND(HEVC, false, "\0\0\1\x4e\1\0\0\0\x23"));         /* SEI */
    assert_false(FOUND(MPEG2VIDEO, false, "\0\0\1\x41\x9a\0\0\0\x23"));
    assert_false(FOUND(H264, true, "\0\0\0"));
}

TEST(zeros_after_a_slice_are_padding_before_a_start_code) {
    assert_false(FOUND(H264, false, "\0\0\1\x41\x9a\0\0\0\0\0\0\1\x41\x9a"));
    assert_false(FOUND(H264, false, "\0\0\1\x41\x9a\0\0\0\0\0"));
    assert_true(FOUND(H264, true, "\0\0\0\3\x41\x9a\0"));
    assert_true(FOUND(H264, true, "\0\0\0\2\x41\x9a\0\0\0\0\0\0")); /* the next slice and its length */
}

/* A packet with one slice that ends in zeros. */
static bool pad(mr_zeros *zeros, uint8_t padding) {
    uint8_t packet[260] = {0, 0, 0, (uint8_t)(2 + padding), 0x41, 0x9a};
    return find(zeros, AV_CODEC_ID_H264, true, packet, 6u + padding);
}

TEST(a_stream_that_pads_slices_is_not_damaged) {
    mr_zeros zeros = {0};
    for (int i = 0; i < 500; i++)
        assert_false(pad(&zeros, (uint8_t)(i % 4)));
    for (int i = 0; i < 500; i++)
        assert_false(pad(&zeros, 100));
}

TEST(a_stream_that_pads_slices_with_many_zeros_is_soon_known) {
    mr_zeros zeros = {0};
    for (int i = 0; i < 500; i++)
        assert_int_equal(pad(&zeros, 100), i < 2);
    zeros = (mr_zeros){0};
    int found = 0;
    for (int i = 0; i < 2000; i++)
        found += pad(&zeros, i < 1000 ? 0 : 7);
    assert_in_range(found, 1, 12);
}

TEST(seldom_zeros_are_damage) {
    mr_zeros zeros = {0};
    for (int i = 0; i < 500; i++)
        assert_int_equal(pad(&zeros, i % 20 == 19), i % 20 == 19);
}

RUN_TESTS(NULL, NULL)
