/* Tables for a block's walk: down a tile's source rows once, then along the weighed rows.
 *
 * Down. A tile has MR_WALK_ROWS rows of results. A step reads two neighbouring source rows and adds them to up to
 * MR_WALK_SLOTS open results. A result with all rows is finished in that step, and the slot is free for the next one.
 * Rows whose weights are all zero need not be read. A result without a free slot begins later, from its own first row.
 * Any filter can be walked so; antialiasing ones read each row once or nearly so.
 *
 * Along. A result's weights are in pairs, begin at a multiple of `align` samples and are padded with zeros, so that
 * weights and samples can be read as whole vectors: first a vector in which 1 to 4 pairs count, then whole ones. Sums
 * are integers, so any order gives the C reference's bits. */
#pragma once

#include "kernels/preprocess/filter.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MR_WALK_ROWS = 16, MR_WALK_SLOTS = 3 };

/* 16 bytes, read at once. A tile's first is its head: weights[0] and [1] are the source rows for the first two
 * steps. */
typedef struct mr_walk_step {
    uint32_t ahead;                  /* source row for the second step from here, finished results, MR_WALK_LAST */
    uint32_t weights[MR_WALK_SLOTS]; /* both rows', the upper one in the low half */
} mr_walk_step;

/* For slot k, MR_WALK_FIELD bits start at MR_WALK_DONE + MR_WALK_FIELD * k: the highest is set if it is finished, the
 * others are its row in the tile. */
enum { MR_WALK_ROW_MASK = 0x7fff, MR_WALK_DONE = 15, MR_WALK_FIELD = 5, MR_WALK_IS_DONE = MR_WALK_ROWS,
       MR_WALK_ANY_DONE = 0x4210 << MR_WALK_DONE };
/* The tile's last step. */
#define MR_WALK_LAST 0x80000000u

/* The tables for equally large planes. */
typedef struct mr_walk {
    mr_walk_step *steps; /* all tile rows', one after the other */
    int32_t *begin;      /* each tile row's head */
    uint32_t *weights;   /* pairs, vectors of 4: one with `head` pairs, then `wholes`; columns are padded to an even
                            number */
    int32_t *first;      /* each column's first sample, a multiple of the alignment */
    int32_t pairs, head, wholes;
    int32_t single;      /* each result needs one source row: a step's other row is the same, with weight 0 */
} mr_walk;

/* Entries of `steps` for the vertical filter `y`; fills them and `begin` if they are not NULL. */
size_t mr_walk_down(mr_walk *walk, const mr_filter *y);
/* Computes the numbers of pairs for the horizontal filter `x`, with `align` 2 or 4, and fills `weights` and `first` if
 * they are not NULL. */
void mr_walk_along(mr_walk *walk, const mr_filter *x, int align);

/* Pairs from column to column in `weights`. */
size_t mr_walk_pitch(const mr_walk *walk);

#ifdef __cplusplus
}
#endif
