/* Inside of a preprocess plan, shared by the file that makes plans and the one that runs them. */
#ifndef MILLRACE_KERNELS_PREPROCESS_PREPROCESS_PLAN_H
#define MILLRACE_KERNELS_PREPROCESS_PREPROCESS_PLAN_H

#include "kernels/preprocess/preprocess.h"

/* Rows of the small picture that are computed together, so that the horizontal pass loads its tables once for all. */
enum { MR_ROWS = 4 };

/* How one stored plane is resized. */
typedef struct plane_plan {
    int table;              /* of mr_preprocess.filter; none for nearest */
    int sample_bytes;       /* 1 or 2 */
    int row_bytes;          /* of the whole picture: readable bytes of a row */
    int step;               /* samples from pixel to pixel */
    int shift_x, shift_y;   /* log2 of the subsampling, for nearest */
    int parts;              /* components that it holds, 1 to 3 */
    int component[3];       /* their indices */
    int offset[3];          /* samples before the first of each */
} plane_plan;

/* Byte offsets into the scratch memory. */
typedef struct scratch_plan {
    size_t row;        /* weighed rows of a plane, components still interleaved; MR_ROWS of them */
    size_t part[3];    /* its components taken apart */
    size_t small[3];   /* resized components: MR_ROWS rows, or the whole small plane if it is transposed */
    size_t line[3];    /* resized components: the rows that are computed, if it is transposed */
    size_t row_stride, part_stride, line_stride; /* samples from row to row */
    size_t finished;   /* three rows of floats, `finished_stride` apart */
    size_t finished_stride;
    size_t narrow;     /* three rows of the destination's type, for NHWC; as far apart */
    size_t bytes;
} scratch_plan;

struct mr_preprocess {
    mr_preprocess_params params;
    mr_color color;
    float pad[3];                /* finished values of the padding, R, G, B */
    int components;              /* that are read of a picture: 1 or 3 */
    int channels;                /* of the destination: 1 or 3 */
    float gray_mean, gray_scale; /* if three components become one channel; `color` has none of them then */
    int planes;
    plane_plan plane[MR_MAX_PLANES];
    mr_filter filter[2][2];      /* [0 luma, 1 subsampled chroma][0 horizontal, 1 vertical] */
    int32_t *nearest_x, *nearest_y; /* stored luma sample of each column and row before transposing */
    mr_word word;                /* of 16-bit words */
    int depth, limit;            /* bits of a sample; its largest value between the passes */
    mr_geometry geometry;        /* from the destination to the stored picture */
    bool transposed;             /* a quarter turn: columns of the resized planes are rows of the destination */
    int columns, rows;           /* of the resized planes, as stored */
    int inner_x, inner_y, inner_width, inner_height; /* the picture's place in the destination */
    int stride;                  /* of the whole small plane that was transposed, samples */
    scratch_plan scratch;
    struct mr_preprocess_places *places; /* its grids on other devices: preprocess_grid.h */
};

#endif
