/* blur in CUDA: the grid has a layer for each area that may come and each component. A layer ends at
 * once if it has no area. */
#include "kernels/blur/blur_cuda.h"

#include "kernels/blur/blur_pixel.h"
#include "kernels/launch.h"

enum { THREADS = 256, STRIPES = 16 };

__device__ static uint8_t *sample_at(const mr_blur_component *c, int32_t x, int32_t y) {
    return c->data + y * c->stride + (ptrdiff_t)x * c->step;
}

/* The samples of a cell that the area hides. */
struct sums {
    unsigned long long sum;
    unsigned int count;
};

/* Adds this thread's. */
__device__ static void add_samples(const mr_blur_work *work, const mr_blur_component *c, const mr_blur_area *area,
                                   const mr_blur_part *part, sums *shared) {
    const int32_t width = part->right - part->left, count = width * (part->bottom - part->top);
    uint64_t sum = 0;
    unsigned int hidden = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < count; i += THREADS) {
        const int32_t x = part->left + i % width, y = part->top + i / width;
        if (mr_blur_hides(area, c, work->ellipse, x, y)) {
            sum += mr_blur_get(c, sample_at(c, x, y));
            hidden++;
        }
    }
    atomicAdd(&shared->sum, (unsigned long long)sum);
    atomicAdd(&shared->count, hidden);
}

/* A block takes every STRIPES-th cell. */
__global__ static void measure(const __grid_constant__ mr_blur_work work) {
    __shared__ sums shared;
    if ((int32_t)blockIdx.x >= work.areas->count)
        return;
    const mr_blur_area area = work.areas->item[blockIdx.x];
    const mr_blur_component *c = &work.component[blockIdx.y];
    const mr_blur_span span = mr_blur_span_of(&area, c);
    int32_t *cells = mr_blur_cells(&work, (int32_t)blockIdx.x, (int32_t)blockIdx.y);
    for (int32_t i = (int32_t)blockIdx.z; i < area.columns * area.rows; i += STRIPES) {
        const mr_blur_part part = mr_blur_part_of(&span, i % area.columns, i / area.columns);
        if (threadIdx.x == 0)
            shared = sums();
        __syncthreads();
        add_samples(&work, c, &area, &part, &shared);
        __syncthreads();
        if (threadIdx.x == 0)
            cells[i] = shared.count ? mr_blur_mean(shared.sum, shared.count) : (int32_t)MR_BLUR_OUTSIDE;
    }
}

/* A block for each area's component, a thread for each cell. */
__global__ static void smooth(const __grid_constant__ mr_blur_work work) {
    __shared__ int32_t before[MR_BLUR_TABLE], across[MR_BLUR_TABLE];
    if ((int32_t)blockIdx.x >= work.areas->count)
        return;
    const int32_t columns = work.areas->item[blockIdx.x].columns, rows = work.areas->item[blockIdx.x].rows;
    int32_t *cells = mr_blur_cells(&work, (int32_t)blockIdx.x, (int32_t)blockIdx.y);
    const int32_t i = (int32_t)threadIdx.x;
    if (i < columns * rows)
        before[i] = cells[i];
    __syncthreads();
    const int32_t middle = mr_blur_middle(before, columns * rows);
    __syncthreads();
    if (i < columns * rows && before[i] == MR_BLUR_OUTSIDE)
        before[i] = middle;
    __syncthreads();
    if (i < columns * rows)
        across[i] = mr_blur_smooth(before + i / columns * columns, i % columns, columns, 1);
    __syncthreads();
    if (i < columns * rows)
        cells[i] = mr_blur_smooth(across + i % columns, i / columns, rows, columns);
}

__device__ static uint32_t value_at(const mr_blur_work *work, const mr_blur_area *area, const mr_blur_span *span,
                                    const int32_t *cells, int32_t x, int32_t y) {
    if (work->how == MR_BLUR_PIXELATE)
        return mr_blur_round((uint64_t)cells[y / span->cell_height * area->columns + x / span->cell_width],
                             MR_BLUR_BITS);
    const mr_blur_between down = mr_blur_find(y, span->cell_height, area->rows);
    const mr_blur_between across = mr_blur_find(x, span->cell_width, area->columns);
    const int32_t *upper = cells + down.first * area->columns, *under = cells + down.second * area->columns;
    const uint64_t left = mr_blur_mix((uint64_t)upper[across.first], (uint64_t)under[across.first], down.share);
    const uint64_t right = mr_blur_mix((uint64_t)upper[across.second], (uint64_t)under[across.second], down.share);
    return mr_blur_round(mr_blur_mix(left, right, across.share), 3 * MR_BLUR_BITS);
}

/* Whether this area decides about a sample: it hides the sample, and no larger one does. */
__device__ static int decides(const mr_blur_work *work, const mr_blur_component *c, int32_t area, int32_t x,
                              int32_t y) {
    if (!mr_blur_hides(&work->areas->item[area], c, work->ellipse, x, y))
        return 0;
    for (int32_t i = 0; i < area; i++)
        if (mr_blur_hides(&work->areas->item[i], c, work->ellipse, x, y))
            return 0;
    return 1;
}

/* A block takes every STRIPES-th row. */
__global__ static void hide(const __grid_constant__ mr_blur_work work) {
    const int32_t index = (int32_t)blockIdx.x;
    if (index >= work.areas->count)
        return;
    const mr_blur_area area = work.areas->item[index];
    const mr_blur_component *c = &work.component[blockIdx.y];
    const mr_blur_span span = mr_blur_span_of(&area, c);
    const int32_t *cells = mr_blur_cells(&work, index, (int32_t)blockIdx.y);
    for (int32_t y = (int32_t)blockIdx.z; y < span.height; y += STRIPES)
        for (int32_t x = (int32_t)threadIdx.x; x < span.width; x += THREADS)
            if (decides(&work, c, index, span.left + x, span.top + y))
                mr_blur_put(c, sample_at(c, span.left + x, span.top + y),
                            work.how == MR_BLUR_FILL ? (uint32_t)c->fill
                                                     : value_at(&work, &area, &span, cells, x, y));
}

int mr_blur_cuda(const mr_blur_work *work, void *stream) {
    const dim3 all((unsigned)work->most, (unsigned)work->components, STRIPES);
    const dim3 one((unsigned)work->most, (unsigned)work->components);
    if (work->how != MR_BLUR_FILL)
        MR_LAUNCH(measure, all, THREADS, 0, stream, *work);
    if (work->how == MR_BLUR_GAUSSIAN)
        MR_LAUNCH(smooth, one, MR_BLUR_TABLE, 0, stream, *work);
    MR_LAUNCH(hide, all, THREADS, 0, stream, *work);
    return mr_launched("what to hide", cudaSuccess);
}
