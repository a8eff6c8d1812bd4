/* Operations on vectors in CUDA. */
#include "kernels/vector/vector_cuda.h"

#include <math.h>

#include "kernels/launch.h"
#include "kernels/vector/lanes.h"

enum { PIECE = 32, TOP_K_THREADS = 256, NORMALIZE_THREADS = 128, POOL_CHANNELS = 16, LINEAR_SIDE = 16,
       BIAS_THREADS = 256, RECTIFY_THREADS = 256, RECTIFY_BLOCKS = 64 };

/* One launch's works. */
template <typename work_type> struct works_of {
    work_type work[PIECE];
};

/* The next works among `left`, and how many these are. */
template <typename work_type> static works_of<work_type> next_works(const work_type *works, int left, int *some) {
    works_of<work_type> table;
    *some = left < PIECE ? left : PIECE;
    for (int k = 0; k < *some; k++)
        table.work[k] = works[k];
    return table;
}

/* ---- scores and best classes ------------------------------------------------------------------------------------- */

/* A class and its logit; index -1: none. */
typedef struct candidate {
    float logit;
    int32_t index;
} candidate;

__device__ static bool is_better(candidate a, candidate b) {
    if (a.index < 0 || b.index < 0)
        return b.index < 0 && a.index >= 0;
    return a.logit > b.logit || (a.logit == b.logit && a.index < b.index);
}

/* The better of `best` and `here`, if that comes after `last`. */
__device__ static candidate better_behind(candidate last, candidate here, candidate best) {
    bool behind = here.logit < last.logit || (here.logit == last.logit && here.index > last.index); /* false for NaN */
    return behind && is_better(here, best) ? here : best;
}

/* The best among all threads, known to all. */
__device__ static candidate best_of_all(candidate best, candidate *room) {
    int32_t thread = (int32_t)threadIdx.x;
    room[thread] = best;
    __syncthreads();
    for (int32_t half = TOP_K_THREADS / 2; half > 0; half /= 2) {
        if (thread < half && is_better(room[thread + half], room[thread]))
            room[thread] = room[thread + half];
        __syncthreads();
    }
    best = room[0];
    __syncthreads();
    return best;
}

/* The best logit in first .. end after `last`, known to all threads. */
__device__ static candidate next_best(const float *logits, int32_t first, int32_t end, candidate last,
                                      candidate *room) {
    candidate best = {0.0f, -1};
    for (int32_t i = first + (int32_t)threadIdx.x; i < end; i += TOP_K_THREADS)
        best = better_behind(last, {logits[i], i}, best);
    return best_of_all(best, room);
}

/* Whether some of the values first .. end are odd: not a number, or, with `infinite`, not finite. Known to all threads.
 */
__device__ static bool has_odd(const float *values, int32_t first, int32_t end, bool infinite, int32_t *odd) {
    if (threadIdx.x == 0)
        *odd = 0;
    __syncthreads();
    for (int32_t i = first + (int32_t)threadIdx.x; i < end; i += TOP_K_THREADS)
        if (isnan(values[i]) || (infinite && isinf(values[i])))
            *odd = 1; /* All writers write the same value. */
    __syncthreads();
    const bool found = *odd;
    __syncthreads();
    return found;
}

__device__ static double exponential(float logit, float largest) {
    return logit == largest ? 1.0 : (double)expf(logit - largest);
}

/* Sums exponentials over all classes; known to all threads. */
__device__ static double sum_of_exponentials(const mr_top_k_work *work, float largest, double *room) {
    int32_t thread = (int32_t)threadIdx.x;
    double sum = 0.0;
    for (int32_t i = thread; i < work->count; i += TOP_K_THREADS)
        sum += exponential(work->logits[i], largest);
    room[thread] = sum;
    __syncthreads();
    for (int32_t half = TOP_K_THREADS / 2; half > 0; half /= 2) {
        if (thread < half)
            room[thread] += room[thread + half];
        __syncthreads();
    }
    return room[0];
}

__device__ static float score_of(mr_activation activation, float logit, float largest, double sum) {
    if (activation == MR_ACTIVATION_SOFTMAX)
        return (float)(exponential(logit, largest) / sum);
    return activation == MR_ACTIVATION_SIGMOID ? (float)(1.0 / (1.0 + exp(-(double)logit))) : logit;
}

/* One block per piece of work. */
__global__ static void top_k(const __grid_constant__ works_of<mr_top_k_work> table) {
    __shared__ candidate room[TOP_K_THREADS];
    __shared__ double sums[TOP_K_THREADS];
    __shared__ int32_t odd;
    const mr_top_k_work *work = &table.work[blockIdx.x];
    candidate best = {INFINITY, -1};
    float largest = 0.0f;
    double sum = 1.0;
    int32_t kept = has_odd(work->logits, 0, work->count, false, &odd) ? MR_TOP_K_NOT_FINITE : 0;
    for (int32_t found = 0; found < work->most && kept >= 0; found++) {
        best = next_best(work->logits, 0, work->count, best, room);
        if (best.index < 0)
            break;
        largest = found == 0 ? best.logit : largest;
        if (isinf(largest) && work->activation != MR_ACTIVATION_SIGMOID)
            kept = MR_TOP_K_NOT_FINITE;
        if (kept < 0)
            break;
        if (found == 0 && work->activation == MR_ACTIVATION_SOFTMAX)
            sum = sum_of_exponentials(work, largest, sums);
        float score = score_of(work->activation, best.logit, largest, sum);
        if (!(score >= work->threshold))
            break; /* the others score no higher */
        kept = found + 1;
        if (threadIdx.x == 0) {
            work->index[found] = best.index;
            work->score[found] = score;
        }
    }
    if (threadIdx.x == 0)
        *work->found = kept;
}

int mr_top_k_cuda(const mr_top_k_work *works, int count, void *stream) {
    for (int i = 0; i < count; i += PIECE) {
        int some;
        const auto table = next_works(works + i, count - i, &some);
        MR_LAUNCH(top_k, (unsigned)some, TOP_K_THREADS, 0, stream, table);
    }
    return mr_launched("the best classes", cudaSuccess);
}

/* ---- rectified units --------------------------------------------------------------------------------------------- */

/* Block row y makes work y. */
__global__ static void rectify(const __grid_constant__ works_of<mr_rectify_work> table) {
    const mr_rectify_work *work = &table.work[blockIdx.y];
    const size_t step = (size_t)gridDim.x * RECTIFY_THREADS;
    for (size_t i = (size_t)blockIdx.x * RECTIFY_THREADS + threadIdx.x; i < work->count; i += step)
        work->dst[i] = work->gate[i] > 0.0f ? work->src[i] : isfinite(work->gate[i]) ? 0.0f : NAN;
}

int mr_rectify_cuda(const mr_rectify_work *works, int count, void *stream) {
    for (int i = 0; i < count; i += PIECE) {
        int some;
        size_t most = 1;
        const auto table = next_works(works + i, count - i, &some);
        for (int k = 0; k < some; k++)
            most = table.work[k].count > most ? table.work[k].count : most;
        const size_t blocks = (most + RECTIFY_THREADS - 1) / RECTIFY_THREADS;
        const dim3 grid((unsigned)(blocks < RECTIFY_BLOCKS ? blocks : (size_t)RECTIFY_BLOCKS), (unsigned)some);
        MR_LAUNCH(rectify, grid, RECTIFY_THREADS, 0, stream, table);
    }
    return mr_launched("rectified units", cudaSuccess);
}

/* ---- votes of the nearest ---------------------------------------------------------------------------------------- */

__device__ static int32_t slices_of(const mr_nearest_work *work) {
    return (work->count + MR_NEAREST_SLICE - 1) / MR_NEAREST_SLICE;
}

__device__ static int32_t kept_of(const mr_nearest_work *work) {
    return work->most < MR_NEAREST_SLICE ? work->most : (int32_t)MR_NEAREST_SLICE;
}

/* Replaces the candidates in a slice with values that are not finite. */
enum { NOT_FINITE = -2 };

/* Block x in row y keeps the best in work y's slice x, best first, followed by empty candidates. */
__global__ static void nearest_of_slices(const __grid_constant__ works_of<mr_nearest_work> table) {
    __shared__ candidate room[TOP_K_THREADS];
    __shared__ int32_t odd;
    const mr_nearest_work *work = &table.work[blockIdx.y];
    const int32_t slice = (int32_t)blockIdx.x, first = slice * MR_NEAREST_SLICE, kept = kept_of(work);
    const int32_t end = work->count - first < MR_NEAREST_SLICE ? work->count : first + MR_NEAREST_SLICE;
    candidate *to = (candidate *)(void *)work->scratch + (size_t)slice * (size_t)kept, best = {INFINITY, -1};
    if (slice >= slices_of(work))
        return;
    if (has_odd(work->near, first, end, true, &odd))
        best.index = NOT_FINITE;
    for (int32_t found = 0; found < kept; found++) {
        if (best.index >= 0 || (found == 0 && best.index != NOT_FINITE))
            best = next_best(work->near, first, end, best, room);
        if (threadIdx.x == 0)
            to[found] = best;
    }
}

/* Counts in `shares` the votes for the best among all slices, by one thread; returns how many, known to all. */
__device__ static int32_t count_votes(const mr_nearest_work *work, candidate *room) {
    const candidate *from = (const candidate *)(const void *)work->scratch;
    const int32_t count = slices_of(work) * kept_of(work);
    candidate last = {INFINITY, -1};
    for (int32_t found = 0; found < work->most; found++) {
        candidate best = {0.0f, -1};
        for (int32_t i = (int32_t)threadIdx.x; i < count; i += TOP_K_THREADS)
            if (from[i].index >= 0)
                best = better_behind(last, from[i], best);
        last = best_of_all(best, room);
        if (last.index < 0)
            return found;
        if (threadIdx.x == 0)
            work->shares[work->classes[last.index]] += 1.0f;
    }
    return work->most;
}

/* Known to all threads. */
__device__ static bool are_finite(const mr_nearest_work *work, int32_t *odd) {
    const candidate *from = (const candidate *)(const void *)work->scratch;
    if (threadIdx.x == 0)
        *odd = 0;
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < slices_of(work); i += TOP_K_THREADS)
        if (from[(size_t)i * (size_t)kept_of(work)].index == NOT_FINITE)
            *odd = 1;
    __syncthreads();
    return !*odd;
}

/* One block for each work. */
__global__ static void votes_of_nearest(const __grid_constant__ works_of<mr_nearest_work> table) {
    __shared__ candidate room[TOP_K_THREADS];
    __shared__ int32_t odd;
    const mr_nearest_work *work = &table.work[blockIdx.x];
    const bool finite = are_finite(work, &odd);
    for (int32_t j = (int32_t)threadIdx.x; j < work->class_count; j += TOP_K_THREADS)
        work->shares[j] = finite ? 0.0f : NAN;
    if (!finite)
        return;
    __syncthreads();
    const int32_t found = count_votes(work, room);
    __syncthreads();
    for (int32_t j = (int32_t)threadIdx.x; j < work->class_count && found; j += TOP_K_THREADS)
        work->shares[j] /= (float)found;
}

int mr_nearest_cuda(const mr_nearest_work *works, int count, void *stream) {
    for (int i = 0; i < count; i += PIECE) {
        int some, slices = 1;
        const auto table = next_works(works + i, count - i, &some);
        for (int k = 0; k < some; k++) {
            const int of_work = (table.work[k].count + MR_NEAREST_SLICE - 1) / MR_NEAREST_SLICE;
            slices = of_work > slices ? of_work : slices;
        }
        MR_LAUNCH(nearest_of_slices, dim3((unsigned)slices, (unsigned)some), TOP_K_THREADS, 0, stream, table);
        MR_LAUNCH(votes_of_nearest, (unsigned)some, TOP_K_THREADS, 0, stream, table);
    }
    return mr_launched("votes of neighbors", cudaSuccess);
}

/* ---- normalising ------------------------------------------------------------------------------------------------- */

/* One block for each vector. Eight threads add up, in the order that every variant keeps. */
__global__ static void normalize(const __grid_constant__ works_of<mr_normalize_work> table) {
    __shared__ float lane[MR_LANES];
    const mr_normalize_work *work = &table.work[blockIdx.x];
    if (threadIdx.x < MR_LANES) {
        float sum = 0.0f;
        for (int32_t i = (int32_t)threadIdx.x; i < work->count; i += MR_LANES)
            sum += work->src[i] * work->src[i];
        lane[threadIdx.x] = sum;
    }
    __syncthreads();
    float own[MR_LANES];
    for (int i = 0; i < MR_LANES; i++)
        own[i] = lane[i];
    float factor = mr_unit_factor(mr_join_lanes(own));
    for (int32_t i = (int32_t)threadIdx.x; i < work->count; i += (int32_t)blockDim.x)
        work->dst[i] = work->src[i] * factor;
}

int mr_normalize_cuda(const mr_normalize_work *works, int count, void *stream) {
    for (int i = 0; i < count; i += PIECE) {
        int some;
        const auto table = next_works(works + i, count - i, &some);
        MR_LAUNCH(normalize, (unsigned)some, NORMALIZE_THREADS, 0, stream, table);
    }
    return mr_launched("vectors of length 1", cudaSuccess);
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

__device__ static void pool_last(const mr_pool_work *work, int32_t channel, float share) {
    float sum = 0.0f;
    for (int32_t p = 0; p < work->positions; p++)
        sum += work->src[(size_t)p * (size_t)work->channels + (size_t)channel];
    work->dst[channel] = sum * share;
}

__device__ static void sum_lane(const mr_pool_work *work, int32_t channel, int32_t lane, float *to) {
    const float *src = work->src + (size_t)channel * (size_t)work->positions;
    float sum = 0.0f;
    for (int32_t p = lane; p < work->positions; p += MR_LANES)
        sum += src[p];
    *to = sum;
}

/* Block x makes POOL_CHANNELS channels in work y, each with eight lanes' threads. */
__global__ static void pool_mean(const __grid_constant__ works_of<mr_pool_work> table) {
    __shared__ float sums[POOL_CHANNELS * MR_LANES];
    const mr_pool_work *work = &table.work[blockIdx.y];
    int32_t thread = (int32_t)threadIdx.x, first = (int32_t)blockIdx.x * POOL_CHANNELS,
            channel = first + thread / MR_LANES;
    float share = 1.0f / (float)work->positions;
    if (work->channels_last) {
        if (thread < POOL_CHANNELS && first + thread < work->channels)
            pool_last(work, first + thread, share);
        return;
    }
    if (channel < work->channels)
        sum_lane(work, channel, thread % MR_LANES, &sums[thread]);
    __syncthreads();
    if (channel < work->channels && thread % MR_LANES == 0)
        work->dst[channel] = mr_join_lanes(&sums[thread]) * share;
}

int mr_pool_mean_cuda(const mr_pool_work *works, int count, void *stream) {
    for (int i = 0; i < count; i += PIECE) {
        int some, channels = 1;
        const auto table = next_works(works + i, count - i, &some);
        for (int k = 0; k < some; k++)
            channels = table.work[k].channels > channels ? table.work[k].channels : channels;
        const dim3 blocks((unsigned)((channels + POOL_CHANNELS - 1) / POOL_CHANNELS), (unsigned)some);
        MR_LAUNCH(pool_mean, blocks, POOL_CHANNELS * MR_LANES, 0, stream, table);
    }
    return mr_launched("means", cudaSuccess);
}

/* ---- linear layers ----------------------------------------------------------------------------------------------- */

__device__ static float bias_of(const mr_linear_work *work, int32_t output) {
    return work->bias && output < work->outputs ? work->bias[(size_t)output * work->bias_stride] : 0.0f;
}

/* A block makes a square of results: its rows are batch items, columns outputs. Inputs come square by square. */
__global__ static void linear(const __grid_constant__ mr_linear_work work) {
    __shared__ float weights[LINEAR_SIDE][LINEAR_SIDE + 1], src[LINEAR_SIDE][LINEAR_SIDE];
    int32_t x = (int32_t)threadIdx.x, y = (int32_t)threadIdx.y, first = (int32_t)blockIdx.x * LINEAR_SIDE;
    int32_t item = (int32_t)blockIdx.y * LINEAR_SIDE + y, output = first + x;
    float sum = bias_of(&work, output);
    for (int32_t at = 0; at < work.inputs; at += LINEAR_SIDE) {
        bool inside = at + x < work.inputs;
        size_t input = (size_t)(at + x);
        weights[y][x] =
            inside && first + y < work.outputs ? work.weights[(size_t)(first + y) * work.weight_stride + input] : 0;
        src[y][x] = inside && item < work.batch ? work.src[(size_t)item * work.src_stride + input] : 0;
        __syncthreads();
        for (int32_t i = 0; i < LINEAR_SIDE; i++)
            sum += weights[x][i] * src[y][i];
        __syncthreads();
    }
    if (item < work.batch && output < work.outputs)
        work.dst[(size_t)item * work.dst_stride + (size_t)output] = sum;
}

static dim3 squares(int outputs, int batch) {
    return dim3((unsigned)((outputs + LINEAR_SIDE - 1) / LINEAR_SIDE),
                (unsigned)((batch + LINEAR_SIDE - 1) / LINEAR_SIDE));
}

int mr_linear_cuda(const mr_linear_work *work, void *stream) {
    MR_LAUNCH(linear, squares(work->outputs, work->batch), dim3(LINEAR_SIDE, LINEAR_SIDE), 0, stream, *work);
    return mr_launched("a product", cudaSuccess);
}

__global__ static void bias(const __grid_constant__ mr_linear_work work) {
    int32_t output = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (output < work.outputs)
        work.dst[(size_t)blockIdx.y * work.dst_stride + (size_t)output] = bias_of(&work, output);
}

int mr_bias_cuda(const mr_linear_work *work, void *stream) {
    const dim3 blocks((unsigned)((work->outputs + BIAS_THREADS - 1) / BIAS_THREADS), (unsigned)work->batch);
    MR_LAUNCH(bias, blocks, BIAS_THREADS, 0, stream, *work);
    return mr_launched("a bias", cudaSuccess);
}
