/* Sums over many chunks of rows, on several threads.
 *
 * Chunks are grouped in blocks: runs of 1, 2, 4, ... chunks, the fewest that make at most MR_FIT_BLOCKS blocks. Only
 * the number of chunks decides how long a block is. Threads take the next block that nobody has. A block's sum is one
 * node in the tree that fit_sum.h describes. So the sum over all has the same bits for any number of threads.
 *
 * Ownership: a group of workers owns memory and threads, which live until it is destroyed. One caller at a time.
 * Errors: MR_ERROR_MEMORY, MR_ERROR_UNAVAILABLE (no thread). */
#pragma once

#include <stddef.h>

enum { MR_FIT_CHUNK = 256 /* rows */, MR_FIT_BLOCKS = 64 };

typedef struct mr_fit_workers mr_fit_workers;

/* A sum over chunks: `make` writes a chunk's `length` numbers. Several threads can call it at once, each with separate
 * scratch memory. */
typedef struct mr_fit_task {
    size_t chunks, length, scratch_bytes;
    void (*make)(void *context, size_t chunk, void *scratch, double *sum);
    void *context;
} mr_fit_task;

static inline size_t mr_fit_chunks(size_t rows) {
    return (rows + MR_FIT_CHUNK - 1) / MR_FIT_CHUNK;
}

/* How many chunks each block has, except the last, which can have fewer; and how many blocks `chunks` chunks make. */
size_t mr_fit_block_chunks(size_t chunks);
size_t mr_fit_block_count(size_t chunks);

/* For tasks of at most `chunks`, `length` and `scratch_bytes`. If `threads` is 1 there is only the caller's. */
int mr_fit_workers_create(mr_fit_workers **workers, const mr_fit_task *most, int threads);
void mr_fit_workers_destroy(mr_fit_workers **workers);

/* Writes the sum over all chunks to the start of `nodes`, which must have room for all blocks. */
void mr_fit_workers_sum(mr_fit_workers *workers, const mr_fit_task *task, double *nodes);
