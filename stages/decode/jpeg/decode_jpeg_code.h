/* Reads Huffman codes in sequential JPEG (ITU-T T.81, annexes C and F.2) as far as 1/4 or 1/8 size needs them. That is
 * the DC difference, and for 1/4 the three coefficients next to it. A 12-bit table skips several others at once; they
 * are never evaluated.
 *
 * Pure functions. A refused picture is not necessarily invalid: it may be unusual. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_JPEG_LENGTHS = 16, MR_JPEG_NEAR_BITS = 10, MR_JPEG_SKIP_BITS = 12, MR_JPEG_PADDING = 256 };

typedef struct mr_jpeg_code {
    bool given;
    uint8_t counts[MR_JPEG_LENGTHS], symbols[256]; /* as the file has them */
    uint32_t ends[MR_JPEG_LENGTHS + 1];   /* by length: the end after the last code, in the upper 16 bits */
    int32_t offsets[MR_JPEG_LENGTHS + 1]; /* by length: from a code to the symbol's index */
    /* One symbol for the next bits: length in bits including the value (0: a longer code, or refused); from bit 6 the
     * value's size; from bit 10 the positions to advance, 31 at the block's end. */
    uint16_t near_symbols[1 << MR_JPEG_NEAR_BITS];
    /* Several AC symbols: the length; from bit 6 the positions; from bit 13 whether the block ends. */
    uint16_t skips[1 << MR_JPEG_SKIP_BITS];
} mr_jpeg_code;

/* `counts`: number of codes per length; `symbols`: one per code. An unchanged code is kept. Returns false if there are
 * more codes than the lengths allow. */
bool mr_jpeg_code_set(mr_jpeg_code *code, const uint8_t counts[MR_JPEG_LENGTHS], const uint8_t *symbols, bool is_ac);

/* Part of a scan, without stuffed bytes. MR_JPEG_PADDING bytes after it must be readable. */
typedef struct mr_jpeg_bits {
    const uint8_t *at, *end;
    uint64_t next;  /* the bits before `at`, highest first */
    int count;      /* how many */
} mr_jpeg_bits;

mr_jpeg_bits mr_jpeg_bits_of(const uint8_t *data, size_t bytes);
/* Unread bits; negative if reading went past the end. */
int64_t mr_jpeg_bits_left(const mr_jpeg_bits *bits);

/* A block's coefficients by zigzag position: 0 (difference to the previous DC), 1, 2 and 4. */
typedef struct mr_jpeg_low {
    int16_t at[8];
} mr_jpeg_low;

typedef struct mr_jpeg_codes {
    const mr_jpeg_code *dc, *ac;
    int first, step; /* block indices: the first, and the step to the next */
} mr_jpeg_codes;

/* Reads `count` MCUs with `period` blocks each; `codes` says for each block which code applies and where it goes.
 * `with_ac`: for 1/4 size; else only at[0] is set. Returns false on an unknown code, a value too large for 8-bit
 * samples, more than 64 coefficients in a block, or missing data. */
bool mr_jpeg_read_blocks(mr_jpeg_bits *bits, const mr_jpeg_codes *codes, int period, int count, mr_jpeg_low *blocks,
                         bool with_ac);
