/* The row operations for vectors, and the variants that this processor can run (isa.h).
 *
 * Threads: a table must not change once filled. All operations are pure: they touch only their arguments. */
#pragma once

#include "kernels/isa.h"

typedef struct mr_vector_rows {
    /* Sums `count` floats, and their squares, in eight lanes (lanes.h defines the order). */
    float (*sum)(const float *src, int count);
    float (*sum_of_squares)(const float *src, int count);
    /* The same sum of the products of two vectors' numbers. */
    float (*dot)(const float *a, const float *b, int count);
} mr_vector_rows;

/* Fills a table with the best variants up to `most` that this processor can run. */
void mr_vector_rows_init(mr_vector_rows *table, mr_isa most);
/* The table with this processor's best variants, or those that MILLRACE_KERNELS names. Any thread. */
const mr_vector_rows *mr_vector_rows_get(void);

/* Put a variant's operations into the table; called by mr_vector_rows_init. */
void mr_vector_rows_fill_avx2(mr_vector_rows *table);
void mr_vector_rows_fill_neon(mr_vector_rows *table);
