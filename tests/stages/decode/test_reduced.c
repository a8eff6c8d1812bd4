/* JPEG decoded at reduced size: header parsing and the chosen scale. Pictures must equal ffmpeg -lowres bit for bit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stages/decode/jpeg/decode_reduced.h"
#include "stages/list.h"
#include "tests/support/decoded.h"
#include "tests/support/suite.h"

static clip_outcome result;

/* ---- headers ----------------------------------------------------------------------------------------------------- */

#define SOI "\xff\xd8"
#define JFIF(x, y) "\xff\xe0\x00\x10JFIF\0\1\1\0\0" x "\0" y "\0\0"
/* 513x300. `components` has an id, a sampling and a table for each. */
#define SOF(marker, length, depth, count, components)                                                                \
    "\xff" marker "\0" length depth "\x01\x2c\x02\x01" count components
#define LUMA(sampling) "\1" sampling "\0"
#define CHROMA "\2\x11\1\3\x11\1"
#define YUV(marker, sampling) SOF(marker, "\x11", "\x08", "\3", LUMA(sampling) CHROMA)
#define SCAN "\xff\xda\0\x02\x12\x34"

typedef struct header {
    const char *name, *bytes;
    size_t length;
    bool reducible;
    int sar_num, sar_den;
} header;

#define HEADER(name, reducible, x, y, text) {name, text, sizeof text - 1, reducible, x, y}
static const header headers[] = {
    HEADER("4:2:0", true, 0, 0, SOI YUV("\xc0", "\x22") SCAN),
    HEADER("4:2:2", true, 0, 0, SOI YUV("\xc0", "\x21") SCAN),
    HEADER("4:2:2 of factors twice as large", true, 0, 0,
           SOI SOF("\xc0", "\x11", "\x08", "\3", LUMA("\x22") "\2\x12\1\3\x12\1") SCAN),
    HEADER("4:4:0", true, 0, 0, SOI YUV("\xc0", "\x12") SCAN),
    HEADER("4:4:4", true, 0, 0, SOI YUV("\xc0", "\x11") SCAN),
    HEADER("4:1:1", true, 0, 0, SOI YUV("\xc0", "\x41") SCAN),
    HEADER("extended", true, 0, 0, SOI YUV("\xc1", "\x22") SCAN),
    HEADER("progressive", true, 0, 0, SOI YUV("\xc2", "\x22") SCAN),
    HEADER("gray of two by two", true, 0, 0, SOI SOF("\xc0", "\x0b", "\x08", "\1", LUMA("\x22")) SCAN),
    HEADER("gray", true, 0, 0, SOI SOF("\xc0", "\x0b", "\x08", "\1", LUMA("\x11")) SCAN),
    HEADER("JFIF, pixels of 4:3", true, 4, 3, SOI JFIF("\4", "\3") YUV("\xc0", "\x22") SCAN),
    HEADER("a thumbnail in APP1", true, 0, 0,
           SOI "\xff\xe1\x00\x10" SOI SOF("\xc3", "\x11", "\x08", "\3", "\xff\xd9") YUV("\xc0", "\x22") SCAN),
    HEADER("fill bytes", true, 0, 0, SOI "\xff\xff" YUV("\xc0", "\x22") SCAN),
    HEADER("tables before", true, 0, 0, SOI "\xff\xdb\0\x04\1\2\xff\xc4\0\x03\7" YUV("\xc0", "\x22") SCAN),
    HEADER("a whole AVI picture", true, 0, 0, SOI "\xff\xe0\x00\x07" "AVI1\0" YUV("\xc0", "\x22") SCAN),
    HEADER("a field", false, 0, 0, SOI "\xff\xe0\x00\x07" "AVI1\1" YUV("\xc0", "\x22") SCAN),
    HEADER("chroma larger", false, 0, 0, SOI SOF("\xc0", "\x11", "\x08", "\3", LUMA("\x22") "\2\x21\1\3\x11\1") SCAN),
    HEADER("4:1:0", false, 0, 0, SOI YUV("\xc0", "\x42") SCAN),
    HEADER("gray of four by one", false, 0, 0, SOI SOF("\xc0", "\x0b", "\x08", "\1", LUMA("\x41")) SCAN),
    HEADER("12 bits", false, 0, 0, SOI SOF("\xc1", "\x11", "\x0c", "\3", LUMA("\x22") CHROMA) SCAN),
    HEADER("CMYK", false, 0, 0, SOI SOF("\xc0", "\x14", "\x08", "\4", LUMA("\x11") CHROMA "\4\x11\0") SCAN),
    HEADER("lossless", false, 0, 0, SOI YUV("\xc3", "\x11") SCAN),
    HEADER("arithmetic", false, 0, 0, SOI YUV("\xc9", "\x22") SCAN),
    HEADER("JPEG-LS", false, 0, 0, SOI YUV("\xf7", "\x11") SCAN),
    HEADER("no frame header", false, 0, 0, SOI SCAN YUV("\xc0", "\x22")),
    HEADER("a length too small", false, 0, 0, SOI "\xff\xdb\0\1" YUV("\xc0", "\x22") SCAN),
    HEADER("components missing", false, 0, 0, SOI SOF("\xc0", "\x0e", "\x08", "\3", LUMA("\x22") "\2\x11\1") SCAN),
    HEADER("PNG", false, 0, 0, "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"),
};
enum { HEADERS = sizeof headers / sizeof *headers };

/* Copies the header to a separate block, so that a sanitizer sees any read past the end. */
static bool look(const header *from, size_t length, mr_jpeg_header *jpeg) {
    uint8_t *copy = malloc(length + 1);
    memcpy(copy + 1, from->bytes, length);
    bool found = mr_jpeg_look(copy + 1, length, jpeg);
    free(copy);
    return found;
}

TEST(headers_are_read) {
    for (size_t i = 0; i < HEADERS; i++) {
        const header *now = &headers[i];
        mr_jpeg_header jpeg;
        if (look(now, now->length, &jpeg) != now->reducible)
            fail_msg("%s", now->name);
        if (!now->reducible)
            continue;
        assert_int_equal(jpeg.width, 513);
        assert_int_equal(jpeg.height, 300);
        assert_int_equal(jpeg.sar_num, now->sar_num);
        assert_int_equal(jpeg.sar_den, now->sar_den);
    }
}

TEST(headers_that_are_cut_off_are_none) {
    for (size_t i = 0; i < HEADERS; i++)
        for (size_t length = 0; length + sizeof SCAN - 1 < headers[i].length; length++) {
            mr_jpeg_header jpeg;
            if (look(&headers[i], length, &jpeg))
                fail_msg("%s, %zu bytes", headers[i].name, length);
        }
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

#define ODD "-f lavfi -i testsrc2=size=502x380:rate=25,format=gbrp,crop=501:379:0:0:exact=1 "

static double shrink; /* the sink's answer for any picture */
static bool asked_wrongly; /* decode's thread cannot fail a test */

static double shrinks(const void *options, const mr_format *output, const mr_format *picture) {
    asked_wrongly |= output || picture->width != 501 || picture->height != 379;
    return shrink;
}

/* Returns all types, and a sink that takes pictures of any size. */
static const mr_stage_type *const *types(void) {
    static mr_stage_type consumer;
    static const mr_stage_type *list[128];
    const mr_stage_type *const *from = mr_stage_types();
    consumer = mr_callback_stage;
    consumer.shrinks = shrinks;
    for (size_t i = 0; from[i]; i++) {
        assert_in_range(i, 0, 126);
        list[i] = from[i] == &mr_callback_stage ? &consumer : from[i];
    }
    return list;
}

static size_t lowres_of_ffmpeg(const char *path, int scale, char md5[CLIP_FRAMES][CLIP_MD5]) {
    FILE *answer = clip_ask("ffmpeg -nostdin -v quiet -threads 1 -noautorotate -lowres %d -i '%s' -vsync passthrough "
                            "-autoscale 0 -f framemd5 - | grep -v '^#' | sed 's/.*, *//'", scale,
                            path);
    size_t count = 0;
    while (count < CLIP_FRAMES && fscanf(answer, "%32s", md5[count]) == 1)
        count++;
    pclose(answer);
    return count;
}

static void assert_scale(const char *path, const char *options, double factor, int scale) {
    static char md5[CLIP_FRAMES][CLIP_MD5];
    size_t count = lowres_of_ffmpeg(path, scale, md5);
    shrink = factor;
    clip_run_types(&result, path, "", options, types());
    assert_false(asked_wrongly);
    assert_int_equal(result.status, MR_OK);
    assert_int_equal(result.count, count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        const mr_format *format = &result.format[i];
        assert_int_equal(format->reduced, scale);
        assert_int_equal(format->width, (501 + (1 << scale) - 1) >> scale);
        assert_int_equal(format->height, (379 + (1 << scale) - 1) >> scale);
        assert_int_equal(format->whole_width, scale ? 501 : 0);
        assert_int_equal(format->whole_height, scale ? 379 : 0);
        assert_string_equal(result.md5[i], md5[i]);
    }
}

static const struct {
    const char *name, *arguments;
} clips[] = {
    {"reduced-420.jpg", ODD "-frames:v 1 -c:v mjpeg -pix_fmt yuvj420p -q:v 3"},
    {"reduced-422.jpg", ODD "-frames:v 1 -c:v mjpeg -pix_fmt yuvj422p -q:v 3"},
    {"reduced-444.jpg", ODD "-frames:v 1 -c:v mjpeg -pix_fmt yuvj444p -q:v 3"},
    {"reduced-420.avi", ODD "-frames:v 5 -c:v mjpeg -pix_fmt yuvj420p -q:v 5"},
    {"reduced-422.mkv", ODD "-frames:v 5 -c:v mjpeg -pix_fmt yuvj422p -q:v 5"},
};

CLIP_TEST(pictures_are_those_of_ffmpeg) {
    static const struct {
        double shrink;
        int scale;
    } steps[] = {{1, 0}, {7.99, 0}, {8, 2}, {15.99, 2}, {16, 3}, {200, 3}};
    for (size_t i = 0; i < sizeof clips / sizeof *clips; i++) {
        char path[CLIP_PATH];
        clip_make(path, clips[i].name, clips[i].arguments);
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
            assert_scale(path, ", reduced: auto", steps[k].shrink, steps[k].scale);
        assert_scale(path, "", 200, 0);
        assert_scale(path, ", reduced: off", 200, 0);
        assert_scale(path, ", reduced: auto, device: sim:0", 200, 0);
    }
}

/* An oversized picture is refused at reduced size, as at full size. */
CLIP_TEST(pictures_that_are_too_large_are_corrupt) {
    char path[CLIP_PATH];
    clip_make(path, clips[0].name, clips[0].arguments);
    shrink = 200;
    clip_run_types(&result, path, "", ", reduced: auto, max_pixels: 100000", types());
    assert_int_equal(result.count, 0);
    assert_int_equal(result.corrupt, 1);
}

RUN_TESTS(NULL, NULL)
