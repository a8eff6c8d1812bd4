/* preprocess in CUDA: see preprocess_grid.h for how a picture is cut into blocks. */
#include "kernels/preprocess/preprocess_cuda.h"

#include "kernels/preprocess/preprocess_device.h"
#include "kernels/preprocess/preprocess_walk_cuda.h"

/* One picture, as a block's threads see it. */
typedef struct view {
    const mr_preprocess_grid *grid;
    const mr_preprocess *plan;
    const mr_picture *source;
    void *dst;
} view;

/* ---- results ----------------------------------------------------------------------------------------------------- */

__device__ static void store(mr_dtype dtype, void *dst, size_t at, float value) {
    if (dtype == MR_DTYPE_U8)
        ((uint8_t *)dst)[at] = mr_float_to_u8(value);
    else if (dtype == MR_DTYPE_F16)
        ((uint16_t *)dst)[at] = mr_float_to_half(value);
    else
        ((float *)dst)[at] = value;
}

__device__ static void store_pixel(const view *v, int x, int y, const float finished[3]) {
    const mr_preprocess_params *p = &v->plan->params;
    size_t channels = (size_t)v->plan->channels, width = (size_t)p->width, height = (size_t)p->height;
#pragma unroll
    for (size_t c = 0; c < 3; c++) {
        size_t row = (size_t)y, column = (size_t)x;
        size_t at =
            p->layout == MR_LAYOUT_NHWC ? (row * width + column) * channels + c : (c * height + row) * width + column;
        if (c < channels)
            store(p->dtype, v->dst, at, p->bgr ? finished[2 - c] : finished[c]);
    }
}

/* From a small pixel's samples, as stored, to the destination. */
__device__ static void finish(const view *v, int column, int row, const int16_t sample[3]) {
    const mr_preprocess *plan = v->plan;
    bool gray = plan->components == 1;
    float out[3];
    mr_color_convert(&plan->color, sample[0], gray ? sample[0] : sample[1], gray ? sample[0] : sample[2], out);
    if (plan->channels == 1 && !gray)
        out[0] = (mr_luma(out[0], out[1], out[2]) - plan->gray_mean) * plan->gray_scale;
    store_pixel(v, plan->inner_x + (plan->transposed ? row : column), plan->inner_y + (plan->transposed ? column : row),
                out);
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* One plane's source rows that make one small row. */
typedef struct rows {
    const uint8_t *first; /* column 0 in the first row */
    ptrdiff_t stride;
    const int16_t *weights;
    int taps, shift, bytes, width; /* bytes: per sample; width: samples in the whole row */
    mr_word word;
} rows;

__device__ static rows rows_of(const view *v, int p, int row) {
    const plane_plan *plane = &v->plan->plane[p];
    const mr_filter *y = &v->plan->filter[plane->table][1];
    rows r;
    r.stride = v->source->stride[p];
    r.first = v->source->data[p] + y->first[row] * r.stride;
    r.weights = y->weights + (ptrdiff_t)row * y->taps;
    r.taps = y->length[row];
    r.shift = y->bits + v->plan->depth - 8 - MR_SAMPLE_BITS;
    r.bytes = plane->sample_bytes;
    r.width = plane->row_bytes / plane->sample_bytes;
    r.word = v->plan->word;
    r.word.offset = r.word.flip << y->bits;
    return r;
}

__device__ static int16_t weigh(const rows *r, int sample) {
    const uint8_t *src = r->first + (ptrdiff_t)sample * r->bytes;
    if (r->bytes == 1)
        return mr_weigh8(src, r->stride, r->weights, r->taps, r->shift);
    return mr_weigh16(src, r->stride, r->weights, r->taps, r->shift, r->word);
}

/* Four neighbouring one-byte samples: mr_weigh8's sums, two rows at a time. */
template <bool ALIGNED>
__device__ static uint32_t load_word(const uint8_t *src) {
    return ALIGNED ? *(const uint32_t *)(const void *)src : mr_load_word(src);
}

template <bool ALIGNED>
__device__ static void weigh_word(const rows *r, int sample, int16_t four[4]) {
    int32_t sum[4];
    for (int k = 0; k < 4; k++)
        sum[k] = 1 << (r->shift - 1);
    const uint8_t *src = r->first + sample;
    for (int t = 0; t < r->taps; t += 2, src += 2 * r->stride) {
        bool pair = t + 1 < r->taps;
        uint32_t weights = (uint16_t)r->weights[t] | (pair ? (uint32_t)(uint16_t)r->weights[t + 1] << 16 : 0);
        uint32_t upper = load_word<ALIGNED>(src), lower = pair ? load_word<ALIGNED>(src + r->stride) : 0;
        uint32_t left = __byte_perm(upper, lower, 0x5140), right = __byte_perm(upper, lower, 0x7362);
        sum[0] = mr_dot_low(weights, left, sum[0]);
        sum[1] = mr_dot_high(weights, left, sum[1]);
        sum[2] = mr_dot_low(weights, right, sum[2]);
        sum[3] = mr_dot_high(weights, right, sum[3]);
    }
    for (int k = 0; k < 4; k++)
        four[k] = (int16_t)(sum[k] >> r->shift);
}

/* Must not read outside the row. `words`: in every row the first sample begins a whole word. */
__device__ static void weigh_four(const rows *r, int sample, bool words, int16_t four[4]) {
    if (words && sample + 4 <= r->width) {
        weigh_word<true>(r, sample, four);
        return;
    }
    if (r->bytes == 1 && sample >= 3 && sample + 4 + 3 <= r->width) {
        weigh_word<false>(r, sample, four);
        return;
    }
    for (int k = 0; k < 4; k++)
        four[k] = sample + k < r->width ? weigh(r, sample + k) : (int16_t)0;
}

/* ---- three ways to the samples of a pixel ------------------------------------------------------------------------ */

__device__ static int16_t nearest(const view *v, int p, int c, int column, int row) {
    const mr_preprocess *plan = v->plan;
    const plane_plan *plane = &plan->plane[p];
    const uint8_t *src = v->source->data[p] + (plan->nearest_y[row] >> plane->shift_y) * v->source->stride[p];
    return mr_pick(src, (plan->nearest_x[column] >> plane->shift_x) * plane->step + plane->offset[c], plan->depth,
                   plan->word);
}

__device__ static int16_t direct(const view *v, int p, int c, int column, int row) {
    const plane_plan *plane = &v->plan->plane[p];
    const mr_filter *x = &v->plan->filter[plane->table][0];
    rows r = rows_of(v, p, row);
    int sample = (x->begin + x->first[column]) * plane->step + plane->offset[c];
    int32_t sum = 1 << (x->bits - 1);
    for (int t = 0; t < x->length[column]; t++)
        sum += weigh(&r, sample + t * plane->step) * x->weights[mr_filter_weight(x, column, t)];
    return mr_filter_finish(x, sum, v->plan->limit);
}

/* Weighs the rows that a tile needs from one plane into `room`. */
__device__ static void weigh_tile(const view *v, int p, int tile_column, int first_row, int16_t *room) {
    const plane_plan *plane = &v->plan->plane[p];
    const mr_preprocess_grid *grid = v->grid;
    int start = mr_grid_start(grid, p, tile_column), end = grid->tile_end[plane->table][tile_column] * plane->step;
    int fours = (end - start + 3) / 4;
    int left = v->plan->rows - first_row, count = left < grid->tile_rows ? left : grid->tile_rows;
    bool words =
        plane->sample_bytes == 1 && (((uintptr_t)v->source->data[p] | (uintptr_t)v->source->stride[p]) & 3) == 0;
    for (int i = (int)threadIdx.x; i < fours * count; i += (int)blockDim.x) {
        int row = i / fours, at = i % fours * 4;
        rows r = rows_of(v, p, first_row + row);
        int16_t four[4];
        weigh_four(&r, start + at, words, four);
        for (int k = 0; k < 4; k++)
            room[grid->at[p] + row * grid->pitch[p] + at + k] = four[k];
    }
}

__device__ static int16_t along(const view *v, int p, int c, int column, int row, const int16_t *room) {
    const plane_plan *plane = &v->plan->plane[p];
    const mr_preprocess_grid *grid = v->grid;
    const mr_filter *x = &v->plan->filter[plane->table][0];
    int start = mr_grid_start(grid, p, column / grid->tile_columns);
    int sample = (x->begin + x->first[column]) * plane->step + plane->offset[c] - start;
    return mr_weigh_along(room + grid->at[p] + row % grid->tile_rows * grid->pitch[p] + sample, plane->step, x, column,
                          v->plan->limit);
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

template <mr_grid_mode MODE>
__device__ static void make_pixel(const view *v, int column, int row, const int16_t *room) {
    int16_t sample[3] = {0, 0, 0};
    for (int p = 0; p < v->plan->planes; p++)
        for (int c = 0; c < v->plan->plane[p].parts; c++) {
            int16_t made = MODE == MR_GRID_NEAREST  ? nearest(v, p, c, column, row)
                           : MODE == MR_GRID_DIRECT ? direct(v, p, c, column, row)
                                                    : along(v, p, c, column, row, room);
            int which = v->plan->plane[p].component[c];
            sample[0] = which == 0 ? made : sample[0];
            sample[1] = which == 1 ? made : sample[1];
            sample[2] = which == 2 ? made : sample[2];
        }
    finish(v, column, row, sample);
}

/* Block x in picture y. */
template <mr_grid_mode MODE>
__global__ static void preprocess(const __grid_constant__ mr_preprocess_grid grid,
                                  const __grid_constant__ mr_pictures table) {
    MR_DYNAMIC_SHARED(int16_t, room);
    const view v = {&grid, &grid.plan, &table.source[blockIdx.y], table.dst[blockIdx.y]};
    int tile = (int)blockIdx.x;
    if (tile >= grid.tiles) {
        mr_fill_padding(&grid.plan, tile - grid.tiles, grid.blocks - grid.tiles,
                        [&](int x, int y) { store_pixel(&v, x, y, grid.plan.pad); });
        return;
    }
    int first_column = tile % grid.tiles_across * grid.tile_columns,
        first_row = tile / grid.tiles_across * grid.tile_rows;
    if (MODE == MR_GRID_TILED) {
        for (int p = 0; p < grid.plan.planes; p++)
            if (grid.plan.plane[p].parts)
                weigh_tile(&v, p, tile % grid.tiles_across, first_row, room);
        __syncthreads();
    }
    for (int i = (int)threadIdx.x; i < grid.tile_columns * grid.tile_rows; i += (int)blockDim.x) {
        int column = first_column + i % grid.tile_columns, row = first_row + i / grid.tile_columns;
        if (column < grid.plan.columns && row < grid.plan.rows)
            make_pixel<MODE>(&v, column, row, room);
    }
}

int mr_preprocess_cuda(const mr_preprocess_grid *grid, const mr_preprocess_work *works, int count, void *stream) {
    mr_pictures table;
    for (int i = 0; i < count; i++) {
        for (int p = 0; p < MR_MAX_PLANES; p++)
            if (works[i].source.stride[p] != (int32_t)works[i].source.stride[p])
                return mr_fail(MR_ERROR_DATA, "a plane whose rows are %td bytes apart", works[i].source.stride[p]);
        table.source[i] = works[i].source;
        table.dst[i] = works[i].dst;
    }
    const dim3 blocks((unsigned)grid->blocks, (unsigned)count);
    if (grid->mode == MR_GRID_WALKED)
        mr_preprocess_launch_walk(grid, &table, count, stream);
    else if (grid->mode == MR_GRID_NEAREST)
        MR_LAUNCH(preprocess<MR_GRID_NEAREST>, blocks, MR_GRID_THREADS, 0, stream, *grid, table);
    else if (grid->mode == MR_GRID_DIRECT)
        MR_LAUNCH(preprocess<MR_GRID_DIRECT>, blocks, MR_GRID_THREADS, 0, stream, *grid, table);
    else
        MR_LAUNCH(preprocess<MR_GRID_TILED>, blocks, MR_GRID_THREADS, (size_t)grid->shared_bytes, stream, *grid, table);
    return mr_launched("preprocess", cudaSuccess);
}
