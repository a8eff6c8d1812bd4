/* Loss and gradient of many rows, on several threads.
 *
 * The chunks of the rows are grouped in blocks: runs of 1, 2, 4, ... chunks, the fewest that make at most MR_FIT_BLOCKS
 * blocks. How long a block is depends on the number of rows alone. Threads take the next block that nobody has; a
 * block's sum is one node of the tree that fit_sum.h describes. So the sum over all has the same bits for any number of
 * threads, and for any number of processes that each make some of the blocks.
 *
 * Ownership: an mr_fit borrows the rows, and owns its threads, which live until it is destroyed. One caller at a time.
 * Errors: MR_ERROR_MEMORY, MR_ERROR_UNAVAILABLE (no thread). */
#ifndef MILLRACE_KERNELS_FIT_FIT_H
#define MILLRACE_KERNELS_FIT_FIT_H

#include "kernels/fit/fit_linear.h"

enum { MR_FIT_BLOCKS = 64 };

typedef struct mr_fit mr_fit;

/* Blocks of so many rows, and chunks of each block but the last one, which may have fewer. */
size_t mr_fit_block_chunks(size_t rows);
size_t mr_fit_block_count(size_t rows);

/* `linear` and its rows are read as long as it lives. `threads`: the caller's is one of them. */
int mr_fit_create(mr_fit **fit, const mr_fit_linear *linear, int threads);
void mr_fit_destroy(mr_fit **fit);

/* The sums of blocks first .. first + count, one behind the other: mr_fit_parameters + 1 numbers each. */
void mr_fit_blocks(mr_fit *fit, const double *parameters, size_t first, size_t count, double *nodes);

#endif
