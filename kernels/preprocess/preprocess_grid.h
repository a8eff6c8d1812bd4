/* How a grid of threads works through a preprocess plan, and the plan's tables on each device.
 *
 * The small picture, as stored, is cut into tiles; a block of threads makes one tile in one picture. If neighbouring
 * results share source columns, the block first weighs the rows in the columns that the tile needs into block memory,
 * then weighs along them. Otherwise each thread weighs everything that its pixel needs. 8-bit YUV pictures that become
 * colour without a quarter turn have a separate kernel for the first way, with separate tables (preprocess_walk.h). All
 * give the C reference's bits. Blocks after the tiles' blocks fill the padding.
 *
 * Threads: any. Errors: MR_ERROR_MEMORY, MR_ERROR_DEVICE. */
#pragma once

#include "kernels/preprocess/preprocess_plan.h"
#include "kernels/preprocess/preprocess_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads per block; padding pixels that one of them fills; most memory per block in bytes. */
enum { MR_GRID_THREADS = 128, MR_GRID_PAD_PIXELS = 8, MR_GRID_MOST_SHARED = 40960 };

typedef enum mr_grid_mode { MR_GRID_NEAREST, MR_GRID_DIRECT, MR_GRID_TILED, MR_GRID_WALKED } mr_grid_mode;

/* Walked: samples that a thread weighs down and rows that it makes from a column pair; most columns per tile; memory
 * per block in bytes, so that seven blocks fit a 227 KiB multiprocessor; most blocks that fill padding. */
enum { MR_WALK_SAMPLES = 8, MR_WALK_PAIR_ROWS = 2, MR_WALK_MOST_COLUMNS = 128, MR_WALK_MOST_SHARED = 31744,
       MR_WALK_MOST_PADDING = 4096 };

/* A plane's values in the form in which threads need them, so that they need not compute any. */
typedef struct mr_walk_plane {
    const mr_walk_step *steps;
    const int32_t *begin;        /* mr_walk */
    int32_t *start, *end;        /* each tile column: samples (bytes) in a row that are weighed */
    int32_t jobs_begin, jobs;    /* threads that weigh it down, whole warps: first (over all planes), number */
    int32_t lower;               /* rows from a step's upper to its lower one */
    int32_t shift, bias;         /* for sums down */
    int32_t at;                  /* bytes in the block's memory before its first sample */
    int32_t width;               /* bytes in a whole source row */
    int32_t *from;               /* each column: bytes in the block's memory before its first pair in the tile's first
                                    row */
    const uint32_t *weights;
    int32_t head, wholes, pitch; /* mr_walk; pitch: bytes from column to column in the weights */
    int32_t row_bytes;           /* the block's memory, from row to row */
    int32_t half, bits;          /* added to a sum along, to round and centre it; bits to shift it then */
} mr_walk_plane;

/* Plain data, so that a kernel can take it by value. All tables must be in the device's memory. */
typedef struct mr_preprocess_grid {
    mr_preprocess plan;
    mr_grid_mode mode;
    int32_t tile_columns, tile_rows;     /* the small picture's, as stored */
    int32_t tiles_across, tiles, blocks; /* blocks: includes the padding's */
    int32_t *tile_first[2], *tile_end[2]; /* a tile column's source samples: first <= x < end; [luma, chroma] */
    int32_t tiles_down, padding_down;    /* walked: block rows that make tiles, and that fill padding */
    uint32_t per_pair;                   /* walked: 2^32 / column pairs per tile, rounded up */
    int32_t held;                        /* walked: weighed samples can be out of range, as some weights are negative */
    int64_t first_channel;               /* walked, NCHW: elements before R's plane */
    int32_t channel_step;                /* walked, NCHW: from there to G's, and on to B's */
    int32_t paired;                      /* walked: column pairs begin at even destination elements */
    mr_walk walk[2];                     /* walked: [luma, chroma] */
    mr_walk_plane walked[3];             /* walked: each plane */
    int32_t pitch[MR_MAX_PLANES];        /* tiled, walked: int16 from row to row in a plane's weighed rows */
    int32_t at[MR_MAX_PLANES];           /* where they begin */
    int32_t shared_bytes;
} mr_preprocess_grid;

/* The first sample, in whole words of four, that a tile weighs in plane `p`'s rows. */
MR_PIXEL_INLINE int mr_grid_start(const mr_preprocess_grid *grid, int p, int tile_column) {
    const plane_plan *plane = &grid->plan.plane[p];
    return grid->tile_first[plane->table][tile_column] * plane->step / 4 * 4;
}

/* The same, walked: whole loads. */
MR_PIXEL_INLINE int mr_walk_start(const mr_preprocess_grid *grid, int p, int tile_column) {
    const plane_plan *plane = &grid->plan.plane[p];
    return grid->tile_first[plane->table][tile_column] * plane->step / MR_WALK_SAMPLES * MR_WALK_SAMPLES;
}

typedef struct mr_stream mr_stream; /* as in millrace/stage.h, which C++ cannot include */

typedef struct mr_preprocess_places mr_preprocess_places;
int mr_preprocess_places_create(mr_preprocess_places **places);
/* NULLs; accepts NULL. No device may still be using the plan. */
void mr_preprocess_places_destroy(mr_preprocess_places **places);

/* A plan's grid for `stream`'s device; the first call for a device uploads the tables. */
int mr_preprocess_place(const mr_preprocess *plan, mr_stream *stream, mr_preprocess_grid *grid);

#ifdef __cplusplus
}
#endif
