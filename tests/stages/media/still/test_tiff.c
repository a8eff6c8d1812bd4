/* TIFF kinds: those that libavcodec can decode, and those that it would turn into black or wrong pictures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stages/media/still/kinds.h"
#include "stages/media/still/tiff.h"
#include "tests/support/suite.h"

enum { BITS = 258, COMPRESSION = 259, COLOURS = 262, ORIENTATION = 274, SAMPLES = 277, TILE_WIDTH = 322,
       SAMPLE_KIND = 339, DNG_VERSION = 50706, SHORT = 3, MOST_BYTES = 256 };

typedef struct file {
    uint8_t data[MOST_BYTES];
    size_t bytes;
    bool big;
} file;

static void put(file *to, unsigned value, int bytes) {
    for (int i = 0; i < bytes; i++)
        to->data[to->bytes++] = (uint8_t)(value >> 8 * (to->big ? bytes - 1 - i : i));
}

/* Makes a file with one directory: an entry for each pair of tag and value. BITS and SAMPLE_KIND point to three
 * numbers. */
static file make(bool big, const unsigned (*tags)[2], unsigned count) {
    enum { HEADER = 8, ENTRY = 12 };
    file made = {.big = big};
    const unsigned end = HEADER + 2 + count * ENTRY + 4;
    memcpy(made.data, big ? "MM\0*" : "II*\0", 4);
    made.bytes = 4;
    put(&made, HEADER, 4);
    put(&made, count, 2);
    for (unsigned i = 0; i < count; i++) {
        const bool far = tags[i][0] == BITS || tags[i][0] == SAMPLE_KIND;
        put(&made, tags[i][0], 2);
        put(&made, SHORT, 2);
        put(&made, far ? 3 : 1, 4);
        put(&made, far ? end + 6 * i : tags[i][1], far ? 4 : 2);
        put(&made, 0, far ? 0 : 2);
    }
    put(&made, 0, 4);
    for (unsigned i = 0; i < 3 * count; i++)
        put(&made, tags[i / 3][1], 2);
    return made;
}

static const struct {
    unsigned tags[4][2];
    const char *words; /* NULL: it can be decoded */
} kinds[] = {
    {{{BITS, 8}, {COMPRESSION, 1}, {COLOURS, 2}, {SAMPLES, 3}}, NULL},
    {{{BITS, 16}, {COMPRESSION, 5}, {COLOURS, 1}, {SAMPLE_KIND, 1}}, NULL},
    {{{BITS, 8}, {COMPRESSION, 32946}, {COLOURS, 5}, {SAMPLES, 4}}, NULL},
    {{{BITS, 8}, {COMPRESSION, 7}, {COLOURS, 2}, {SAMPLES, 3}}, "is a TIFF with JPEG compression, which is not"},
    {{{BITS, 8}, {COMPRESSION, 6}, {COLOURS, 6}, {SAMPLES, 3}}, "with JPEG compression"},
    {{{BITS, 8}, {COMPRESSION, 50000}, {COLOURS, 2}, {SAMPLES, 3}}, "with Zstandard compression"},
    {{{BITS, 8}, {COMPRESSION, 4711}, {COLOURS, 2}, {SAMPLES, 3}}, "with an unknown method compression"},
    {{{BITS, 8}, {COMPRESSION, 8}, {SAMPLES, 3}, {TILE_WIDTH, 32}}, "in tiles"},
    {{{BITS, 16}, {COMPRESSION, 1}, {COLOURS, 1}, {SAMPLE_KIND, 3}}, "of floating-point samples"},
    {{{BITS, 16}, {COMPRESSION, 1}, {COLOURS, 1}, {SAMPLE_KIND, 2}}, "of signed samples"},
    {{{BITS, 32}, {COMPRESSION, 1}, {COLOURS, 1}, {SAMPLE_KIND, 1}}, "of 32-bit samples"},
    {{{BITS, 16}, {COMPRESSION, 1}, {COLOURS, 5}, {SAMPLES, 4}}, "of CMYK in 16-bit samples"},
    {{{BITS, 8}, {COMPRESSION, 1}, {COLOURS, 2}, {SAMPLES, 5}}, "of 5 samples a pixel"},
    {{{BITS, 8}, {COMPRESSION, 1}, {COLOURS, 8}, {SAMPLES, 3}}, "of colours of kind 8"},
    {{{BITS, 16}, {COMPRESSION, 7}, {TILE_WIDTH, 32}, {DNG_VERSION, 1}}, NULL},
};

TEST(kinds_are_told) {
    char text[256];
    for (size_t i = 0; i < 2 * sizeof kinds / sizeof *kinds; i++) {
        const file made = make(i % 2, kinds[i / 2].tags, 4);
        const char *words = kinds[i / 2].words;
        assert_int_equal(mr_tiff_trouble(made.data, made.bytes, text, sizeof text), words != NULL);
        assert_int_equal(mr_still_trouble("x.tif", made.data, made.bytes, text, sizeof text), words != NULL);
        if (words && !strstr(text, words))
            fail_msg("\"%s\" in place of \"%s\"", text, words);
    }
    assert_true(mr_tiff_trouble((const uint8_t *)"II+\0\x08\0\0\0", 8, text, sizeof text));
    expect_words(text, "is a BigTIFF, which");
}

/* Each prefix is in a separate block, so that a sanitizer sees any read past the end. */
TEST(files_may_be_cut_off) {
    const unsigned tags[][2] = {{BITS, 8}, {ORIENTATION, 6}, {SAMPLE_KIND, 3}};
    const file made = make(true, tags, 3);
    char text[256];
    assert_int_equal(mr_tiff_orientation(made.data, made.bytes), 6);
    assert_int_equal(mr_tiff_pictures(made.data, made.bytes), 1);
    for (size_t cut = 0; cut < made.bytes; cut++) {
        uint8_t *exact = malloc(cut + 1);
        memcpy(exact, made.data, cut);
        FREED uint8_t *end = realloc(exact, cut ? cut : 1);
        mr_tiff_trouble(end, cut, text, sizeof text);
        assert_in_range(mr_tiff_orientation(end, cut), 0, 6);
        assert_int_equal(mr_tiff_pictures(end, cut), 1);
    }
}

RUN_TESTS(NULL, NULL)
