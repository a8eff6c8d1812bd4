/* Classical features. Each variant of the row operations must equal the C reference bit for bit, on random data of odd
 * sizes in guarded memory. Also known answers, and work on a stream. tests/reference/classical.py compares with other
 * implementations. MILLRACE_SEED repeats a run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/sim/sim.h"
#include "kernels/classical/classical.h"
#include "kernels/classical/classical_pixel.h"
#include "millrace/status.h"
#include "tests/kernels/classical/hog_layout.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

enum { GUARD = 0xa5, GUARD_BYTES = 64, CASES = 300 };

/* Allocates exactly that size, so that the address sanitizer sees any read past the end. */
static uint8_t *draw_bytes(size_t count) {
    uint8_t *bytes = malloc(count ? count : 1);
    int kind = between(0, 2), step = between(1, 9);
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(kind == 0 ? draw() : kind == 1 ? i * (size_t)step / 4 : draw() % 2 * 255);
    return bytes;
}

/* Allocates poisoned memory for results, with guards around it. */
static uint8_t *guarded(size_t bytes) {
    uint8_t *block = aligned_alloc(64, (bytes + 2 * GUARD_BYTES + 63) / 64 * 64);
    memset(block, GUARD, bytes + 2 * GUARD_BYTES);
    return block;
}

static void check_guards(const uint8_t *block, size_t bytes) {
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        assert_int_equal(block[i], GUARD);
        assert_int_equal(block[GUARD_BYTES + bytes + i], GUARD);
    }
}

/* Runs check(c, variant) CASES times for each variant that this processor can run. */
static void for_each_variant(void (*check)(const mr_classical_rows *c, const mr_classical_rows *variant)) {
    mr_classical_rows c, variant;
    mr_classical_rows_init(&c, MR_ISA_C);
    for (int isa = MR_ISA_C + 1; isa <= (int)mr_isa_detect(); isa++) {
        mr_classical_rows_init(&variant, (mr_isa)isa);
        for (int i = 0; i < CASES; i++) {
            random_state = seed + (uint64_t)i * 7919;
            draw();
            check(&c, &variant);
        }
    }
}

/* ---- variants ------------------------------------------------------------------------------------------------- */

static void check_laplacian(const mr_classical_rows *c, const mr_classical_rows *variant) {
    int width = draw() % 40 ? between(1, 200) : between(16000, 33000);
    uint8_t *rows[3];
    for (int i = 0; i < 3; i++)
        rows[i] = draw_bytes((size_t)width);
    int64_t want[2] = {7, 9}, got[2] = {7, 9};
    c->laplacian(want, rows[0], rows[1], rows[2], width);
    variant->laplacian(got, rows[0], rows[1], rows[2], width);
    assert_int_equal(got[0], want[0]);
    assert_int_equal(got[1], want[1]);
    for (int i = 0; i < 3; i++)
        free(rows[i]);
}

static void check_differing(const mr_classical_rows *c, const mr_classical_rows *variant) {
    size_t count = (size_t)between(0, 300), direct = 0;
    int noise = draw() % 4 ? between(0, 254) : 254 * between(0, 1);
    FREED uint8_t *a = draw_bytes(count), *b = draw_bytes(count);
    for (size_t i = 0; i < count; i++)
        direct += abs(a[i] - b[i]) > noise;
    assert_int_equal(c->differing(a, b, count, noise), direct);
    assert_int_equal(variant->differing(a, b, count, noise), direct);
}

/* Every Laplacian is 1020 or -1020, and every byte differs: sums in lanes must not overflow. */
static void check_largest_sums(const mr_classical_rows *c, const mr_classical_rows *variant) {
    enum { WIDTH = 33000 };
    static uint8_t rows[2][WIDTH];
    int64_t want[2] = {0}, got[2] = {0};
    for (int x = 0; x < WIDTH; x++) {
        rows[0][x] = x % 2 ? 0 : 255;
        rows[1][x] = x % 2 ? 255 : 0;
    }
    c->laplacian(want, rows[0], rows[1], rows[0], WIDTH);
    variant->laplacian(got, rows[0], rows[1], rows[0], WIDTH);
    assert_int_equal(want[1], (int64_t)1020 * 1020 * WIDTH);
    assert_int_equal(got[0], want[0]);
    assert_int_equal(got[1], want[1]);
    assert_int_equal(variant->differing(rows[0], rows[1], WIDTH, 0), WIDTH);
}

static void check_hsv(const mr_classical_rows *c, const mr_classical_rows *variant) {
    int width = between(1, 100), row = width + 3;
    int32_t saturation[256], hue[256];
    for (int i = 0; i < 256; i++) {
        saturation[i] = mr_hsv_quotient(MR_SATURATION_WHOLE, i);
        hue[i] = mr_hsv_quotient(MR_HUE_WHOLE, i);
    }
    uint8_t *src = draw_bytes(3 * (size_t)width), *blocks[2];
    const uint8_t *const from[3] = {src, src + width, src + 2 * width};
    for (int i = 0; i < 2; i++) {
        blocks[i] = guarded(3 * (size_t)row);
        uint8_t *at = blocks[i] + GUARD_BYTES, *const to[3] = {at, at + row, at + 2 * row};
        (i ? variant : c)->to_hsv(to, from, saturation, hue, width);
        check_guards(blocks[i], 3 * (size_t)row);
    }
    assert_memory_equal(blocks[0], blocks[1], 3 * (size_t)row + 2 * GUARD_BYTES);
    free(src);
    free(blocks[0]);
    free(blocks[1]);
}

/* Draws a gradient of samples or square roots: on one axis, on both, or on neither. */
static float draw_difference(void) {
    static const float special[] = {0.0f, -0.0f, 255.0f, -255.0f, 1.0f, 1e-20f};
    int kind = between(0, 3);
    float whole = (float)between(-255, 255);
    return kind == 0 ? special[between(0, 5)] : kind == 1 ? whole : sqrtf((float)between(0, 255)) - whole / 16.0f;
}

static void check_votes(const mr_classical_rows *c, const mr_classical_rows *variant) {
    size_t width = (size_t)between(1, 70), bytes = width * sizeof(float);
    int bins = between(1, MR_HOG_MOST_BINS);
    float scale = (float)bins / (draw() % 2 ? 2.0f : 4.0f), *dx = malloc(bytes), *dy = malloc(bytes);
    for (size_t i = 0; i < width; i++) {
        dx[i] = draw_difference();
        dy[i] = draw() % 5 ? draw_difference() : dx[i];
    }
    uint8_t *blocks[2][3];
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 3; k++)
            blocks[i][k] = guarded(bytes);
        const mr_votes votes = {(int32_t *)(void *)(blocks[i][0] + GUARD_BYTES),
                                (float *)(void *)(blocks[i][1] + GUARD_BYTES),
                                (float *)(void *)(blocks[i][2] + GUARD_BYTES)};
        (i ? variant : c)->votes(&votes, dx, dy, (int)width, scale, bins);
        for (size_t x = 0; x < width; x++)
            assert_in_range(votes.bin[x], 0, bins - 1);
    }
    for (int k = 0; k < 3; k++) {
        check_guards(blocks[1][k], bytes);
        assert_memory_equal(blocks[0][k], blocks[1][k], bytes + 2 * GUARD_BYTES);
        free(blocks[0][k]);
        free(blocks[1][k]);
    }
    free(dx);
    free(dy);
}

static void check_gradients(const mr_classical_rows *c, const mr_classical_rows *variant) {
    size_t width = (size_t)between(1, 70), bytes = width * sizeof(float);
    float *block = malloc(3 * bytes + 2 * sizeof *block), *const row = block + width + 1;
    const float *const rows[3] = {block, row, row + width + 1}; /* one value more on either side */
    uint8_t *dx[2] = {guarded(bytes), guarded(bytes)}, *dy[2] = {guarded(bytes), guarded(bytes)};
    for (size_t i = 0; i < 3 * width + 2; i++)
        block[i] = draw_difference();
    for (size_t x = 0; x < width; x++)
        for (int i = 0; i < 2; i++) {
            ((float *)(void *)(dx[i] + GUARD_BYTES))[x] = x % 3 ? 100.0f : row[x + 1] - block[width + x];
            ((float *)(void *)(dy[i] + GUARD_BYTES))[x] = x % 3 ? -50.0f : block[x] - rows[2][x];
        }
    bool longer = draw() % 2;
    for (int i = 0; i < 2; i++)
        (i ? variant : c)->gradients((float *)(void *)(dx[i] + GUARD_BYTES), (float *)(void *)(dy[i] + GUARD_BYTES),
                                     rows, (int)width, longer);
    assert_memory_equal(dx[0], dx[1], bytes + 2 * GUARD_BYTES);
    assert_memory_equal(dy[0], dy[1], bytes + 2 * GUARD_BYTES);
    check_guards(dx[1], bytes);
    check_guards(dy[1], bytes);
    for (int i = 0; i < 2; i++) {
        free(dx[i]);
        free(dy[i]);
    }
    free(block);
}

/* Compares whole descriptors, with `gather` included. They are equal, since each sum has one order. */
static void check_hog(const mr_classical_rows *c, const mr_classical_rows *variant) {
    const mr_hog_params p = draw_hog_layout(5);
    ENDED_BY(mr_hog_destroy) mr_hog *hog = NULL;
    assert_int_equal(mr_hog_create(&hog, &p), MR_OK);
    size_t bytes = (size_t)mr_hog_length(mr_hog_layout_of(hog)) * sizeof(float);
    size_t scratch_bytes = (mr_hog_scratch_bytes(hog) + 63) / 64 * 64;
    uint8_t *src = draw_bytes((size_t)p.width * (size_t)p.height * (size_t)p.channels), *blocks[2];
    for (int i = 0; i < 2; i++) {
        FREED void *scratch = aligned_alloc(64, scratch_bytes);
        memset(scratch, 0x7b, scratch_bytes);
        blocks[i] = guarded(bytes);
        mr_hog_run(hog, i ? variant : c, src, (float *)(void *)(blocks[i] + GUARD_BYTES), scratch);
        check_guards(blocks[i], bytes);
    }
    assert_memory_equal(blocks[0], blocks[1], bytes + 2 * GUARD_BYTES);
    free(blocks[0]);
    free(blocks[1]);
    free(src);
}

TEST(variants_are_equal) {
    for_each_variant(check_laplacian);
    for_each_variant(check_differing);
    for_each_variant(check_largest_sums);
    for_each_variant(check_hsv);
    for_each_variant(check_gradients);
    for_each_variant(check_votes);
    for_each_variant(check_hog);
    printf("seed %llu, variants up to %s\n", (unsigned long long)seed, mr_isa_name(mr_isa_detect()));
}

/* ---- known answers -------------------------------------------------------------------------------------------- */

/* Compares with atan2, in quarter turns. The polynomial is off by 2.4e-8; single precision rounds up to 4. */
TEST(directions_are_those_of_the_arctangent) {
    for (int dy = -255; dy <= 255; dy++)
        for (int dx = -255; dx <= 255; dx++) {
            double turn = atan2(dy, dx) / acos(0.0), got = (double)mr_quarter_turns((float)dx, (float)dy);
            if (dx || dy)
                assert_true(fabs(got - (turn < 0 ? turn + 4 : turn)) < 5e-7);
        }
    assert_true(mr_quarter_turns(0, 0) == 0.0f);
}

TEST(a_ramp_points_one_way) {
    const mr_hog_params p = {.width = 16, .height = 16, .channels = 1, .block_width = 16, .block_height = 16,
                             .stride_x = 8, .stride_y = 8, .cell_width = 8, .cell_height = 8, .bins = 9,
                             .clip = 1.0f};
    uint8_t src[256], scratch[1 << 14] __attribute__((aligned(64)));
    float result[36];
    ENDED_BY(mr_hog_destroy) mr_hog *hog = NULL;
    assert_int_equal(mr_hog_create(&hog, &p), MR_OK);
    assert_true(mr_hog_scratch_bytes(hog) <= sizeof scratch);
    /* Brighter downwards: a quarter turn, the centre bin. */
    for (int i = 0; i < 256; i++)
        src[i] = (uint8_t)(i / 16 * 10);
    mr_hog_run(hog, mr_classical_rows_get(), src, result, scratch);
    for (int i = 0; i < 36; i++)
        assert_true(i % 9 == 4 ? result[i] > 0.4f : result[i] < 1e-6f);
    memset(src, 90, sizeof src);
    mr_hog_run(hog, mr_classical_rows_get(), src, result, scratch);
    for (int i = 0; i < 36; i++)
        assert_true(result[i] == 0.0f);
}

static void refused(mr_hog_params p, const char *words) {
    mr_hog *hog = NULL;
    assert_int_equal(mr_hog_create(&hog, &p), MR_ERROR_CONFIG);
    assert_null(hog);
    expect_words(mr_message(), words);
}

TEST(layouts_that_cannot_be_are_refused) {
    const mr_hog_params good = {.width = 64, .height = 128, .channels = 1, .block_width = 16, .block_height = 16,
                                .stride_x = 8, .stride_y = 8, .cell_width = 8, .cell_height = 8, .bins = 9,
                                .clip = 0.2f};
    mr_hog_params p = good;
    p.cell_width = 7;
    refused(p, "cells of 7x8 do not fill a block of 16x16");
    p = good;
    p.stride_x = 7;
    refused(p, "do not end where a picture of 64x128 does");
    p = good;
    p.width = 8;
    refused(p, "larger than the picture of 8x128");
    p = good;
    p.block_width = 72;
    refused(p, "larger than 64x64");
    p = good;
    p.cell_width = p.cell_height = 1;
    refused(p, "has 256 cells");
    p = good;
    p.bins = 0;
    refused(p, "0 bins");
    p = good;
    p.stride_y = 0;
    refused(p, "at least one pixel");
    mr_hog_layout layout;
    assert_int_equal(mr_hog_plan(&layout, &good), MR_OK);
    assert_int_equal(mr_hog_length(&layout), 3780); /* Dalal and Triggs: 7 x 15 blocks of 36 */
}

/* A flat picture has only a mean. The rounded cosines sum to exactly 0. */
TEST(flat_pictures_have_one_bit) {
    uint8_t src[1024], hash[MR_HASH_BYTES];
    static const uint8_t one[MR_HASH_BYTES] = {0x80}, none[MR_HASH_BYTES] = {0};
    memset(src, 131, sizeof src);
    mr_phash(src, hash);
    assert_memory_equal(hash, one, sizeof hash);
    memset(src, 0, sizeof src);
    mr_phash(src, hash);
    assert_memory_equal(hash, none, sizeof hash);
}

/* One bright pixel in 3 x 3: the Laplacian is -4 in the middle, 1 beside it, and 2 where an edge mirrors it. */
TEST(one_pixel_is_sharp) {
    const uint8_t src[] = {0, 0, 0, 99, 0, 10, 0, 99, 0, 0, 0, 99};
    float got = -1;
    mr_sharpness(mr_classical_rows_get(), &(mr_sharpness_item){.src = src, .stride = 4, .width = 3, .height = 3,
                                                           .scale = 0.5f, .dst = &got});
    const double value[9] = {0, 20, 0, 20, -40, 20, 0, 20, 0};
    double sum = 0, squares = 0;
    for (int i = 0; i < 9; i++) {
        sum += value[i];
        squares += value[i] * value[i];
    }
    assert_true(fabs((double)got - (squares / 9 - sum * sum / 81) / 4) < 1e-4);
    const uint8_t single = 200;
    mr_sharpness(mr_classical_rows_get(), &(mr_sharpness_item){.src = &single, .stride = 1, .width = 1, .height = 1,
                                                           .scale = 1, .dst = &got});
    assert_true(got == 0.0f);
}

/* ---- work on a stream ----------------------------------------------------------------------------------------- */

/* The simulated accelerator runs work later, on a copy of the struct. Hash bits can be floats. */
TEST(work_on_a_stream) {
    const mr_sim_params params = {.manual = true};
    mr_device *device = NULL;
    mr_stream *stream = NULL;
    uint8_t *src = draw_bytes(2048), hash[MR_HASH_BYTES];
    float bits[2][64] = {{0}};
    uint32_t changed = 0;
    assert_int_equal(mr_sim_create(&device, &params), MR_OK);
    assert_int_equal(mr_stream_create(device, &stream), MR_OK);
    mr_phash_work work = {.count = 2, .bits = true, .src = {src, src + 1024}, .dst = {bits[0], bits[1]}};
    assert_int_equal(mr_phash_enqueue(stream, &work), MR_OK);
    memset(&work, 0, sizeof work);
    const mr_change_work change = {.a = src, .b = src + 1024, .count = 1024, .noise = 0, .changed = &changed};
    assert_int_equal(mr_change_enqueue(stream, &change), MR_OK);
    mr_sim_advance(device, INT64_MAX - 1);
    for (int i = 0; i < 2; i++) {
        mr_phash(src + 1024 * i, hash);
        for (int k = 0; k < 64; k++)
            assert_true(bits[i][k] == (float)(hash[k / 8] >> (7 - k % 8) & 1));
    }
    assert_int_equal(changed, mr_classical_rows_get()->differing(src, src + 1024, 1024, 0));
    mr_stream_destroy(&stream);
    mr_device_destroy(&device);
    free(src);
}

RUN_TESTS(NULL, NULL)
