/* Where still pictures end: generated files with known ends, cut at each byte. */
#include <string.h>

#include "stages/media/still/still.h"
#include "tests/support/suite.h"

typedef struct sample {
    enum AVCodecID codec;
    const char *bytes;
    size_t length;
    size_t pictures;
} sample;

#define SAMPLE(codec, pictures, text) {codec, text, sizeof text - 1, pictures}
static const sample samples[] = {
    /* SOI, APP1 that contains a whole JPEG, SOS with a stuffed FF, a restart and fill bytes, a second scan, EOI. */
    SAMPLE(AV_CODEC_ID_MJPEG, 1,
           "\xff\xd8\xff\xe1\x00\x08\xff\xd8\xff\xd9\x01\x02\xff\xda\x00\x03\x05\x11\xff\x00\x22\xff\xd3\x33\xff\xff"
           "\xda\x00\x02\x44\xff\xd9"),
    SAMPLE(AV_CODEC_ID_PNG, 1,
           "\x89PNG\r\n\x1a\n\0\0\0\x01IDATx\1\2\3\4\0\0\0\0IEND\xae\x42\x60\x82"),
    SAMPLE(AV_CODEC_ID_PNG, 3,
           "\x89PNG\r\n\x1a\n\0\0\0\x08" "acTL\0\0\0\x03\0\0\0\0\1\2\3\4"
           "\0\0\0\x01IDATx\1\2\3\4\0\0\0\0IEND\xae\x42\x60\x82"),
    /* Two pictures. Before the second, which has a local colour table, comes an extension. */
    SAMPLE(AV_CODEC_ID_GIF, 2,
           "GIF89a\1\0\1\0\x80\0\0\1\2\3\4\5\6,\0\0\0\0\1\0\1\0\0\2\2\x44\x01\0!\xf9\4\0\0\0\0\0,\0\0\0\0\1\0\1\0\x80"
           "\1\2\3\4\5\6\2\2\x44\x01\0;"),
    SAMPLE(AV_CODEC_ID_BMP, 1, "BM\x10\0\0\0\0\0\0\0\x0e\0\0\0\1\2"),
    SAMPLE(AV_CODEC_ID_WEBP, 1, "RIFF\x05\0\0\0WEBPx\0"),
    SAMPLE(AV_CODEC_ID_PPM, 1, "P6 # comment\n2 1\n255\nabcdef"),
    SAMPLE(AV_CODEC_ID_PGM, 1, "P5\n2 1\n65535\nabcd"),
    SAMPLE(AV_CODEC_ID_PBM, 1, "P4\n9 2\nabcd"),
};
enum { SAMPLES = sizeof samples / sizeof *samples, ROOM = 256 };

static const uint8_t *bytes_of(const sample *from) {
    return (const uint8_t *)from->bytes;
}

TEST(the_end_is_found) {
    for (size_t i = 0; i < SAMPLES; i++) {
        const sample *now = &samples[i];
        uint8_t longer[ROOM] = {0};
        memcpy(longer, now->bytes, now->length);
        assert_int_equal(mr_still_end(now->codec, bytes_of(now), now->length), now->length);
        assert_int_equal(mr_still_end(now->codec, longer, now->length + 7), now->length);
        assert_int_equal(mr_still_pictures(now->codec, bytes_of(now), now->length), now->pictures);
    }
}

/* Each prefix is in a separate block, so that a sanitizer sees any read past the end. */
TEST(pictures_that_are_cut_off_have_no_end) {
    for (size_t i = 0; i < SAMPLES; i++)
        for (size_t length = 0; length < samples[i].length; length++) {
            uint8_t *copy = test_malloc(length + 1);
            memcpy(copy + 1, samples[i].bytes, length);
            assert_int_equal(mr_still_end(samples[i].codec, copy + 1, length), 0);
            mr_still_pictures(samples[i].codec, copy + 1, length);
            test_free(copy);
        }
}

TEST(pages_of_tiff_are_counted) {
    static const uint8_t little[] = "II*\0\x08\0\0\0\0\0\x0e\0\0\0\0\0\0\0\0\0", big[] = "MM\0*\0\0\0\x08\0\0\0\0\0\0";
    static const uint8_t circle[] = "II*\0\x08\0\0\0\0\0\x08\0\0\0";
    assert_int_equal(mr_still_pictures(AV_CODEC_ID_TIFF, little, sizeof little), 2);
    assert_int_equal(mr_still_pictures(AV_CODEC_ID_TIFF, big, sizeof big), 1);
    assert_true(mr_still_pictures(AV_CODEC_ID_TIFF, circle, sizeof circle) > 1);
    for (size_t length = 0; length < sizeof little; length++) {
        uint8_t *copy = test_malloc(length + 1);
        memcpy(copy + 1, little, length);
        assert_in_range(mr_still_pictures(AV_CODEC_ID_TIFF, copy + 1, length), 1, 2);
        test_free(copy);
    }
}

/* Each chunk that a decoder needs must stay in place, and so must bytes that are no chunk. */
TEST(what_expands_is_stripped_from_png) {
    enum { PROFILE = 20000, HEAD = 8 };
    static const char before[] = "\x89PNG\r\n\x1a\n\0\0\0\1IHDR?sum!", spare[] = "\0\0\0\2zTXta\0sum!",
                      exif[] = "\0\0\0\x18zTXtRaw profile type exif\0\0!sum!", small[] = "\0\0\0\3iCCPb\0!sum!",
                      after[] = "\0\0\0\1IDAT?sum!\0\0\0\xffrest";
    uint8_t data[PROFILE + 200] = {0}, got[sizeof data];
    size_t bytes = 0, kept = 0;
    char wanted[200];
    const struct {
        const void *from;
        size_t bytes;
        bool stays;
    } parts[] = {{before, sizeof before - 1, true}, {spare, sizeof spare - 1, false}, {small, sizeof small - 1, true},
                 {exif, sizeof exif - 1, true}, {exif, sizeof exif - 1, false},
                 {"\0\0\x4e\x20iCCP", HEAD, false}, {NULL, PROFILE + 4, false}, {after, sizeof after - 1, true}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; bytes += parts[i++].bytes) {
        if (parts[i].from)
            memcpy(data + bytes, parts[i].from, parts[i].bytes);
        if (parts[i].stays) {
            memcpy(wanted + kept, parts[i].from, parts[i].bytes);
            kept += parts[i].bytes;
        }
    }
    assert_int_equal(mr_png_strip(data, bytes, NULL), kept);
    assert_int_equal(mr_png_strip(data, bytes, got), kept);
    assert_memory_equal(got, wanted, kept);
    for (size_t cut = 0; cut < bytes; cut++)
        assert_true(mr_png_strip(data, cut, got) <= cut);
}

TEST(other_contents_have_no_end) {
    for (size_t i = 0; i < SAMPLES; i++)
        for (size_t k = 0; k < SAMPLES; k++)
            if (samples[i].codec != samples[k].codec)
                assert_int_equal(mr_still_end(samples[k].codec, bytes_of(&samples[i]), samples[i].length) &&
                                     samples[k].codec != AV_CODEC_ID_PPM,
                                 false);
    assert_int_equal(mr_still_end(AV_CODEC_ID_TIFF, bytes_of(&samples[0]), samples[0].length), 0);
    assert_false(mr_still_begins(AV_CODEC_ID_MJPEG, (const uint8_t *)"\xff\xd8", 2));
}

RUN_TESTS(NULL, NULL)
