/* Tables of the walk of a block's threads: down the source rows of a tile once, then along the rows so weighed.
 *
 * Down. A tile has MR_WALK_ROWS rows of results. A step reads two neighbouring source rows and adds them to up to
 * MR_WALK_SLOTS results that are open at once; a result that has all its rows is finished in that step, and its slot is
 * free for the next one. Rows whose weights are all zero are not read, and if a result found no free slot, it begins
 * later, from its own first row. Any filter can be walked so; those that antialias read each row once or nearly so.
 *
 * Along. The weights of a result are in pairs, begin at a multiple of `align` samples and are padded with zeros, so
 * that weights and samples are read by whole vectors: first a vector of which 1 to 4 pairs count, then whole ones. Sums
 * are of integers: any order gives the bits of the C reference. */
#pragma once

#include "kernels/preprocess/filter.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MR_WALK_ROWS = 16, MR_WALK_SLOTS = 3 };

/* 16 bytes, read at once. The first of a tile is its head: weights[0] and [1] are the source rows of its first two
 * steps. */
typedef struct mr_walk_step {
    uint32_t ahead;                  /* source row of the second step from here, finished results, MR_WALK_LAST */
    uint32_t weights[MR_WALK_SLOTS]; /* of both rows, the upper one in the low half */
} mr_walk_step;

/* Of slot k: the highest of the MR_WALK_FIELD bits from MR_WALK_DONE + MR_WALK_FIELD * k on is set if it is finished,
 * the others are its row of the tile. */
enum { MR_WALK_ROW_MASK = 0x7fff, MR_WALK_DONE = 15, MR_WALK_FIELD = 5, MR_WALK_IS_DONE = MR_WALK_ROWS,
       MR_WALK_ANY_DONE = 0x4210 << MR_WALK_DONE };
/* The tile has no step behind this one. */
#define MR_WALK_LAST 0x80000000u

/* The tables of planes of one size. */
typedef struct mr_walk {
    mr_walk_step *steps; /* of all rows of tiles, one behind the other */
    int32_t *begin;      /* head of each row of tiles */
    uint32_t *weights;   /* pairs, vectors of 4: one with `head` pairs, then `wholes`; columns are padded to an even
                            number */
    int32_t *first;      /* of each column: its first sample, a multiple of the alignment */
    int32_t pairs, head, wholes;
    int32_t single;      /* all results come of one source row: the other one of a step is the same, with weight 0 */
} mr_walk;

/* Entries of `steps` for the vertical filter `y`; fills them and `begin` if they are not NULL. */
size_t mr_walk_down(mr_walk *walk, const mr_filter *y);
/* Computes the numbers of pairs for the horizontal filter `x`, with `align` 2 or 4, and fills `weights` and `first` if
 * they are not NULL. */
void mr_walk_along(mr_walk *walk, const mr_filter *x, int align);

/* Pairs from column to column of `weights`. */
size_t mr_walk_pitch(const mr_walk *walk);

#ifdef __cplusplus
}
#endif
