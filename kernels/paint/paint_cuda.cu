/* Painting in CUDA: a thread has the pixels of one chroma sample, and paints all items there in order. */
#include "kernels/paint/paint_cuda.h"

#include "kernels/launch.h"
#include "kernels/paint/paint_pixel.h"

enum { SIDE = 16 };

__device__ static uint8_t *sample_at(const mr_paint_target *t, int component, int32_t x, int32_t y) {
    const mr_component *c = &t->component[component];
    return t->data[c->plane] + y * t->stride[c->plane] + (ptrdiff_t)x * c->step + c->offset;
}

/* Paints the pixels of chroma sample x, y. */
__device__ static void paint_sample(const mr_paint_work *work, const mr_paint_item *item, int32_t x, int32_t y) {
    const mr_paint_target *t = &work->target;
    int32_t left = x << t->chroma_w, top = y << t->chroma_h;
    int32_t right = left + (1 << t->chroma_w), bottom = top + (1 << t->chroma_h);
    right = right < t->width ? right : t->width;
    bottom = bottom < t->height ? bottom : t->height;
    if (right <= item->left || left >= item->right || bottom <= item->top || top >= item->bottom)
        return;
    uint32_t sum = 0;
    for (int32_t py = top; py < bottom; py++) {
        for (int32_t px = left; px < right; px++) {
            uint32_t cover = mr_paint_cover(item, work->stencils, px, py);
            mr_paint_sample(sample_at(t, 0, px, py), t->depth, t->shift, item->code[0], cover);
            sum += cover;
        }
    }
    uint32_t average = mr_paint_average(sum, (uint32_t)((right - left) * (bottom - top)));
    for (int c = 1; c < t->components; c++)
        mr_paint_sample(sample_at(t, c, x, y), t->depth, t->shift, item->code[c], average);
}

/* The grid begins at chroma sample `left`, `top`. Items that do not touch a block are skipped by all its threads
 * alike. */
__global__ static void paint(const __grid_constant__ mr_paint_work work, int32_t left, int32_t top) {
    const mr_paint_target *t = &work.target;
    int32_t block_left = (left + (int32_t)(blockIdx.x * SIDE)) << t->chroma_w;
    int32_t block_top = (top + (int32_t)(blockIdx.y * SIDE)) << t->chroma_h;
    int32_t x = left + (int32_t)(blockIdx.x * SIDE + threadIdx.x);
    int32_t y = top + (int32_t)(blockIdx.y * SIDE + threadIdx.y);
    if (x << t->chroma_w >= t->width || y << t->chroma_h >= t->height)
        return;
    for (int32_t i = 0; i < work.count; i++) {
        const mr_paint_item *item = &work.items[i];
        if (item->right > block_left && item->left < block_left + (SIDE << t->chroma_w) && item->bottom > block_top &&
            item->top < block_top + (SIDE << t->chroma_h))
            paint_sample(&work, item, x, y);
    }
}

int mr_paint_cuda(const mr_paint_work *work, void *stream) {
    const mr_paint_target *t = &work->target;
    int32_t left = work->left >> t->chroma_w, top = work->top >> t->chroma_h;
    int32_t columns = ((work->right - 1) >> t->chroma_w) + 1 - left;
    int32_t rows = ((work->bottom - 1) >> t->chroma_h) + 1 - top;
    dim3 grid((unsigned)((columns + SIDE - 1) / SIDE), (unsigned)((rows + SIDE - 1) / SIDE));
    MR_LAUNCH(paint, grid, dim3(SIDE, SIDE), 0, stream, *work, left, top);
    return mr_launched("drawings", cudaSuccess);
}
