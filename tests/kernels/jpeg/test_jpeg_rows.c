/* Row operations for reduced JPEG pictures. Samples must match those computed by hand. Each variant must equal the C
 * reference on random blocks, up to the largest numbers, in guarded memory. tests/stages/decode/test_jpeg.c compares
 * whole pictures with libavcodec. MILLRACE_SEED repeats a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/jpeg/jpeg_rows.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

enum { GUARD = 0xa5, GUARDS = 32, MOST = 150, CASES = 2000, ROW = MOST * MR_JPEG_FOUR + 2 * GUARDS };

static int rounded(int count) {
    return (count + MR_JPEG_AT_ONCE - 1) / MR_JPEG_AT_ONCE * MR_JPEG_AT_ONCE;
}

/* Each row is filled with guard bytes, and lies between guards. */
static void run(const mr_jpeg_rows *rows, uint8_t out[2][ROW], const int16_t *blocks, int count,
                const int16_t *factors) {
    uint8_t *const to[2] = {out[0] + GUARDS, out[1] + GUARDS};
    memset(out, GUARD, 2 * sizeof *out);
    rows->fours(to, blocks, count, factors);
}

/* Draws numbers from all 16 bits, or small ones that stay in the range of samples. */
static void draw_numbers(int16_t *to, int count) {
    int kind = between(0, 2), most = between(1, 800);
    for (int i = 0; i < count; i++)
        to[i] = (int16_t)(kind == 0 ? (int)draw() : kind == 1 ? between(-most, most) : between(0, 1) ? 32767 : -32768);
}

static void draw_factors(int16_t factors[MR_JPEG_LOW]) {
    static const int used[] = {0, 1, 2, 4};
    int most = between(0, 1) ? 65535 : 3;
    memset(factors, 0, MR_JPEG_LOW * sizeof *factors);
    for (int i = 0; i < 4; i++)
        factors[used[i]] = (int16_t)between(1, most);
}

static void check(const mr_jpeg_rows *reference, const mr_jpeg_rows *variant) {
    uint8_t expected[2][ROW], found[2][ROW];
    int count = between(1, MOST - MR_JPEG_AT_ONCE), whole = rounded(count);
    int16_t *blocks = malloc((size_t)whole * MR_JPEG_LOW * sizeof *blocks), factors[MR_JPEG_LOW];
    draw_numbers(blocks, whole * MR_JPEG_LOW);
    draw_factors(factors);
    run(reference, expected, blocks, count, factors);
    run(variant, found, blocks, count, factors);
    assert_memory_equal(found, expected, sizeof found);
    size_t behind = GUARDS + MR_JPEG_FOUR * (size_t)whole;
    for (int row = 0; row < 2; row++)
        for (size_t i = 0; i < ROW; i++)
            if (i < GUARDS || i >= behind)
                assert_int_equal(found[row][i], GUARD);
    free(blocks);
}

TEST(variants_equal_the_reference) {
    mr_jpeg_rows c, variant;
    mr_jpeg_rows_init(&c, MR_ISA_C);
    for (int isa = MR_ISA_C; isa <= (int)mr_isa_detect(); isa++) {
        mr_jpeg_rows_init(&variant, (mr_isa)isa);
        for (int i = 0; i < CASES; i++) {
            random_state = seed + (uint64_t)i * 7919;
            check(&c, &variant);
        }
    }
}

/* (1004 +- 2 * 40 +- 3 * 20 +- 5 * 8) / 8, rounded down; then samples clipped to 0..255. Unused entries are 99. */
TEST(known_blocks) {
    static const int16_t blocks[MR_JPEG_AT_ONCE * MR_JPEG_LOW] = {1000, 40, 20, 99, 8, -99, 99, 99, 2100, 0, 0, 0, 0,
                                                                  0,    0,  0,  -900};
    static const int16_t factors[MR_JPEG_LOW] = {1, 2, 3, 0, 5};
    static const uint8_t expected[2][6] = {{148, 118, 255, 255, 0, 0}, {123, 113, 255, 255, 0, 0}};
    for (int isa = MR_ISA_C; isa <= (int)mr_isa_detect(); isa++) {
        mr_jpeg_rows rows;
        uint8_t out[2][ROW];
        mr_jpeg_rows_init(&rows, (mr_isa)isa);
        run(&rows, out, blocks, 3, factors);
        for (int row = 0; row < 2; row++)
            assert_memory_equal(out[row] + GUARDS, expected[row], sizeof expected[row]);
    }
}

RUN_TESTS(NULL, NULL)
