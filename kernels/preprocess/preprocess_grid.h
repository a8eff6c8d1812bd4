/* A preprocess plan as a grid of threads works through it, and its tables on the devices that use it.
 *
 * The small picture, as stored, is cut into tiles; a block of threads makes one tile of one picture. If neighbouring
 * results share source columns, the block first weighs the rows of the columns that the tile needs into memory of its
 * own, then weighs along them; else each thread weighs all that its own pixel needs. YUV pictures of 8 bits that become
 * colour without a quarter turn have a kernel of their own for the first way, with tables of their own
 * (preprocess_walk.h). All give the bits of the C reference. Blocks behind those of the tiles fill the padding.
 *
 * Threads: any. Errors: MR_ERROR_MEMORY, MR_ERROR_DEVICE. */
#pragma once

#include "kernels/preprocess/preprocess_plan.h"
#include "kernels/preprocess/preprocess_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads of a block; pixels of the padding that one of them fills; most bytes of memory of a block's own. */
enum { MR_GRID_THREADS = 128, MR_GRID_PAD_PIXELS = 8, MR_GRID_MOST_SHARED = 40960 };

typedef enum mr_grid_mode { MR_GRID_NEAREST, MR_GRID_DIRECT, MR_GRID_TILED, MR_GRID_WALKED } mr_grid_mode;

/* Walked: samples that a thread weighs down and rows that it makes of a pair of columns; most columns of a tile; bytes
 * of memory of a block's own, so that seven of them fit a multiprocessor of 227 KiB; most blocks that fill padding. */
enum { MR_WALK_SAMPLES = 8, MR_WALK_PAIR_ROWS = 2, MR_WALK_MOST_COLUMNS = 128, MR_WALK_MOST_SHARED = 31744,
       MR_WALK_MOST_PADDING = 4096 };

/* The values of a plane that threads need, in the form in which they need them, so that they compute nothing
 * themselves. */
typedef struct mr_walk_plane {
    const mr_walk_step *steps;
    const int32_t *begin;        /* mr_walk */
    int32_t *start, *end;        /* of each column of tiles: samples (bytes) of a row that are weighed */
    int32_t jobs_begin, jobs;    /* threads that weigh it down, whole warps: first (over all planes), number */
    int32_t lower;               /* rows from the upper to the lower one of a step */
    int32_t shift, bias;         /* of sums down */
    int32_t at;                  /* bytes of the block's memory before its first sample */
    int32_t width;               /* bytes of a whole source row */
    int32_t *from;               /* of each column: bytes of the block's memory before its first pair in the tile's
                                    first row */
    const uint32_t *weights;
    int32_t head, wholes, pitch; /* mr_walk; pitch: bytes from column to column of the weights */
    int32_t row_bytes;           /* of the block's memory, from row to row */
    int32_t half, bits;          /* added to a sum along, to round and centre it; bits to shift it then */
} mr_walk_plane;

/* Plain data: it is passed to a kernel by value, with all tables in memory of the device. */
typedef struct mr_preprocess_grid {
    mr_preprocess plan;
    mr_grid_mode mode;
    int32_t tile_columns, tile_rows;     /* of the small picture, as stored */
    int32_t tiles_across, tiles, blocks; /* blocks: those of the padding too */
    int32_t *tile_first[2], *tile_end[2]; /* source samples of a column of tiles: first <= x < end; [luma, chroma] */
    int32_t tiles_down, padding_down;    /* walked: rows of blocks that make tiles, and that fill padding */
    uint32_t per_pair;                   /* walked: 2^32 / pairs of columns of a tile, rounded up */
    int32_t held;                        /* walked: weighed samples can be out of range, as some weights are negative */
    int64_t first_channel;               /* walked, NCHW: elements before the plane of R */
    int32_t channel_step;                /* walked, NCHW: from there to that of G, and on to that of B */
    int32_t paired;                      /* walked: pairs of columns begin at even elements of the destination */
    mr_walk walk[2];                     /* walked: of [luma, chroma] */
    mr_walk_plane walked[3];             /* walked: each plane */
    int32_t pitch[MR_MAX_PLANES];        /* tiled, walked: int16 from row to row of a plane's weighed rows */
    int32_t at[MR_MAX_PLANES];           /* where they begin */
    int32_t shared_bytes;
} mr_preprocess_grid;

/* First sample, whole words of four, that a tile weighs of the rows of plane `p`. */
MR_PIXEL_INLINE int mr_grid_start(const mr_preprocess_grid *grid, int p, int tile_column) {
    const plane_plan *plane = &grid->plan.plane[p];
    return grid->tile_first[plane->table][tile_column] * plane->step / 4 * 4;
}

/* The same, walked: whole loads. */
MR_PIXEL_INLINE int mr_walk_start(const mr_preprocess_grid *grid, int p, int tile_column) {
    const plane_plan *plane = &grid->plan.plane[p];
    return grid->tile_first[plane->table][tile_column] * plane->step / MR_WALK_SAMPLES * MR_WALK_SAMPLES;
}

typedef struct mr_stream mr_stream; /* as in millrace/stage.h, which no C++ takes */

typedef struct mr_preprocess_places mr_preprocess_places;
int mr_preprocess_places_create(mr_preprocess_places **places);
/* NULLs; accepts NULL. No device may be using the plan any more. */
void mr_preprocess_places_destroy(mr_preprocess_places **places);

/* The grid of a plan for the device of `stream`; the first call for a device uploads the tables. */
int mr_preprocess_place(const mr_preprocess *plan, mr_stream *stream, mr_preprocess_grid *grid);

#ifdef __cplusplus
}
#endif
