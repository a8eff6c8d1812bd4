/* A board's V4L2 decoder, which fakes/board.c imitates: its pictures must be those of software. Where it fails,
 * software continues. */
#include <errno.h>
#include <linux/videodev2.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/device/probe/board.h"
#include "stages/decode/device/decode_board.h"
#include "tests/fakes/board.h"
#include "tests/support/decoded.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"

static clip_frames expected;
static clip_outcome result;

static void mend(void) {
    fake_board_here = (fake_board){0};
}

static void begin(void) {
    need_clips();
    mend();
}
#define BOARD_TEST(name) TEST_THAT(name, begin)

TEST_THAT(its_decoders_are_found, mend) {
    mr_board board;
    mr_board_probe(&board);
    assert_int_equal(board.count, 2);
    const mr_board_decoder *decoder = mr_board_decoder_for(&board, "hevc");
    assert_non_null(decoder);
    assert_string_equal(decoder->node, "/dev/video19");
    assert_string_equal(decoder->card, "imitated-decoder");
    assert_int_equal(decoder->max_width, 1920);
    assert_int_equal(decoder->max_height, 1088);
    assert_null(mr_board_decoder_for(&board, "vp9"));
    assert_string_equal(board.closed, "");
}

TEST_THAT(a_node_without_permission_is_named, mend) {
    mr_board board;
    fake_board_here.open_error = EACCES;
    mr_board_probe(&board);
    assert_int_equal(board.count, 0);
    assert_string_equal(board.closed, "/dev/video19");
}

TEST_THAT(cameras_are_not_opened, mend) {
    static const char *const buses[] = {"platform", "usb", "pci"};
    for (int i = 0; i < 3; i++) {
        mr_board board;
        fake_board_here = (fake_board){.bus = buses[i]};
        mr_board_probe(&board);
        assert_int_equal(board.count, i == 0 ? 2 : 0);
        assert_int_equal(fake_board_here.opened, i == 0);
    }
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *arguments;
    uint32_t layout;
    const char *decode;
} clips[] = {
    {"h264-420.mp4", CLIP_PLAIN, V4L2_PIX_FMT_NV12, ""},
    {"h264-420.mp4", CLIP_PLAIN, V4L2_PIX_FMT_YUV420, ", hardware: require"},
    {"h264.ts", CLIP_PATTERN "-frames:v 24 " CLIP_H264 "yuv420p", V4L2_PIX_FMT_NV12, ", damaged: mark"},
    {"h264-b.avi", CLIP_PATTERN "-frames:v 24 -c:v libx264 -bf 3 -g 9 -pix_fmt yuv420p", V4L2_PIX_FMT_NV12, ""},
    {"h264-blocks.mp4", "-f lavfi -i testsrc2=size=186x150:rate=25 -frames:v 24 " CLIP_H264 "yuv420p",
     V4L2_PIX_FMT_NV12, ""},
    {"h264-blocks.mp4", "-f lavfi -i testsrc2=size=186x150:rate=25 -frames:v 24 " CLIP_H264 "yuv420p",
     V4L2_PIX_FMT_YUV420, ""},
    {"hevc-8.mp4", CLIP_PATTERN "-frames:v 24 -c:v libx265 -x265-params log-level=none -pix_fmt yuv420p",
     V4L2_PIX_FMT_NV12, ""},
    {"h264-full.mp4", CLIP_PATTERN "-frames:v 24 -color_range pc -colorspace bt709 " CLIP_H264 "yuvj420p",
     V4L2_PIX_FMT_NV12, ""},
};

BOARD_TEST(pictures_are_those_of_software) {
    for (size_t i = 0; i < sizeof clips / sizeof *clips; i++) {
        static clip_outcome software;
        char path[CLIP_PATH];
        print_message("    %s\n", clips[i].name);
        clip_make(path, clips[i].name, clips[i].arguments);
        clip_run(&software, path, "", ", hardware: off");
        fake_board_here = (fake_board){.layout = clips[i].layout};
        clip_reference(path, &expected);
        clip_run(&result, path, "", clips[i].decode);
        clip_expect(&result, &expected, 0, 1);
        assert_int_equal(fake_board_here.sessions, 1);
        assert_int_equal(fake_board_here.given, expected.count);
        for (size_t k = 0; k < result.count; k++)
            assert_memory_equal(&result.format[k], &software.format[k], sizeof result.format[k]);
    }
}

BOARD_TEST(a_part_is_decoded_from_its_key) {
    char path[CLIP_PATH];
    clip_make(path, "h264-420.mp4", CLIP_PLAIN);
    clip_reference(path, &expected);
    clip_run(&result, path, ", start: 500ms", "");
    assert_int_equal(result.status, MR_OK);
    assert_int_equal(result.dropped, 0);
    assert_true(fake_board_here.given > 0);
    assert_int_equal(result.count, expected.count - 13);
    for (size_t k = 0; k < result.count; k++)
        assert_string_equal(result.md5[k], expected.md5[13 + k]);
}

/* A decoder that was drained does not start again: each repetition opens another. */
BOARD_TEST(a_repeated_clip_is_decoded_again) {
    char path[CLIP_PATH];
    clip_make(path, "h264-420.mp4", CLIP_PLAIN);
    clip_reference(path, &expected);
    clip_run(&result, path, ", loop: 3", "");
    assert_int_equal(result.status, MR_OK);
    assert_int_equal(result.dropped, 0);
    assert_int_equal(result.count, 3 * expected.count);
    assert_int_equal(fake_board_here.given, 3 * expected.count);
    assert_int_equal(fake_board_here.sessions, 3);
    for (size_t k = 0; k < result.count; k++)
        assert_string_equal(result.md5[k], expected.md5[k % expected.count]);
}

/* ---- software instead -------------------------------------------------------------------------------------------- */

static void expect_software(const char *name, const char *arguments, const char *decode) {
    char path[CLIP_PATH];
    clip_make(path, name, arguments);
    clip_reference(path, &expected);
    fake_board_here.given = 0;
    clip_run(&result, path, "", decode);
    clip_expect(&result, &expected, 0, 1);
    assert_int_equal(fake_board_here.given, 0);
}

BOARD_TEST(software_decodes_what_a_board_would_change) {
    expect_software("h264-444.mp4", CLIP_PATTERN "-frames:v 24 " CLIP_H264 "yuv444p", "");
    expect_software("h264-tff.mp4", CLIP_PATTERN "-frames:v 24 -flags +ilme+ildct " CLIP_H264 "yuv420p", "");
    expect_software("mpeg4-b.avi", CLIP_PATTERN "-frames:v 24 -c:v mpeg4 -bf 2", "");
    expect_software("h264-420.mp4", CLIP_PLAIN, ", hardware: off");
    expect_software("large.mp4", "-f lavfi -i testsrc2=size=2048x64:rate=25 -frames:v 4 " CLIP_H264 "yuv420p", "");
    assert_int_equal(fake_board_here.sessions, 0);
}

BOARD_TEST(software_decodes_all_if_a_board_does_not_start) {
    fake_board_here.open_error = EBUSY;
    expect_software("h264-420.mp4", CLIP_PLAIN, "");
    fake_board_here.open_error = 0;
    fake_board_here.start_error = ENOSPC;
    expect_software("h264-420.mp4", CLIP_PLAIN, "");
    fake_board_here.start_error = 0;
    fake_board_here.silent = 1;
    expect_software("long-gop.mp4", CLIP_PATTERN "-frames:v 60 -c:v libx264 -bf 2 -g 50 -pix_fmt yuv420p", "");
    expect_software("h264-420-60.mp4", CLIP_PATTERN "-frames:v 60 " CLIP_H264 "yuv420p", "");
}

/* A board that has given nothing is not asked for more. */
BOARD_TEST(software_decodes_what_ends_before_the_first_picture) {
    expect_software("one.mp4", CLIP_PATTERN "-frames:v 1 " CLIP_H264 "yuv420p", "");
    fake_board_here.start_error = ENOSPC;
    expect_software("one.mp4", CLIP_PATTERN "-frames:v 1 " CLIP_H264 "yuv420p", "");
}

/* Pictures that were in the decoder are lost; the next key begins anew. */
BOARD_TEST(software_continues_at_a_key_if_a_board_fails) {
    static bool right[CLIP_FRAMES];
    char path[CLIP_PATH];
    clip_make(path, "h264-420-60.mp4", CLIP_PATTERN "-frames:v 60 " CLIP_H264 "yuv420p");
    clip_reference(path, &expected);
    for (int left = 1; left < 40; left += 7) {
        fake_board_here = (fake_board){.pictures_left = left};
        clip_run(&result, path, "", "");
        assert_int_equal(result.status, MR_OK);
        assert_int_equal(result.in, 60);
        assert_int_equal(result.delivered + result.corrupt, 60);
        assert_in_range(result.delivered, 60 - 20, 60);
        clip_find_right(&result, &expected, 40000000, right, 60);
        for (int i = 0; i < 60; i++)
            assert_true(right[i] || (i >= left - 1 && i < left + 20));
    }
}

BOARD_TEST(a_required_board_must_decode) {
    char path[CLIP_PATH];
    clip_make(path, "h264-420.mp4", CLIP_PLAIN);
    fake_board_here.start_error = ENOSPC;
    clip_run(&result, path, "", ", hardware: require");
    assert_int_equal(result.delivered, 0);
    assert_int_equal(result.status, MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(result.message, "V4L2"));
}

BOARD_TEST(pictures_that_a_driver_calls_damaged_are_dropped) {
    char path[CLIP_PATH];
    clip_make(path, "intra.mp4", CLIP_PATTERN "-frames:v 24 -c:v libx264 -g 1 -pix_fmt yuv420p");
    fake_board_here.bad_every = 6;
    clip_run(&result, path, "", "");
    assert_int_equal(result.corrupt, 4);
    assert_int_equal(result.delivered, 20);
}

RUN_TESTS(be_quiet, NULL)
