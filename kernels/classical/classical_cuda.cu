/* Classical features in CUDA. Each kernel has one block or one row of blocks per picture. One thread makes each float
 * sum, in the C reference's order; integers are summed by atomics. */
#include "kernels/classical/classical_cuda.h"

#include "kernels/block_sum.h"
#include "kernels/classical/classical_pixel.h"
#include "kernels/launch.h"

enum { THREADS = 256, CHUNKS = 64 };

static int check_count(const char *what, int32_t count) {
    if (count < 1 || count > MR_PIECE)
        return mr_fail(MR_ERROR_CONFIG, "%s of %d pictures at once: 1 to %d are possible", what, count, MR_PIECE);
    return MR_OK;
}

static cudaStream_t stream_of(void *stream) {
    return (cudaStream_t)stream;
}

/* ---- histograms of colours ------------------------------------------------------------------------------------ */

typedef struct channels {
    int32_t value[3];
} channels;

__device__ static channels channels_of(const mr_histogram_params *p, const uint8_t *src, int32_t pixel,
                                       const int32_t *saturation, const int32_t *hue) {
    int32_t plane = p->width * p->height;
    channels c = {{src[pixel], src[plane + pixel], src[2 * plane + pixel]}};
    if (p->space == MR_COLORS_HSV) {
        mr_hsv hsv = mr_to_hsv(c.value[0], c.value[1], c.value[2], saturation, hue);
        c.value[0] = hsv.h;
        c.value[1] = hsv.s;
        c.value[2] = hsv.v;
    }
    for (int i = 0; i < 3; i++)
        c.value[i] = mr_bin_of(c.value[i], p->bins, p->space == MR_COLORS_HSV && i == 0 ? MR_HUES : 256);
    return c;
}

__device__ static void fill_tables(int32_t *saturation, int32_t *hue) {
    for (int32_t i = (int32_t)threadIdx.x; i < 256; i += (int32_t)blockDim.x) {
        saturation[i] = mr_hsv_quotient(MR_SATURATION_WHOLE, i);
        hue[i] = mr_hsv_quotient(MR_HUE_WHOLE, i);
    }
}

/* Each row of blocks shares a picture. Channels are counted in shared memory first; boxes are counted directly, since
 * there are too many. */
__global__ static void count_colors(const __grid_constant__ mr_histogram_work work, uint32_t *counts, int32_t length) {
    __shared__ int32_t saturation[256], hue[256];
    __shared__ uint32_t near[3 * MR_HISTOGRAM_MOST_BINS];
    const mr_histogram_params *p = &work.params;
    const uint8_t *src = work.src[blockIdx.y];
    uint32_t *far = counts + (size_t)blockIdx.y * (size_t)length;
    fill_tables(saturation, hue);
    for (int32_t i = (int32_t)threadIdx.x; i < 3 * MR_HISTOGRAM_MOST_BINS; i += (int32_t)blockDim.x)
        near[i] = 0;
    __syncthreads();
    int32_t step = (int32_t)(gridDim.x * blockDim.x);
    for (int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x); i < p->width * p->height; i += step) {
        channels c = channels_of(p, src, i, saturation, hue);
        if (p->joint)
            atomicAdd(&far[(c.value[0] * p->bins + c.value[1]) * p->bins + c.value[2]], 1u);
        for (int k = 0; k < 3 && !p->joint; k++)
            atomicAdd(&near[k * p->bins + c.value[k]], 1u);
    }
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < length && !p->joint; i += (int32_t)blockDim.x)
        atomicAdd(&far[i], near[i]);
}

__global__ static void share_colors(const __grid_constant__ mr_histogram_work work, const uint32_t *counts,
                                    int32_t length) {
    uint32_t pixels = (uint32_t)work.params.width * (uint32_t)work.params.height;
    for (int32_t i = (int32_t)threadIdx.x; i < length; i += (int32_t)blockDim.x) {
        work.dst[blockIdx.x][i] = mr_share_of(counts[(size_t)blockIdx.x * (size_t)length + (size_t)i], pixels);
    }
}

size_t mr_histogram_cuda_scratch_bytes(const mr_histogram_work *work) {
    return (size_t)work->count * (size_t)mr_histogram_length(&work->params) * sizeof(uint32_t);
}

int mr_histogram_cuda(const mr_histogram_work *work, void *scratch, void *stream) {
    int status = check_count("histograms", work->count);
    if (status)
        return status;
    int32_t length = mr_histogram_length(&work->params);
    uint32_t *counts = (uint32_t *)scratch;
    cudaError_t cleared =
        cudaMemsetAsync(scratch, 0, mr_histogram_cuda_scratch_bytes(work), stream_of(stream));
    dim3 grid(CHUNKS, (unsigned)work->count);
    MR_LAUNCH(count_colors, grid, THREADS, 0, stream, *work, counts, length);
    MR_LAUNCH(share_colors, (unsigned)work->count, THREADS, 0, stream, *work, counts, length);
    return mr_launched("histograms", cleared);
}

/* ---- gradients ------------------------------------------------------------------------------------------------ */

/* The longest gradient among the channels. */
__device__ static mr_gradient gradient_at(const mr_hog_params *p, const uint8_t *src, int32_t x, int32_t y) {
    int32_t left = mr_mirrored(x - 1, p->width), right = mr_mirrored(x + 1, p->width);
    int32_t above = mr_mirrored(y - 1, p->height), below = mr_mirrored(y + 1, p->height);
    mr_gradient longest = {0.0f, 0.0f};
    for (int32_t c = 0; c < p->channels; c++, src += p->width * p->height) {
        mr_gradient here;
        const uint8_t *row = src + y * p->width, *column = src + x;
        here.dx = mr_hog_value(row[right], p->gamma) - mr_hog_value(row[left], p->gamma);
        here.dy = mr_hog_value(column[below * p->width], p->gamma) - mr_hog_value(column[above * p->width], p->gamma);
        longest = c == 0 ? here : mr_longer_gradient(longest, here);
    }
    return longest;
}

/* A block's votes, which must be in shared memory. */
typedef struct polled {
    float *first, *second;
    uint8_t *bin;
} polled;

__device__ static void cast_votes(const mr_hog_layout *l, const uint8_t *src, int32_t left, int32_t top, polled b) {
    const mr_hog_params *p = &l->params;
    for (int32_t i = (int32_t)threadIdx.x; i < p->block_width * p->block_height; i += (int32_t)blockDim.x) {
        mr_gradient g = gradient_at(p, src, left + i % p->block_width, top + i / p->block_width);
        mr_pixel_vote vote = mr_hog_vote(g.dx, g.dy, l->bins_per_quarter, p->bins);
        b.bin[i] = (uint8_t)vote.bin;
        b.first[i] = vote.first;
        b.second[i] = vote.second;
    }
}

/* One number of a block: the votes for one bin in one cell, pixel after pixel. */
__device__ static float count_votes(const mr_hog_layout *l, int32_t cell, int32_t bin, polled b) {
    const mr_hog_params *p = &l->params;
    int32_t cell_x = cell / l->cells_y, cell_y = cell % l->cells_y, at = 0;
    float sum = 0.0f;
    for (int32_t y = 0; y < p->block_height; y++)
        for (int32_t x = 0; x < p->block_width; x++, at++) {
            int32_t next = b.bin[at] + 1 < p->bins ? b.bin[at] + 1 : 0;
            if (b.bin[at] != bin && next != bin)
                continue;
            float weight = mr_hog_weight(l->bell_x[x] * l->bell_y[y], mr_hog_nearness(x, cell_x, p->cell_width),
                                         mr_hog_nearness(y, cell_y, p->cell_height));
            if (b.bin[at] == bin)
                sum = sum + weight * b.first[at];
            if (next == bin)
                sum = sum + weight * b.second[at];
        }
    return sum;
}

/* One CUDA block for each block in a picture. */
__global__ static void gather_gradients(const __grid_constant__ mr_hog_layout layout,
                                        const __grid_constant__ mr_hog_work work) {
    MR_DYNAMIC_SHARED(float, room);
    const mr_hog_params *p = &layout.params;
    int32_t pixels = p->block_width * p->block_height, length = layout.block_length;
    float *sums = room;
    polled b = {room + length, room + length + pixels, (uint8_t *)(room + length + 2 * pixels)};
    int32_t block_x = (int32_t)blockIdx.x / layout.blocks_y, block_y = (int32_t)blockIdx.x % layout.blocks_y;
    cast_votes(&layout, work.src[blockIdx.y], block_x * p->stride_x, block_y * p->stride_y, b);
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < length; i += (int32_t)blockDim.x)
        sums[i] = count_votes(&layout, i / p->bins, i % p->bins, b);
    __syncthreads();
    if (threadIdx.x == 0)
        mr_hog_normalize(sums, length, p->clip);
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < length; i += (int32_t)blockDim.x)
        work.dst[blockIdx.y][(size_t)blockIdx.x * (size_t)length + (size_t)i] = sums[i];
}

int mr_hog_cuda(const mr_hog_layout *layout, const mr_hog_work *work, void *stream) {
    int status = check_count("gradients", work->count);
    if (status)
        return status;
    size_t pixels = (size_t)layout->params.block_width * (size_t)layout->params.block_height;
    size_t bytes = ((size_t)layout->block_length + 2 * pixels) * sizeof(float) + pixels; /* within 48 KiB */
    dim3 grid((unsigned)(layout->blocks_x * layout->blocks_y), (unsigned)work->count);
    MR_LAUNCH(gather_gradients, grid, THREADS / 2, bytes, stream, *layout, *work);
    return mr_launched("gradients", cudaSuccess);
}

/* ---- perceptual hash ------------------------------------------------------------------------------------------ */

typedef struct cosines {
    int32_t value[MR_PHASH_LOW][MR_PHASH_SIDE];
} cosines;

__device__ static void store_hash(const mr_phash_work *work, const int64_t *low, int64_t twice_median) {
    int32_t at = (int32_t)threadIdx.x;
    if (work->bits) {
        ((float *)work->dst[blockIdx.x])[at] = 2 * low[at] > twice_median ? 1.0f : 0.0f;
    } else if (at < MR_HASH_BYTES) {
        int32_t byte = 0;
        for (int32_t i = 0; i < 8; i++)
            byte = 2 * byte + (2 * low[8 * at + i] > twice_median);
        ((uint8_t *)work->dst[blockIdx.x])[at] = (uint8_t)byte;
    }
}

/* One block with 64 threads per picture, one thread per frequency. */
__global__ static void hash_pictures(const __grid_constant__ mr_phash_work work,
                                     const __grid_constant__ cosines cosine) {
    __shared__ int64_t column[MR_PHASH_LOW][MR_PHASH_SIDE], low[MR_PHASH_BITS];
    __shared__ unsigned long long twice_median;
    const uint8_t *src = work.src[blockIdx.x];
    int32_t thread = (int32_t)threadIdx.x;
    for (int32_t i = thread; i < MR_PHASH_LOW * MR_PHASH_SIDE; i += MR_PHASH_BITS) {
        int32_t k = i / MR_PHASH_SIDE, x = i % MR_PHASH_SIDE;
        int64_t sum = 0;
        for (int32_t y = 0; y < MR_PHASH_SIDE; y++)
            sum += (int64_t)cosine.value[k][y] * src[y * MR_PHASH_SIDE + x];
        column[k][x] = sum;
    }
    __syncthreads();
    int64_t sum = 0;
    for (int32_t x = 0; x < MR_PHASH_SIDE; x++)
        sum += cosine.value[thread % MR_PHASH_LOW][x] * column[thread / MR_PHASH_LOW][x];
    low[thread] = sum;
    if (thread == 0)
        twice_median = 0;
    __syncthreads();
    if (mr_is_median(low, thread))
        atomicAdd(&twice_median, (unsigned long long)sum);
    __syncthreads();
    store_hash(&work, low, (int64_t)twice_median);
}

int mr_phash_cuda(const mr_phash_work *work, void *stream) {
    int status = check_count("hashes", work->count);
    if (status)
        return status;
    cosines cosine;
    mr_phash_cosines(cosine.value);
    MR_LAUNCH(hash_pictures, (unsigned)work->count, MR_PHASH_BITS, 0, stream, *work, cosine);
    return mr_launched("hashes", cudaSuccess);
}

/* ---- sharpness ------------------------------------------------------------------------------------------------ */

typedef unsigned long long counter;

__device__ static int32_t laplacian_at(const mr_sharpness_item *item, int32_t x, int32_t y) {
    const uint8_t *row = item->src + (ptrdiff_t)y * item->stride;
    int32_t above = item->src[(ptrdiff_t)mr_mirrored(y - 1, item->height) * item->stride + x];
    int32_t below = item->src[(ptrdiff_t)mr_mirrored(y + 1, item->height) * item->stride + x];
    return mr_laplacian(above, row[mr_mirrored(x - 1, item->width)], row[x], row[mr_mirrored(x + 1, item->width)],
                        below);
}

/* Each row of blocks shares a picture, line by line. Sums may be negative and wrap, as atomics do. */
__global__ static void sum_laplacian(const __grid_constant__ mr_sharpness_work work, counter *sums) {
    __shared__ counter sum, squares;
    const mr_sharpness_item *item = &work.item[blockIdx.y];
    if (threadIdx.x == 0)
        sum = squares = 0;
    __syncthreads();
    int64_t own_sum = 0, own_squares = 0;
    for (int32_t y = (int32_t)blockIdx.x; y < item->height; y += (int32_t)gridDim.x)
        for (int32_t x = (int32_t)threadIdx.x; x < item->width; x += (int32_t)blockDim.x) {
            int32_t value = laplacian_at(item, x, y);
            own_sum += value;
            own_squares += value * value;
        }
    atomicAdd(&sum, (counter)own_sum);
    atomicAdd(&squares, (counter)own_squares);
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(&sums[2 * blockIdx.y], sum);
        atomicAdd(&sums[2 * blockIdx.y + 1], squares);
    }
}

__global__ static void take_variance(const __grid_constant__ mr_sharpness_work work, const counter *sums) {
    int32_t at = (int32_t)threadIdx.x;
    if (at >= work.count)
        return;
    const mr_sharpness_item *item = &work.item[at];
    *item->dst = mr_variance((int64_t)sums[2 * at], (int64_t)sums[2 * at + 1], (int64_t)item->width * item->height,
                             (double)item->scale);
}

size_t mr_sharpness_cuda_scratch_bytes(const mr_sharpness_work *work) {
    return (size_t)work->count * 2 * sizeof(counter);
}

int mr_sharpness_cuda(const mr_sharpness_work *work, void *scratch, void *stream) {
    int status = check_count("sharpness", work->count);
    if (status)
        return status;
    counter *sums = (counter *)scratch;
    cudaError_t cleared = cudaMemsetAsync(scratch, 0, mr_sharpness_cuda_scratch_bytes(work), stream_of(stream));
    dim3 grid(CHUNKS, (unsigned)work->count);
    MR_LAUNCH(sum_laplacian, grid, THREADS, 0, stream, *work, sums);
    MR_LAUNCH(take_variance, 1, MR_PIECE, 0, stream, *work, sums);
    return mr_launched("sharpness", cleared);
}

/* ---- what has changed ----------------------------------------------------------------------------------------- */

__global__ static void count_changed(const __grid_constant__ mr_change_work work) {
    uint32_t own = 0;
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < work.count; i += step) {
        int32_t apart = (int32_t)work.a[i] - work.b[i];
        own += (apart < 0 ? -apart : apart) > work.noise;
    }
    mr_add_of_block(work.changed, own);
}

int mr_change_cuda(const mr_change_work *work, void *stream) {
    cudaError_t cleared = cudaMemsetAsync(work->changed, 0, sizeof *work->changed, stream_of(stream));
    MR_LAUNCH(count_changed, CHUNKS, THREADS, 0, stream, *work);
    return mr_launched("what has changed", cleared);
}
