/* JPEG decoded at 1/4 and 1/8, compared with libavcodec. Pictures have random coefficients and codes, come from
 * encoders, or are damaged. A picture is either identical bit for bit or refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glob.h>

#include "tests/support/clips.h"
#include "tests/support/lowres.h"
#include "tests/support/quiet.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

/* ---- pictures with random coefficients --------------------------------------------------------------------------- */

enum { ROOM = 1 << 20, SYMBOLS = 256, LENGTHS = 16 };

typedef struct code {
    uint8_t counts[LENGTHS], symbols[SYMBOLS];
    int length[SYMBOLS], bits[SYMBOLS]; /* by symbol */
    int count;
} code;

typedef struct made {
    uint8_t data[ROOM];
    size_t bytes, scan; /* where the scan begins */
    uint64_t bits;
    int bit_count;
    int width, height, components;
    uint8_t sampling[3];
    int interval, density; /* percent of coefficients */
    int steps;             /* the largest quantiser step */
    bool extreme;          /* values as large as allowed */
    code dc, ac;
} made;

static made picture;

static void put(int byte) {
    assert_true(picture.bytes < ROOM);
    picture.data[picture.bytes++] = (uint8_t)byte;
}

static void put_16(int word) {
    put(word >> 8);
    put(word & 255);
}

static void put_bits(int bits, int count) {
    picture.bits = picture.bits << count | (unsigned)bits;
    for (picture.bit_count += count; picture.bit_count >= 8; picture.bit_count -= 8) {
        int byte = (int)(picture.bits >> (picture.bit_count - 8) & 255);
        put(byte);
        if (byte == 255)
            put(0);
    }
}

static void pad_bits(void) {
    if (picture.bit_count)
        put_bits((1 << (8 - picture.bit_count)) - 1, 8 - picture.bit_count);
}

/* Grows a random tree and leaves out one longest leaf, since no code may be all ones. */
static void make_code(code *to, const uint8_t *symbols, int count) {
    int leaves[SYMBOLS + 1] = {0}, grown = 1;
    memset(to, 0, sizeof *to);
    to->count = count;
    while (grown < count + 1) {
        int leaf = between(0, 3) ? grown - 1 : between(0, grown - 1);
        while (leaves[leaf] == LENGTHS)
            leaf = (leaf + 1) % grown;
        leaves[grown++] = ++leaves[leaf];
    }
    int longest = 0;
    for (int i = 0; i < grown; i++)
        longest = leaves[i] > leaves[longest] ? i : longest;
    leaves[longest] = leaves[grown - 1];
    for (int i = 0; i < count; i++)
        to->counts[leaves[i] - 1]++;
    memcpy(to->symbols, symbols, (size_t)count);
    for (int i = count - 1; i > 0; i--) {
        int other = between(0, i);
        uint8_t symbol = to->symbols[i];
        to->symbols[i] = to->symbols[other];
        to->symbols[other] = symbol;
    }
    for (int length = 1, next = 0, index = 0; length <= LENGTHS; length++, next *= 2)
        for (int i = 0; i < to->counts[length - 1]; i++, index++, next++) {
            to->length[to->symbols[index]] = length;
            to->bits[to->symbols[index]] = next;
        }
}

static void make_codes(void) {
    uint8_t symbols[SYMBOLS];
    int count = 0;
    for (int size = 0; size <= 11; size++)
        symbols[count++] = (uint8_t)size;
    make_code(&picture.dc, symbols, count);
    count = 0;
    symbols[count++] = 0;
    symbols[count++] = 0xf0;
    for (int run = 0; run < 16; run++)
        for (int size = 1; size <= 10; size++)
            symbols[count++] = (uint8_t)(run << 4 | size);
    make_code(&picture.ac, symbols, count);
}

static void put_code(const code *from, int kind) {
    put_16(0xffc4);
    put_16(2 + 1 + LENGTHS + from->count);
    put(kind);
    for (int i = 0; i < LENGTHS; i++)
        put(from->counts[i]);
    for (int i = 0; i < from->count; i++)
        put(from->symbols[i]);
}

static void put_symbol(const code *from, int symbol) {
    assert_true(from->length[symbol] > 0);
    put_bits(from->bits[symbol], from->length[symbol]);
}

static void put_value(int size) {
    if (size)
        put_bits(between(0, (1 << size) - 1), size);
}

static void put_block(void) {
    int size = between(0, picture.extreme ? 11 : 5), position = 0;
    put_symbol(&picture.dc, size);
    put_value(size);
    while (position < 63) {
        int run = 0, left = 63 - position;
        while (run < left && between(0, 99) >= picture.density)
            run++;
        if (run == left) {
            put_symbol(&picture.ac, 0);
            return;
        }
        position += run + 1;
        for (; run > 15; run -= 16)
            put_symbol(&picture.ac, 0xf0);
        size = between(1, picture.extreme ? 10 : 4);
        put_symbol(&picture.ac, run << 4 | size);
        put_value(size);
    }
}

static void put_header(void) {
    picture.bytes = 0;
    put_16(0xffd8);
    put_16(0xffdb);
    put_16(2 + 129);
    put(0x10);
    for (int i = 0; i < 64; i++)
        put_16(between(1, picture.steps));
    put_code(&picture.dc, 0x00);
    put_code(&picture.ac, 0x10);
    if (picture.interval) {
        put_16(0xffdd);
        put_16(4);
        put_16(picture.interval);
    }
    put_16(between(0, 1) ? 0xffc1 : 0xffc0);
    put_16(8 + 3 * picture.components);
    put(8);
    put_16(picture.height);
    put_16(picture.width);
    put(picture.components);
    for (int i = 0; i < picture.components; i++) {
        put(i + 1);
        put(picture.sampling[i]);
        put(0);
    }
    put_16(0xffda);
    put_16(6 + 2 * picture.components);
    put(picture.components);
    for (int i = 0; i < picture.components; i++) {
        put(i + 1);
        put(0);
    }
    put(0);
    put(63);
    put(0);
}

static int blocks_of(int component) {
    return picture.components == 1 ? 1 : (picture.sampling[component] >> 4) * (picture.sampling[component] & 15);
}

static void put_picture(void) {
    bool alone = picture.components == 1;
    int across = alone ? 8 : 8 * (picture.sampling[0] >> 4), down = alone ? 8 : 8 * (picture.sampling[0] & 15);
    int total = (picture.width + across - 1) / across * ((picture.height + down - 1) / down);
    put_header();
    picture.scan = picture.bytes;
    picture.bit_count = 0;
    for (int i = 0; i < total; i++) {
        if (i && picture.interval && i % picture.interval == 0) {
            pad_bits();
            put_16(0xffd0 + (i / picture.interval - 1) % 8);
        }
        for (int component = 0; component < picture.components; component++)
            for (int block = 0; block < blocks_of(component); block++)
                put_block();
    }
    pad_bits();
    put_16(0xffd9);
}

/* Samplings that libavcodec reduces. */
static const uint8_t samplings[][3] = {{0x11, 0x11, 0x11}, {0x22, 0x11, 0x11}, {0x21, 0x11, 0x11}, {0x12, 0x11, 0x11},
                                       {0x41, 0x11, 0x11}, {0x22, 0x12, 0x12}, {0x22, 0x21, 0x21}, {0x11, 0, 0},
                                       {0x22, 0, 0}};
enum { SAMPLINGS = sizeof samplings / sizeof *samplings };

static void make_picture(int number) {
    random_state = seed + (uint64_t)number * 7919;
    memcpy(picture.sampling, samplings[number % SAMPLINGS], sizeof picture.sampling);
    picture.components = picture.sampling[1] ? 3 : 1;
    picture.width = between(1, 150);
    picture.height = between(1, 90);
    picture.interval = between(0, 1) ? between(1, 20) : 0;
    picture.density = between(0, 99);
    picture.extreme = between(0, 3) == 0;
    picture.steps = between(0, 3) ? 40 : 65535;
    make_codes();
    put_picture();
}

static mr_jpeg_decoder *jpeg;

static lowres_answer compare(int scale) {
    return compare_lowres(&jpeg, picture.data, picture.bytes, scale);
}

TEST(made_pictures_are_those_of_libavcodec) {
    enum { CASES = 450 };
    for (int i = 0; i < CASES; i++) {
        make_picture(i);
        for (int scale = 2; scale <= 3; scale++)
            if (compare(scale) != LOWRES_SAME)
                fail_msg("picture %d of seed %llu, %dx%d, at scale %d: %s", i, (unsigned long long)seed, picture.width,
                         picture.height, scale, compare(scale) == LOWRES_REFUSED ? "refused" : "wrong");
    }
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static void damage(size_t from) {
    size_t at = from + draw() % (picture.bytes - from), rest = picture.bytes - at - 1;
    switch (between(0, 5)) {
    case 0:
        picture.data[at] = (uint8_t)draw();
        return;
    case 1:
        picture.data[at] ^= (uint8_t)(1 << between(0, 7));
        return;
    case 2:
        picture.bytes = at;
        return;
    case 3:
        memmove(picture.data + at, picture.data + at + 1, rest);
        picture.bytes--;
        return;
    case 4:
        memmove(picture.data + at + 1, picture.data + at, rest);
        return;
    default:
        picture.data[at] = 0xff;
    }
}

/* Damage may leave a picture valid: it may change coefficients, or numbers that do not matter. */
TEST(damaged_pictures_are_refused_or_those_of_libavcodec) {
    enum { CASES = 3000 };
    int refused = 0;
    for (int i = 0; i < CASES; i++) {
        make_picture(i);
        damage(i % 2 ? picture.scan : 0);
        if (picture.bytes == 0)
            continue;
        lowres_answer answer = compare(2 + i % 4 / 2);
        if (answer == LOWRES_WRONG)
            fail_msg("picture %d of seed %llu", i, (unsigned long long)seed);
        refused += answer == LOWRES_REFUSED;
    }
    assert_in_range(refused, CASES / 2, CASES - 1);
}

/* A picture that ends early never passes as complete. */
TEST(pictures_that_are_cut_off_are_refused) {
    make_picture(1);
    for (size_t whole = picture.bytes; picture.bytes > 1; picture.bytes--)
        if (picture.bytes < whole && compare(3) != LOWRES_REFUSED)
            fail_msg("%zu of %zu bytes", picture.bytes, whole);
}

TEST(restart_markers_in_disorder_are_refused) {
    int seen = 0;
    for (int number = 0; seen < 20; number++) {
        make_picture(number);
        for (size_t at = picture.scan; at + 1 < picture.bytes; at++) {
            if (picture.data[at] != 0xff || (picture.data[at + 1] & 0xf8) != 0xd0)
                continue;
            picture.data[at + 1] ^= 1;
            assert_int_equal(compare(2), LOWRES_REFUSED);
            seen++;
            break;
        }
    }
}

static size_t find_marker(int marker) {
    for (size_t at = 0; at + 1 < picture.bytes; at++)
        if (picture.data[at] == 0xff && picture.data[at + 1] == marker)
            return at;
    fail();
    return 0;
}

static void expect_refused_with(size_t offset, int marker, int byte) {
    make_picture(0);
    assert_int_equal(compare(2), LOWRES_SAME);
    picture.data[find_marker(marker) + offset] = (uint8_t)byte;
    assert_int_equal(compare(2), LOWRES_REFUSED);
}

/* Components and tables are missing or have a wrong kind. */
TEST(headers_that_are_odd_are_refused) {
    expect_refused_with(4, 0xdb, 0x20);   /* 24-bit quantisation */
    expect_refused_with(4, 0xdb, 0x14);   /* a fifth table */
    expect_refused_with(4, 0xc4, 0x20);   /* a code class other than DC and AC */
    expect_refused_with(4, 0xc4, 0x05);   /* a sixth table */
    expect_refused_with(5, 0xc4, 0xff);   /* 255 codes of one bit */
    expect_refused_with(4, 0xda, 2);      /* two out of three components */
    expect_refused_with(5, 0xda, 2);      /* in another order */
    expect_refused_with(6, 0xda, 0x10);   /* a missing code */
    expect_refused_with(11, 0xda, 1);     /* without DC */
    expect_refused_with(12, 0xda, 5);     /* only the lower coefficients */
    expect_refused_with(13, 0xda, 0x01);  /* without the last bit */
}

TEST(sizes_without_data_are_refused) {
    make_picture(0);
    uint8_t *size = picture.data + find_marker(0xda) - (6 + 3 * (size_t)picture.components) + 1;
    memset(size, 0xff, 4);
    for (int scale = 2; scale <= 3; scale++)
        assert_int_equal(compare(scale), LOWRES_REFUSED);
    memset(size, 0, 4);
    assert_int_equal(compare(3), LOWRES_REFUSED);
}

/* ---- pictures of encoders ---------------------------------------------------------------------------------------- */

static bool load(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    picture.bytes = fread(picture.data, 1, ROOM, file);
    bool whole = picture.bytes < ROOM;
    fclose(file);
    return whole;
}

CLIP_TEST(pictures_of_ffmpeg) {
    static const char *const formats[] = {"yuvj420p", "yuvj422p", "yuvj444p"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (int huffman = 0; huffman < 2; huffman++) {
            char name[64], arguments[256], path[CLIP_PATH];
            snprintf(name, sizeof name, "jpeg-%s-%d.jpg", formats[i], huffman);
            snprintf(arguments, sizeof arguments,
                     "-f lavfi -i testsrc2=size=501x379:rate=25 -frames:v 1 -c:v mjpeg -huffman %s -pix_fmt %s -q:v 2",
                     huffman ? "optimal" : "default", formats[i]);
            clip_make(path, name, arguments);
            assert_true(load(path));
            for (int scale = 2; scale <= 3; scale++)
                assert_int_equal(compare(scale), LOWRES_SAME);
        }
}

TEST(stills_of_opencv) {
    ENDED_BY(globfree) glob_t found;
    int same = 0;
    if (glob("/usr/share/doc/opencv-doc/examples/data/*.jpg", 0, NULL, &found))
        skip();
    for (size_t i = 0; i < found.gl_pathc; i++)
        for (int scale = 2; scale <= 3 && load(found.gl_pathv[i]); scale++) {
            lowres_answer answer = compare(scale);
            if (answer == LOWRES_WRONG)
                fail_msg("%s", found.gl_pathv[i]);
            same += answer == LOWRES_SAME;
        }
    printf("%zu stills of opencv-doc, %d of them at both scales\n", found.gl_pathc, same / 2);
    assert_true(same > 0);
}

static int begin(void **state) {
    av_log_set_level(AV_LOG_QUIET);
    return be_quiet(state);
}

static int end_all(void **state __attribute__((unused))) {
    mr_jpeg_decoder_destroy(&jpeg);
    return 0;
}

RUN_TESTS(begin, end_all)
