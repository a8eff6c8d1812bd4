/* The Huffman code of sequential JPEG (ITU-T T.81, annexes C and F.2), read as far as pictures of 1/4 or 1/8 need: of
 * each block the DC difference, and for 1/4 the three coefficients beside it. The others are skipped, as many at once
 * as a table of twelve bits tells; their values are never known.
 *
 * Pure functions. What is refused here is not always wrong: it may be unusual. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_JPEG_CODE_H
#define MILLRACE_STAGES_DECODE_DECODE_JPEG_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_JPEG_LENGTHS = 16, MR_JPEG_NEAR_BITS = 10, MR_JPEG_SKIP_BITS = 12, MR_JPEG_PADDING = 256 };

typedef struct mr_jpeg_code {
    bool given;
    uint8_t counts[MR_JPEG_LENGTHS], symbols[256]; /* as the file has them */
    uint32_t ends[MR_JPEG_LENGTHS + 1];   /* by length: behind its last code, as the upper bits of 16 */
    int32_t offsets[MR_JPEG_LENGTHS + 1]; /* by length: from a code to the index of its symbol */
    /* By the next bits, one symbol: its length in bits with those of its value (0: a longer code, or a symbol that is
     * refused), from bit 6 the size of the value, from bit 10 the positions that it goes on, 31 at the end of a
     * block. */
    uint16_t near_symbols[1 << MR_JPEG_NEAR_BITS];
    /* The same for several symbols of AC: the length, from bit 6 the positions, from bit 13 the end of the block. */
    uint16_t skips[1 << MR_JPEG_SKIP_BITS];
} mr_jpeg_code;

/* `counts`: how many codes there are of each length; `symbols`: as many as that. The same code as before is kept as it
 * is. False if there are more codes than bits tell apart. */
bool mr_jpeg_code_set(mr_jpeg_code *code, const uint8_t counts[MR_JPEG_LENGTHS], const uint8_t *symbols, bool is_ac);

/* A part of a scan, without the bytes that are stuffed in. MR_JPEG_PADDING bytes behind it can be read. */
typedef struct mr_jpeg_bits {
    const uint8_t *at, *end;
    uint64_t next;  /* the bits before `at`, from the highest on */
    int count;      /* of them */
} mr_jpeg_bits;

mr_jpeg_bits mr_jpeg_bits_of(const uint8_t *data, size_t bytes);
/* Bits that were not read; negative if more were read than there are. */
int64_t mr_jpeg_bits_left(const mr_jpeg_bits *bits);

/* The coefficients of a block by their place in the zigzag: 0 (the difference to the DC before), 1, 2 and 4. */
typedef struct mr_jpeg_low {
    int16_t at[8];
} mr_jpeg_low;

typedef struct mr_jpeg_codes {
    const mr_jpeg_code *dc, *ac;
    int first, step; /* of such blocks: the place of the first, and from one to the next */
} mr_jpeg_codes;

/* Reads `count` groups of `period` blocks, of which each has its codes and its place. `with_ac`: for 1/4; else at[0]
 * alone is set. False where there is no such code, values are larger than those of 8 bits can be, a block has more than
 * 64 coefficients, or the data end. */
bool mr_jpeg_read_blocks(mr_jpeg_bits *bits, const mr_jpeg_codes *codes, int period, int count, mr_jpeg_low *blocks,
                         bool with_ac);

#endif
