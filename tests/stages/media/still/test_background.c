/* Backgrounds in every layout with alpha that FFmpeg knows, at odd sizes: where a picture is transparent the background
 * is there, where it is opaque nothing has changed. Mixed values: tests/e2e/pictures/test_photos.py. */
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "stages/media/still/background.h"
#include "tests/support/suite.h"

enum { WIDTH = 13, HEIGHT = 7, TRANSPARENT = 8 }; /* columns from the left, in whole chroma samples */

static void close_picture(AVFrame **picture) {
    av_frame_free(picture);
}

static AVFrame *make_picture(enum AVPixelFormat layout) {
    AVFrame *made = av_frame_alloc();
    made->format = layout;
    made->width = WIDTH;
    made->height = HEIGHT;
    made->color_range = AVCOL_RANGE_JPEG;
    assert_int_equal(av_frame_get_buffer(made, 0), 0);
    for (int plane = 0; plane < 4 && made->buf[plane]; plane++)
        for (size_t i = 0; i < made->buf[plane]->size; i++)
            made->buf[plane]->data[i] = (uint8_t)rand();
    return made;
}

static bool is_packed_or_planar(const AVPixFmtDescriptor *about) {
    const uint64_t others = AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_FLOAT | AV_PIX_FMT_FLAG_BITSTREAM |
                            AV_PIX_FMT_FLAG_PAL;
    return about->flags & AV_PIX_FMT_FLAG_ALPHA && !(about->flags & others);
}

/* Sample (x, y) in a component, or sets it if `value` is not negative. */
static int sample(AVFrame *picture, int part, int x, int y, int value) {
    const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(picture->format);
    uint16_t one = 0, row[WIDTH];
    const uint8_t *from[4] = {picture->data[0], picture->data[1], picture->data[2], picture->data[3]};
    av_read_image_line2(row, from, picture->linesize, about, 0, y, part, x + 1, 0, 2);
    if (value < 0)
        return row[x];
    /* av_write_image_line2 only sets bits. */
    const AVComponentDescriptor *of = &about->comp[part];
    memset(picture->data[of->plane] + y * picture->linesize[of->plane] + of->offset + x * of->step, 0,
           of->depth > 8 ? 2 : 1);
    one = (uint16_t)value;
    av_write_image_line2(&one, picture->data, picture->linesize, about, x, y, part, 1, 2);
    return value;
}

static bool is_chroma(const AVPixFmtDescriptor *about, int part) {
    return about->nb_components > 2 && !(about->flags & AV_PIX_FMT_FLAG_RGB) && part > 0 && part < 3;
}

static int behind(const AVPixFmtDescriptor *about, int part, bool white) {
    const int depth = about->comp[part].depth;
    return is_chroma(about, part) ? 1 << (depth - 1) : white ? (1 << depth) - 1 : 0;
}

static void check_component(AVFrame *before, AVFrame *after, int part, bool white) {
    const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(before->format);
    const int right = is_chroma(about, part) ? about->log2_chroma_w : 0;
    const int down = is_chroma(about, part) ? about->log2_chroma_h : 0;
    for (int y = 0; y < AV_CEIL_RSHIFT(HEIGHT, down); y++)
        for (int x = 0; x < AV_CEIL_RSHIFT(WIDTH, right); x++) {
            const int want = x << right < TRANSPARENT ? behind(about, part, white) : sample(before, part, x, y, -1);
            if (sample(after, part, x, y, -1) != want)
                fail_msg("%s: component %d at %d,%d is %d instead of %d", about->name, part, x, y,
                         sample(after, part, x, y, -1), want);
        }
}

static void check_layout(enum AVPixelFormat layout, bool white) {
    const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(layout);
    const int opaque = about->nb_components - 1, most = (1 << about->comp[opaque].depth) - 1;
    ENDED_BY(close_picture) AVFrame *before = make_picture(layout), *after = NULL;
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        sample(before, opaque, i % WIDTH, i / WIDTH, i % WIDTH < TRANSPARENT ? 0 : most);
    after = av_frame_clone(before);
    assert_int_equal(av_frame_make_writable(after), 0);
    assert_int_equal(mr_background_put(after, white ? MR_BACKGROUND_WHITE : MR_BACKGROUND_BLACK), MR_OK);
    for (int part = 0; part < opaque; part++)
        check_component(before, after, part, white);
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        assert_int_equal(sample(after, opaque, i % WIDTH, i / WIDTH, -1), most);
    av_frame_free(&after);
}

TEST(every_layout_with_alpha) {
    int count = 0;
    for (const AVPixFmtDescriptor *about = NULL; (about = av_pix_fmt_desc_next(about));)
        if (is_packed_or_planar(about)) {
            check_layout(av_pix_fmt_desc_get_id(about), count % 2);
            check_layout(av_pix_fmt_desc_get_id(about), count++ % 2 == 0);
        }
    assert_in_range(count, 30, 200);
}

TEST(palettes) {
    ENDED_BY(close_picture) AVFrame *picture = make_picture(AV_PIX_FMT_PAL8);
    const uint32_t entries[] = {0x00123456, 0xff123456, 0x80000000};
    memcpy(picture->data[1], entries, sizeof entries);
    assert_int_equal(mr_background_put(picture, MR_BACKGROUND_WHITE), MR_OK);
    uint32_t got[3];
    memcpy(got, picture->data[1], sizeof got);
    assert_int_equal(got[0], 0xffffffff);
    assert_int_equal(got[1], 0xff123456);
    assert_int_equal(got[2], 0xff7f7f7f);
}

/* Everything transparent has no contrast: black is as good as white, and nothing is divided by zero. */
TEST(nothing_visible) {
    ENDED_BY(close_picture) AVFrame *picture = make_picture(AV_PIX_FMT_RGBA);
    for (int y = 0; y < HEIGHT; y++)
        memset(picture->data[0] + y * picture->linesize[0], 0, 4 * WIDTH);
    assert_int_equal(mr_background_put(picture, MR_BACKGROUND_CONTRAST), MR_OK);
    assert_int_equal(picture->data[0][0], 0);
    assert_int_equal(picture->data[0][3], 255);
}

TEST(without_alpha_nothing_changes) {
    for (int i = 0; i < 2; i++) {
        ENDED_BY(close_picture) AVFrame *picture = make_picture(i ? AV_PIX_FMT_YUV420P : AV_PIX_FMT_RGBA), *before;
        before = av_frame_clone(picture);
        assert_int_equal(av_frame_make_writable(picture), 0);
        assert_int_equal(mr_background_put(picture, i ? MR_BACKGROUND_WHITE : MR_BACKGROUND_NONE), MR_OK);
        for (int y = 0; y < HEIGHT; y++)
            assert_memory_equal(picture->data[0] + y * picture->linesize[0],
                                before->data[0] + y * before->linesize[0], i ? WIDTH : 4 * WIDTH);
        av_frame_free(&before);
    }
}

/* A picture's alpha beside it, with another depth, equals the same alpha within it. */
TEST(alpha_beside_the_picture) {
    static const enum AVPixelFormat pairs[][2] = {{AV_PIX_FMT_YUVA420P, AV_PIX_FMT_YUV420P},
                                                  {AV_PIX_FMT_YUVA444P10LE, AV_PIX_FMT_YUV444P10LE},
                                                  {AV_PIX_FMT_GBRAP, AV_PIX_FMT_GBRP}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        ENDED_BY(close_picture) AVFrame *with = make_picture(pairs[i][0]);
        ENDED_BY(close_picture) AVFrame *without = make_picture(pairs[i][1]);
        const int deep = av_pix_fmt_desc_get(pairs[i][0])->comp[0].depth > 8;
        for (int k = 0; k < WIDTH * HEIGHT; k++)
            for (int part = 0; part < 4; part++) {
                const bool chroma = i == 0 && (part == 1 || part == 2);
                const int x = k % WIDTH, y = k / WIDTH;
                const int value = part == 3 && deep ? rand() & 1023 : sample(with, part, x >> chroma, y >> chroma, -1);
                const int kept = value & (deep ? 1023 : 255);
                sample(with, part, x >> chroma, y >> chroma, kept);
                if (part < 3)
                    sample(without, part, x >> chroma, y >> chroma, kept);
            }
        const mr_alpha alpha = {with->data[3], with->linesize[3], deep ? 10 : 8, false};
        ENDED_BY(close_picture) AVFrame *copy = av_frame_clone(with);
        assert_int_equal(av_frame_make_writable(copy), 0);
        assert_int_equal(mr_background_put_alpha(without, &alpha, MR_BACKGROUND_WHITE), MR_OK);
        assert_int_equal(mr_background_put(copy, MR_BACKGROUND_WHITE), MR_OK);
        for (int part = 0; part < 3; part++)
            for (int k = 0; k < WIDTH * HEIGHT; k++) {
                const int shift = i == 0 && part > 0;
                assert_int_equal(sample(without, part, k % WIDTH >> shift, k / WIDTH >> shift, -1),
                                 sample(copy, part, k % WIDTH >> shift, k / WIDTH >> shift, -1));
            }
    }
}

/* Gray with alpha of 10 bits, straight and premultiplied. */
TEST(premultiplied) {
    static const uint8_t none[WIDTH * HEIGHT * 2];
    ENDED_BY(close_picture) AVFrame *gray = make_picture(AV_PIX_FMT_GRAY8);
    uint8_t alpha[WIDTH * HEIGHT * 2];
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
        alpha[2 * i] = 0xff;
        alpha[2 * i + 1] = 1; /* 511 of 1023 */
        sample(gray, 0, i % WIDTH, i / WIDTH, i == 0 ? 250 : 100);
    }
    mr_alpha given = {alpha, 2 * WIDTH, 10, true};
    assert_int_equal(mr_background_put_alpha(gray, &given, MR_BACKGROUND_BLACK), MR_OK);
    assert_int_equal(sample(gray, 0, 1, 0, -1), 100);
    assert_int_equal(mr_background_put_alpha(gray, &given, MR_BACKGROUND_WHITE), MR_OK);
    assert_int_equal(sample(gray, 0, 0, 0, -1), 255);
    assert_int_equal(sample(gray, 0, 1, 0, -1), 228); /* 100 + 255 * 512 / 1023 */
    given = (mr_alpha){none, 2 * WIDTH, 10, false};
    assert_int_equal(mr_background_put_alpha(gray, &given, MR_BACKGROUND_CONTRAST), MR_OK);
    assert_int_equal(sample(gray, 0, 1, 0, -1), 0);
}

RUN_TESTS(NULL, NULL)
