/* The row operations for JPEG pictures decoded at reduced size, and the variants that this processor can run (isa.h).
 *
 * Threads: a table must not change once filled. All operations are pure: they touch only their arguments. */
#pragma once

#include <stdint.h>

#include "kernels/isa.h"

/* Numbers per block; blocks transformed at once; samples per block in a row. */
enum { MR_JPEG_LOW = 8, MR_JPEG_AT_ONCE = 8, MR_JPEG_FOUR = 2 };

typedef struct mr_jpeg_rows {
    /* The inverse two by two transform (libavcodec's jrevdct.c) for `count` neighbouring blocks. A block is MR_JPEG_LOW
     * numbers; they are multiplied by as many `factors`, and must then fit 16 bits. Number 0 is the mean, 1 how it
     * rises from right to left, 2 from bottom to top, 4 from corner to corner; the others are not used and must have
     * factor 0. Samples are (mean + 4 +- each) >> 3, clamped to 0..255. */
    void (*fours)(uint8_t *const rows[2], const int16_t *blocks, int count, const int16_t factors[MR_JPEG_LOW]);
} mr_jpeg_rows;

/* Fills a table with the best variants up to `most` that this processor can run. */
void mr_jpeg_rows_init(mr_jpeg_rows *table, mr_isa most);
/* The table with this processor's best variants, or those that MILLRACE_KERNELS names. Any thread. */
const mr_jpeg_rows *mr_jpeg_rows_get(void);

/* Put a variant's operations into the table; called by mr_jpeg_rows_init. */
void mr_jpeg_rows_fill_avx2(mr_jpeg_rows *table);
void mr_jpeg_rows_fill_neon(mr_jpeg_rows *table);
