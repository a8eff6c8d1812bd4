/* Formats of decoded pictures: colour and rotation of streams, and the defaults if they do not specify them; every
 * pixel layout of FFmpeg; the selection of pictures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>

#include "stages/decode/decode_needed.h"
#include "stages/media/picture_format.h"
#include "tests/support/decoded.h"

static void formats_carry_rotation_and_colour(void **state) {
    (void)state;
    static clip_outcome result;
    char path[CLIP_PATH], turned[CLIP_PATH], arguments[2 * CLIP_PATH];
    clip_make(path, "h264-420.mp4", CLIP_PLAIN);
    snprintf(arguments, sizeof arguments, "-i %s -c copy -metadata:s:v rotate=90", path);
    clip_make(turned, "turned.mp4", arguments);
    clip_run(&result, turned, "", "");
    /* ffmpeg shows this clip turned counter-clockwise: its own tag counts that way. */
    assert_int_equal(result.format[0].rotation, 270);
    clip_make(path, "colour.mp4", CLIP_PATTERN "-frames:v 2 -vf setsar=4/3 -colorspace bt2020nc -color_range pc "
              "-chroma_sample_location topleft " CLIP_H264 "yuv420p");
    clip_run(&result, path, "", "");
    assert_int_equal(result.format[0].matrix, MR_MATRIX_BT2020);
    assert_int_equal(result.format[0].range, MR_RANGE_FULL);
    assert_int_equal(result.format[0].siting, MR_SITING_TOPLEFT);
    assert_int_equal(result.format[0].sar_num, 4);
    assert_int_equal(result.format[0].sar_den, 3);
    /* The stream's own colour is not overruled. */
    clip_run(&result, path, "", ", untagged: {matrix: bt601, range: limited}");
    assert_int_equal(result.format[0].matrix, MR_MATRIX_BT2020);
    assert_int_equal(result.format[0].range, MR_RANGE_FULL);
}

static void colours_of_streams_that_do_not_tell(void **state) {
    (void)state;
    static const struct {
        const char *size, *decode;
        mr_matrix matrix;
        mr_range range;
    } cases[] = {
        {"320x180", "", MR_MATRIX_BT601, MR_RANGE_LIMITED},
        {"1280x64", "", MR_MATRIX_BT709, MR_RANGE_LIMITED},
        {"64x720", "", MR_MATRIX_BT709, MR_RANGE_LIMITED},
        {"320x180", ", untagged: bt709", MR_MATRIX_BT709, MR_RANGE_LIMITED},
        {"1280x64", ", untagged: {matrix: bt601, range: full}", MR_MATRIX_BT601, MR_RANGE_FULL},
        {"320x180", ", untagged: {matrix: bt2020}", MR_MATRIX_BT2020, MR_RANGE_LIMITED},
    };
    static clip_outcome result;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[CLIP_PATH], name[64], arguments[256];
        snprintf(name, sizeof name, "untagged-%s-yuv.mkv", cases[i].size);
        snprintf(arguments, sizeof arguments, "-f lavfi -i testsrc2=size=%s -frames:v 1 " CLIP_H264 "yuv420p",
                 cases[i].size);
        clip_make(path, name, arguments);
        clip_run(&result, path, "", cases[i].decode);
        assert_int_equal(result.format[0].matrix, cases[i].matrix);
        assert_int_equal(result.format[0].range, cases[i].range);
    }
}

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static void display_matrices_are_read(void **state) {
    (void)state;
    for (int turn = 0; turn < 4; turn++)
        for (int mirror = 0; mirror < 2; mirror++) {
            int32_t matrix[9];
            av_display_rotation_set(matrix, 90.0 * turn); /* clockwise, as ours */
            if (mirror)
                av_display_matrix_flip(matrix, 1, 0);
            int16_t rotation;
            bool flip;
            assert_true(mr_rotation_from_matrix(matrix, &rotation, &flip));
            assert_int_equal(flip, mirror);
            /* av_display_matrix_flip mirrors after turning; millrace mirrors before, which turns the other way. */
            assert_int_equal(rotation, (mirror ? 4 - turn : turn) % 4 * 90);
        }
    int16_t rotation;
    bool flip;
    assert_false(mr_rotation_from_matrix((int32_t[9]){0}, &rotation, &flip));
}

static void layouts_have_the_bytes_of_ffmpeg(void **state) {
    (void)state;
    for (mr_pixel pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++) {
        enum AVPixelFormat format = mr_pixel_to_av(pixel);
        assert_int_not_equal(format, AV_PIX_FMT_NONE);
        assert_int_equal(mr_pixel_from_av(format), pixel);
        for (int plane = 0; plane < mr_pixel_describe(pixel)->planes; plane++)
            assert_int_equal(av_image_get_linesize(format, 33, plane), mr_plane_row_bytes(pixel, plane, 33));
    }
}

static void every_layout_of_ffmpeg_has_a_place(void **state) {
    (void)state;
    for (int format = 0; format < AV_PIX_FMT_NB; format++) {
        const AVPixFmtDescriptor *descriptor = av_pix_fmt_desc_get(format);
        enum AVPixelFormat converted;
        if (!descriptor || descriptor->flags & AV_PIX_FMT_FLAG_HWACCEL || !sws_isSupportedInput(format))
            continue;
        assert_int_not_equal(mr_pixel_nearest(format, &converted), MR_PIXEL_ANY);
        assert_true(sws_isSupportedOutput(converted));
    }
}

static void selection_follows_time_and_number(void **state) {
    (void)state;
    mr_selection selection;
    mr_media media = {.start_ns = 1000000000, .end_ns = 2000000000, .every = 2};
    mr_selection_begin(&selection);
    int wanted = 0;
    for (int64_t i = 0; i < 75; i++)
        wanted += mr_selection_wants(&selection, &media, i * 40000000);
    assert_int_equal(wanted, 13);
    /* 29.97 pictures a second, thinned to ten: one in each tenth of a second. */
    media = (mr_media){.fps = 10};
    mr_selection_begin(&selection);
    for (int64_t i = 0, last = -1; i < 300; i++) {
        int64_t time = i * 1001 * 1000000 / 30;
        if (!mr_selection_wants(&selection, &media, time))
            continue;
        assert_true(time / 100000000 > last);
        last = time / 100000000;
    }
    media = (mr_media){.fps = 10, .every = 3};
    mr_selection_begin(&selection);
    assert_true(mr_selection_wants(&selection, &media, MR_NO_TIME));
    assert_false(mr_selection_wants(&selection, &media, MR_NO_TIME));
}

int main(void) {
    const struct CMUnitTest parts[] = {
        cmocka_unit_test(display_matrices_are_read),
        cmocka_unit_test(layouts_have_the_bytes_of_ffmpeg),
        cmocka_unit_test(every_layout_of_ffmpeg_has_a_place),
        cmocka_unit_test(selection_follows_time_and_number),
    };
    const struct CMUnitTest clips[] = {
        cmocka_unit_test(formats_carry_rotation_and_colour),
        cmocka_unit_test(colours_of_streams_that_do_not_tell),
    };
    int failed = cmocka_run_group_tests(parts, NULL, NULL);
    return clips_available() ? failed + cmocka_run_group_tests(clips, NULL, NULL) : failed;
}
