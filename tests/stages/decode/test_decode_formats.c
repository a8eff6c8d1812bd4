/* Decoded formats: colour and rotation from the stream, defaults for streams without them, every FFmpeg pixel layout,
 * and picture selection. */
#include <stdio.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>

#include "stages/decode/decode_needed.h"
#include "stages/decode/device/picture_layout.h"
#include "stages/media/picture_format.h"
#include "tests/support/decoded.h"
#include "tests/support/suite.h"

static clip_outcome result;

CLIP_TEST(formats_carry_rotation_and_colour) {
    char path[CLIP_PATH], turned[CLIP_PATH], arguments[2 * CLIP_PATH];
    clip_make(path, "h264-420.mp4", CLIP_PLAIN);
    snprintf(arguments, sizeof arguments, "-i %s -c copy -metadata:s:v rotate=90", path);
    clip_make(turned, "turned.mp4", arguments);
    clip_run(&result, turned, "", "");
    /* ffmpeg shows this clip turned anticlockwise; the tag counts the other way. */
    assert_int_equal(result.format[0].rotation, 270);
    clip_make(path, "colour.mp4", CLIP_PATTERN "-frames:v 2 -vf setsar=4/3 -colorspace bt2020nc -color_range pc "
              "-chroma_sample_location topleft " CLIP_H264 "yuv420p");
    clip_run(&result, path, "", "");
    assert_int_equal(result.format[0].matrix, MR_MATRIX_BT2020);
    assert_int_equal(result.format[0].range, MR_RANGE_FULL);
    assert_int_equal(result.format[0].siting, MR_SITING_TOPLEFT);
    assert_int_equal(result.format[0].sar_num, 4);
    assert_int_equal(result.format[0].sar_den, 3);
    /* Options do not overrule the stream's own colour. */
    clip_run(&result, path, "", ", untagged: {matrix: bt601, range: limited}");
    assert_int_equal(result.format[0].matrix, MR_MATRIX_BT2020);
    assert_int_equal(result.format[0].range, MR_RANGE_FULL);
}

CLIP_TEST(colours_of_streams_that_do_not_tell) {
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

TEST(display_matrices_are_read) {
    for (int turn = 0; turn < 4; turn++)
        for (int mirror = 0; mirror < 2; mirror++) {
            int32_t matrix[9];
            av_display_rotation_set(matrix, 90.0 * turn); /* clockwise, like ours */
            if (mirror)
                av_display_matrix_flip(matrix, 1, 0);
            int16_t rotation;
            bool flip;
            assert_true(mr_rotation_from_matrix(matrix, &rotation, &flip));
            assert_int_equal(flip, mirror);
            /* av_display_matrix_flip mirrors after it turns. millrace mirrors first, which turns the other way. */
            assert_int_equal(rotation, (mirror ? 4 - turn : turn) % 4 * 90);
        }
    int16_t rotation;
    bool flip;
    assert_false(mr_rotation_from_matrix((int32_t[9]){0}, &rotation, &flip));
}

TEST(layouts_have_the_bytes_of_ffmpeg) {
    for (mr_pixel pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++) {
        enum AVPixelFormat format = mr_pixel_to_av(pixel);
        assert_int_not_equal(format, AV_PIX_FMT_NONE);
        assert_int_equal(mr_pixel_from_av(format), pixel);
        for (int plane = 0; plane < mr_pixel_describe(pixel)->planes; plane++)
            assert_int_equal(av_image_get_linesize(format, 33, plane), mr_plane_row_bytes(pixel, plane, 33));
    }
}

TEST(every_layout_of_ffmpeg_has_a_place) {
    for (int format = 0; format < AV_PIX_FMT_NB; format++) {
        const AVPixFmtDescriptor *descriptor = av_pix_fmt_desc_get(format);
        enum AVPixelFormat converted;
        if (!descriptor || descriptor->flags & AV_PIX_FMT_FLAG_HWACCEL || !sws_isSupportedInput(format))
            continue;
        assert_int_not_equal(mr_pixel_nearest(format, &converted), MR_PIXEL_ANY);
        assert_true(sws_isSupportedOutput(converted));
    }
}

static int wanted_of(double rate, double fps, double tick_s, double jitter_s, int count, int first[2]) {
    const mr_media media = {.fps = fps};
    mr_selection selection;
    unsigned seed = 7;
    int wanted = 0;
    mr_selection_begin(&selection);
    for (int i = 0; i < count; i++) {
        double time_s = i / rate + jitter_s * (2.0 * rand_r(&seed) / RAND_MAX - 1);
        if (mr_selection_wants(&selection, &media, llround(round(time_s / tick_s) * tick_s * 1e9)) && wanted++ < 3)
            first[0] = first[1], first[1] = i;
    }
    return wanted;
}

/* No picture may be missing, however a container or a camera clock rounds times. At half the rate or less, the
 * selection takes every second picture, or the first one after each due time. */
static void selection_near_the_rate(void) {
    static const struct {
        double rate, fps, tick_s, jitter_s;
        int of, wanted, first[2];
    } cases[] = {
        {30, 30, 1e-3, 0, 3000, 3000, {1, 2}},
        {60, 60, 1e-3, 0, 3000, 3000, {1, 2}},
        {24000 / 1001.0, 23.976, 1e-3, 0, 3000, 3000, {1, 2}},
        {30000 / 1001.0, 29.97, 1e-3, 0, 3000, 3000, {1, 2}},
        {60000 / 1001.0, 59.94, 1e-3, 0, 3000, 3000, {1, 2}},
        {25, 25, 1 / 90000.0, 1e-3, 3000, 3000, {1, 2}},
        {30, 30, 1 / 90000.0, 1e-3, 3000, 3000, {1, 2}},
        {25, 25, 1 / 90000.0, 5e-3, 3000, 3000, {1, 2}},
        {24.9, 25, 1e-3, 1e-3, 3000, 3000, {1, 2}},
        {30, 1000, 1e-3, 0, 3000, 3000, {1, 2}},
        {30, 15, 1e-3, 0, 3000, 1500, {2, 4}},
        {25, 12.5, 1e-9, 0, 3000, 1500, {2, 4}},
        {25, 10, 1e-9, 0, 3000, 1200, {3, 5}},
        {25, 5, 1e-9, 0, 3000, 600, {5, 10}},
        {25, 1, 1e-9, 0, 3000, 120, {25, 50}},
        {25, 20, 1e-9, 0, 3000, 2400, {1, 2}},
        {30, 25, 1e-3, 0, 3000, 2500, {1, 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int first[2];
        assert_int_equal(wanted_of(cases[i].rate, cases[i].fps, cases[i].tick_s, cases[i].jitter_s, cases[i].of, first),
                         cases[i].wanted);
        assert_int_equal(first[0], cases[i].first[0]);
        assert_int_equal(first[1], cases[i].first[1]);
    }
    /* A rate that is slightly higher should drop one picture now and then, not several in a row. */
    int first[2];
    assert_in_range(wanted_of(25.01, 25, 1e-3, 1e-3, 30000, first), 29984, 29991);
}

/* No second may have more than `fps` pictures; inexact times allow one more. */
TEST(selection_keeps_its_rate) {
    const mr_media media = {.fps = 10};
    unsigned seed = 3;
    int64_t wanted[4000], time_ns = 0, second_ns = 1000000000;
    for (int run = 0; run < 20; run++) {
        mr_selection selection;
        int count = 0;
        mr_selection_begin(&selection);
        for (int i = 0; i < 4000; i++, time_ns += rand_r(&seed) % (run % 4 ? 90000000 : 400000000))
            if (mr_selection_wants(&selection, &media, time_ns))
                wanted[count++] = time_ns;
        for (int i = 12; i < count; i++)
            assert_true(wanted[i] - wanted[i - 12] >= second_ns);
    }
}

TEST(selection_follows_time_and_number) {
    mr_selection selection;
    mr_media media = {.start_ns = 1000000000, .end_ns = 2000000000, .every = 2};
    mr_selection_begin(&selection);
    int wanted = 0;
    for (int64_t i = 0; i < 75; i++)
        wanted += mr_selection_wants(&selection, &media, i * 40000000);
    assert_int_equal(wanted, 13);
    /* 29.97 pictures a second, reduced to ten: one in each tenth of a second. */
    media = (mr_media){.fps = 10};
    mr_selection_begin(&selection);
    for (int64_t i = 0, last = -1; i < 300; i++) {
        int64_t time = i * 1001 * 1000000 / 30;
        if (!mr_selection_wants(&selection, &media, time))
            continue;
        assert_true(time / 100000000 > last);
        last = time / 100000000;
    }
    selection_near_the_rate();
    media = (mr_media){.fps = 10, .every = 3};
    mr_selection_begin(&selection);
    assert_true(mr_selection_wants(&selection, &media, MR_NO_TIME));
    assert_false(mr_selection_wants(&selection, &media, MR_NO_TIME));
}

/* A decoder takes pictures of the pool and of libavcodec for one another: both must have the same strides. */
TEST(strides_are_those_of_libavcodec) {
    const AVCodec *decoder = avcodec_find_decoder(AV_CODEC_ID_H264);
    AVCodecContext *codec = avcodec_alloc_context3(decoder);
    static const int sizes[][2] = {{176, 144}, {175, 143}, {186, 150}, {640, 360}, {1920, 1080}, {16, 16}};
    mr_pixel pixel;
    enum AVPixelFormat format;
    assert_int_equal(avcodec_open2(codec, decoder, NULL), 0);
    for (size_t i = 0; (format = mr_pixel_av_at(i, &pixel)) != AV_PIX_FMT_NONE; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            AVFrame *picture = av_frame_alloc();
            int strides[4] = {0};
            size_t offsets[4] = {0};
            codec->pix_fmt = picture->format = format;
            codec->width = picture->width = sizes[k][0];
            codec->height = picture->height = sizes[k][1];
            assert_int_equal(avcodec_default_get_buffer2(codec, picture, 0), 0);
            assert_true(mr_picture_lay_out(codec, format, sizes[k][0], sizes[k][1], strides, offsets) > 0);
            for (int plane = 0; plane < 4; plane++)
                assert_int_equal(strides[plane], picture->linesize[plane]);
            av_frame_free(&picture);
        }
    avcodec_free_context(&codec);
}

RUN_TESTS(NULL, NULL)
