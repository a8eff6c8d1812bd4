/* A preprocess plan's internals, shared by the files that make plans and run them. */
#pragma once

#include "kernels/preprocess/preprocess.h"

/* Small picture rows that are computed together, so that the horizontal pass loads its tables once for all. */
enum { MR_ROWS = 4 };

/* How one stored plane is resized. */
typedef struct plane_plan {
    int table;              /* index in mr_preprocess.filter; none for nearest */
    int sample_bytes;       /* 1 or 2 */
    int row_bytes;          /* the whole picture's: readable bytes in a row */
    int step;               /* samples from pixel to pixel */
    int shift_x, shift_y;   /* log2 of the subsampling, for nearest */
    int parts;              /* components that it holds, 1 to 3 */
    int component[3];       /* component indices */
    int offset[3];          /* samples before each one's first */
} plane_plan;

/* Byte offsets into the scratch memory. */
typedef struct scratch_plan {
    size_t row;        /* a plane's weighed rows, components still interleaved; MR_ROWS rows */
    size_t part[3];    /* the same, components taken apart */
    size_t small[3];   /* resized components: MR_ROWS rows, or the whole small plane if it is transposed */
    size_t line[3];    /* resized components: the rows that are computed, if it is transposed */
    size_t row_stride, part_stride, line_stride; /* samples from row to row */
    size_t finished;   /* three float rows, `finished_stride` apart */
    size_t finished_stride;
    size_t narrow;     /* three rows with the destination's type, for NHWC; as far apart */
    size_t bytes;
} scratch_plan;

struct mr_preprocess {
    uint64_t number;             /* above 0, never used again in this process */
    mr_preprocess_params params;
    mr_color color;
    float pad[3];                /* finished padding values, R, G, B */
    int components;              /* read from a picture: 1 or 3 */
    int channels;                /* the destination's: 1 or 3 */
    float gray_mean, gray_scale; /* if three components become one channel; `color` then has neither */
    int planes;
    plane_plan plane[MR_MAX_PLANES];
    mr_filter filter[2][2];      /* [0 luma, 1 subsampled chroma][0 horizontal, 1 vertical] */
    int32_t *nearest_x, *nearest_y; /* each column's and row's stored luma sample before transposing */
    mr_word word;                /* for 16-bit words */
    int depth, limit;            /* bits per sample; its largest value between the passes */
    mr_geometry geometry;        /* from the destination to the stored picture */
    bool transposed;             /* a quarter turn: resized columns are destination rows */
    int columns, rows;           /* the resized planes', as stored */
    int inner_x, inner_y, inner_width, inner_height; /* the picture's place in the destination */
    int stride;                  /* the whole small transposed plane's, samples */
    scratch_plan scratch;
    struct mr_preprocess_places *places; /* grids on other devices: preprocess_grid.h */
};
