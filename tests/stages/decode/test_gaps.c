/* After packets are dropped before decode, pictures are wrong until the stream recovers. Only these may be marked. */
#include <libavcodec/avcodec.h>
#include <string.h>

#include "stages/decode/decode_gaps.h"
#include "stages/decode/decode_packet.h"
#include "tests/support/suite.h"

static AVCodecParameters codec = {.codec_id = AV_CODEC_ID_H264};
static mr_media media = {.codec = &codec};

/* Slices after a recovery point here, after one two frames later, after none, and in an IDR picture. */
static const char here[] = "\0\0\1\6\6\1\xc4\x80\0\0\1\x41\x9a?", ahead[] = "\0\0\1\6\6\1\x71\x80\0\0\1\x41\x9a?",
                  plain[] = "\0\0\1\x41\x9a?", idr[] = "\0\0\1\x65\x88?";

static mr_frame packet_of(uint64_t number, int64_t pts_ns, const char *data, size_t bytes) {
    mr_frame made = {.identity.seq = number, .pts_ns = pts_ns, .media = &media};
    made.plane[0].data = (uint8_t *)(uintptr_t)data;
    made.plane[0].bytes = bytes;
    made.flags = data == plain ? 0 : MR_FRAME_KEY;
    return made;
}

static mr_gaps gaps;

static void begin(void) {
    memset(&gaps, 0, sizeof gaps);
}
#define GAPS_TEST(name) TEST_THAT(name, begin)

static bool pass(uint64_t number, int64_t pts_ns, const char *data, size_t bytes) {
    const mr_frame packet = packet_of(number, pts_ns, data, bytes);
    mr_gaps_note(&gaps, &packet);
    return mr_gaps_pass(&gaps, &packet, false);
}

#define PASS(number, pts_ns, data) pass(number, pts_ns, data, sizeof data - 1)

GAPS_TEST(test_nothing_is_missing) {
    assert_false(PASS(7, 100, ahead)); /* the start of a stream is no gap */
    assert_false(PASS(8, 80, plain));
    assert_false(PASS(9, 200, here));
    assert_false(PASS(10, 180, plain));
    /* Packets may be left out between two keys if no other picture depends on them. */
    assert_false(PASS(12, 220, plain));
}

GAPS_TEST(test_keys_behind_a_gap) {
    assert_false(PASS(0, 0, idr));
    assert_false(PASS(9, 100, here));
    assert_true(PASS(10, 80, plain)); /* shown before it */
    assert_false(PASS(11, 120, plain));
    assert_true(PASS(20, 200, ahead));
    assert_true(PASS(21, 220, plain));
    assert_false(PASS(22, 300, idr));
    assert_false(PASS(23, 320, plain));
}

/* Packets may wait before they are decoded. */
GAPS_TEST(test_later) {
    const mr_frame packets[] = {packet_of(0, 0, idr, sizeof idr - 1), packet_of(1, 20, plain, sizeof plain - 1),
                                packet_of(5, 100, ahead, sizeof ahead - 1), packet_of(6, 120, plain, sizeof plain - 1)};
    for (size_t i = 0; i < 4; i++)
        mr_gaps_note(&gaps, &packets[i]);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(mr_gaps_pass(&gaps, &packets[i], false), i >= 2);
}

/* The decoder reports damage in the second packet's picture after it has received later packets. */
GAPS_TEST(test_damaged) {
    const mr_frame packets[] = {packet_of(0, 0, idr, sizeof idr - 1), packet_of(1, 20, plain, sizeof plain - 1),
                                packet_of(2, 40, plain, sizeof plain - 1), packet_of(3, 100, here, sizeof here - 1),
                                packet_of(4, 80, plain, sizeof plain - 1), packet_of(5, 120, plain, sizeof plain - 1)};
    for (size_t i = 0; i < 6; i++) {
        mr_gaps_note(&gaps, &packets[i]);
        assert_false(mr_gaps_pass(&gaps, &packets[i], false));
    }
    mr_gaps_taint(&gaps);
    assert_true(mr_gaps_pass_again(&gaps, &packets[2]));
    assert_false(mr_gaps_pass_again(&gaps, &packets[3]));
    assert_true(mr_gaps_pass_again(&gaps, &packets[4])); /* shown before it */
    assert_false(mr_gaps_pass_again(&gaps, &packets[5]));
    assert_false(PASS(6, 140, plain));
    mr_gaps_taint(&gaps);
    assert_true(PASS(7, 160, plain));
    assert_true(PASS(8, 200, ahead));
    assert_false(PASS(9, 300, idr));
}

/* A packet after a gap still counts as one when it is passed again. */
GAPS_TEST(test_damaged_behind_a_gap) {
    const mr_frame entry = packet_of(9, 100, ahead, sizeof ahead - 1);
    assert_false(PASS(0, 0, idr));
    mr_gaps_note(&gaps, &entry);
    assert_true(mr_gaps_pass(&gaps, &entry, false));
    mr_gaps_taint(&gaps);
    assert_true(mr_gaps_pass_again(&gaps, &entry));
    assert_true(PASS(10, 120, plain));
    assert_false(PASS(11, 200, idr));
}

static bool is_alone(enum AVCodecID id, const char *data, size_t bytes) {
    AVCodecParameters parameters = {.codec_id = id};
    mr_media of = {.codec = &parameters};
    mr_frame packet = packet_of(0, 0, data, bytes);
    packet.media = &of;
    return mr_packet_is_alone(&packet);
}

#define ALONE(id, data) is_alone(AV_CODEC_ID_##id, data, sizeof data - 1)

GAPS_TEST(test_pictures_that_none_is_made_of) {
    assert_true(ALONE(MJPEG, "\xff\xd8"));
    assert_false(ALONE(VP9, "\x82\x49\x83\x42"));
    assert_false(ALONE(H264, "\0\0\1\x41\x9a?"));
    assert_false(ALONE(H264, "\0\0\1\x65\x88?"));
    assert_true(ALONE(H264, "\0\0\1\x01\x9a?"));
    assert_true(ALONE(H264, "\0\0\1\6\6\1\xc4\x80\0\0\1\x68\x80?")); /* no picture: SEI and PPS */
    assert_false(ALONE(H264, "\0\0\1\x88\x88?"));                     /* no known type */
    assert_false(ALONE(HEVC, "\0\0\1\x02\1\x80?")); /* TRAIL_R */
    assert_false(ALONE(HEVC, "\0\0\1\0\1\x80?"));   /* TRAIL_N in a layer that may not be the highest */
    assert_true(ALONE(HEVC, "\0\0\1\x4e\1\5?"));    /* SEI */
    assert_false(ALONE(MPEG2VIDEO, "\0\0\1\0\0\x10\0\0"));
    assert_true(ALONE(MPEG2VIDEO, "\0\0\1\0\0\x18\0\0"));
    assert_false(ALONE(MPEG4, "\0\0\1\xb6\x50\0"));
    assert_true(ALONE(MPEG4, "\0\0\1\xb6\x90\0"));
    assert_false(ALONE(MPEG4, "\0\0\1\xb6\x90\0\0\0\1\xb6\x50\0"));
}

RUN_TESTS(NULL, NULL)
