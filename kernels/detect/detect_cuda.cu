/* Detection heads in CUDA: candidates are collected by all blocks; one block sorts them and suppresses; then each kept
 * object gets its key points or its mask. */
#include "kernels/detect/detect_cuda.h"

#include "kernels/detect/box_numbers.h"
#include "kernels/detect/box_read.h"
#include "kernels/launch.h"

enum { COLLECT_THREADS = 256, COLLECT_BLOCKS = 256, FINISH_THREADS = 256, NUMBER_THREADS = 128, NUMBER_BLOCKS = 512 };

/* Scratch memory: counters, the candidates' keys, and the boxes that were kept. */
struct room {
    uint32_t *count, *odd, *nan; /* odd, nan: 1 if a box above the score is not finite, and if a score is NaN */
    uint64_t *key;
    mr_box *kept;
};

__host__ __device__ static int64_t columns_of(const mr_box_head *head) {
    return head->classes ? head->classes : 1;
}

__host__ __device__ static room room_in(const mr_box_head *head, void *scratch) {
    uint8_t *at = (uint8_t *)scratch;
    uint64_t *key = (uint64_t *)(void *)(at + MR_DETECT_CUDA_COUNTERS);
    uint32_t *counter = (uint32_t *)scratch;
    return {counter, counter + 1, counter + 2, key, (mr_box *)(void *)(key + head->rows * columns_of(head) + 1)};
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

/* Keys sort as candidates do: higher score, then lower row, then lower class. */
__device__ static uint64_t key_of(float score, uint32_t place) {
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    const uint32_t rising = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (uint64_t)~rising << 32 | place;
}

__device__ static mr_box box_of(const mr_detect_cuda_work *work, uint64_t key) {
    const int64_t columns = columns_of(&work->head), place = (int64_t)(uint32_t)key;
    const uint32_t rising = ~(uint32_t)(key >> 32), bits = rising & 0x80000000u ? rising ^ 0x80000000u : ~rising;
    mr_box box;
    memcpy(&box.score, &bits, sizeof bits);
    box.row = (int32_t)(place / columns);
    box.class_index = work->head.classes ? (int32_t)(place % columns) : mr_box_class(&work->head, work->data, box.row);
    mr_box_read(&work->head, work->data, box.row, &box);
    return box;
}

__device__ static bool is_wanted(const mr_detect_cuda_work *work, int32_t index) {
    if (index < 0 || !work->filtered)
        return index >= 0;
    return index < MR_DETECT_CUDA_CLASSES && work->wanted[index / 32] >> index % 32 & 1;
}

__device__ static void consider(const mr_detect_cuda_work *work, const room *to, int64_t row, int64_t column) {
    const float score = mr_box_score(&work->head, work->data, work->limit, row, column);
    mr_box box;
    if (mr_box_score_is_nan(&work->head, work->data, row, column))
        *to->nan = 1; /* All writers write the same value. */
    if (!(score > work->score))
        return;
    const int32_t index = work->head.classes ? (int32_t)column : mr_box_class(&work->head, work->data, row);
    if (!is_wanted(work, index))
        return;
    mr_box_read(&work->head, work->data, row, &box);
    box.score = score;
    if (!mr_box_is_finite(&box))
        *to->odd = 1;
    else
        to->key[atomicAdd(to->count, 1u)] = key_of(score, (uint32_t)(row * columns_of(&work->head) + column));
}

/* Neighbouring threads read neighbouring scores. */
__global__ static void collect(const __grid_constant__ mr_detect_cuda_work work, void *scratch) {
    const room to = room_in(&work.head, scratch);
    const int64_t columns = columns_of(&work.head), rows = work.head.rows, step = (int64_t)gridDim.x * COLLECT_THREADS;
    const bool by_column = work.head.scores.row == 1;
    for (int64_t i = (int64_t)blockIdx.x * COLLECT_THREADS + threadIdx.x; i < rows * columns; i += step) {
        if (by_column)
            consider(&work, &to, i % rows, i / rows);
        else
            consider(&work, &to, i / columns, i % columns);
    }
}

/* ---- the best ---------------------------------------------------------------------------------------------------- */

/* Batcher's bitonic sort of any count: comparisons with places beyond the end change nothing, because every network is
 * taken in the order in which the lower place gets the lower key. */
__device__ static void sort(uint64_t *key, uint32_t count) {
    for (uint32_t size = 2; size < 2 * count; size *= 2)
        for (uint32_t half = size / 2; half > 0; half /= 2) {
            const bool first = half == size / 2;
            for (uint32_t i = threadIdx.x; i < count; i += FINISH_THREADS) {
                const uint32_t other = first ? i ^ (size - 1) : i ^ half;
                if (other > i && other < count && key[other] < key[i]) {
                    const uint64_t lower = key[other];
                    key[other] = key[i];
                    key[i] = lower;
                }
            }
            __syncthreads();
        }
}

/* Finds the key with `wanted` - 1 keys below it, digit by digit from the highest; keys are all different. */
__device__ static uint64_t key_at(const uint64_t *key, uint32_t count, uint32_t wanted) {
    __shared__ uint32_t with[256];
    __shared__ uint64_t found;
    __shared__ uint32_t left;
    if (threadIdx.x == 0) {
        found = 0;
        left = wanted;
    }
    for (int32_t shift = 56; shift >= 0; shift -= 8) {
        with[threadIdx.x] = 0;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < count; i += FINISH_THREADS)
            if (shift == 56 || key[i] >> (shift + 8) == found >> (shift + 8))
                atomicAdd(&with[key[i] >> shift & 255], 1u);
        __syncthreads();
        if (threadIdx.x == 0) {
            uint32_t digit = 0;
            while (with[digit] < left)
                left -= with[digit++];
            found |= (uint64_t)digit << shift;
        }
        __syncthreads();
    }
    return found;
}

/* Moves the best `wanted` keys to the front, in any order. `spare` has room for as many. */
__device__ static void select_best(uint64_t *key, uint32_t count, uint32_t wanted, uint64_t *spare) {
    __shared__ uint32_t moved;
    const uint64_t last = key_at(key, count, wanted);
    if (threadIdx.x == 0)
        moved = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += FINISH_THREADS)
        if (key[i] <= last)
            spare[atomicAdd(&moved, 1u)] = key[i];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < wanted; i += FINISH_THREADS)
        key[i] = spare[i];
    __syncthreads();
}

/* What the finishing block knows. */
struct progress {
    mr_box next;
    int32_t kept, inside;
    bool blocked;
};

/* Adds the next candidate if it overlaps none that was kept. */
__device__ static void try_next(const mr_detect_cuda_work *work, const room *from, uint64_t key, progress *shared) {
    if (threadIdx.x == 0) {
        shared->next = box_of(work, key);
        shared->blocked = false;
    }
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < shared->kept && !isinf(work->overlap); i += FINISH_THREADS)
        if ((work->head.agnostic || from->kept[i].class_index == shared->next.class_index) &&
            mr_box_any_overlaps(&from->kept[i], &shared->next, work->overlap))
            shared->blocked = true; /* All writers write the same value. */
    __syncthreads();
    if (threadIdx.x == 0 && !shared->blocked) {
        from->kept[shared->kept++] = shared->next;
        shared->inside += mr_box_any_is_inside(&shared->next, work->head.width, work->head.height);
    }
    __syncthreads();
}

__device__ static void publish(const mr_detect_cuda_work *work, const room *from, const progress *shared, bool more) {
    mr_found *found = work->found;
    found->count = 0;
    found->cut = more || shared->inside > work->most;
    found->odd = *from->odd || (!*from->count && *from->nan);
    for (int32_t i = 0; i < shared->kept && found->count < work->most; i++)
        if (mr_box_any_is_inside(&from->kept[i], work->head.width, work->head.height))
            found->item[found->count++] = from->kept[i];
}

__global__ static void finish(const __grid_constant__ mr_detect_cuda_work work, void *scratch) {
    __shared__ progress shared;
    const room from = room_in(&work.head, scratch);
    const uint32_t count = *from.count;
    const uint32_t limit = (uint32_t)mr_detect_compared(work.most), compared = count < limit ? count : limit;
    if (count > limit)
        select_best(from.key, count, limit, (uint64_t *)(void *)from.kept);
    sort(from.key, compared);
    if (threadIdx.x == 0)
        shared.kept = shared.inside = 0;
    __syncthreads();
    for (uint32_t i = 0; i < compared && shared.inside <= work.most; i++)
        try_next(&work, &from, from.key[i], &shared);
    if (threadIdx.x == 0)
        publish(&work, &from, &shared, count > limit);
}

/* ---- corners, key points and masks ------------------------------------------------------------------------------- */

__device__ static float logit_at(const mr_detect_cuda_work *work, const mr_box *box, int32_t column, int32_t row) {
    const mr_box_head *head = &work->head;
    const int64_t plane = (int64_t)head->mask_width * head->mask_height;
    const float *from = (const float *)work->data[head->prototypes] + (int64_t)row * head->mask_width + column;
    float sum = 0;
    for (int32_t i = 0; i < head->coefficients; i++)
        sum += mr_box_number(work->data, &head->coefficient, box->row, i) * from[i * plane];
    return sum;
}

/* 32 cells of a mask. */
__device__ static uint32_t mask_word(const mr_detect_cuda_work *work, const mr_box *box, const mr_mask_region *r,
                                     int32_t wide, int32_t tall, int32_t first) {
    uint32_t word = 0;
    for (int32_t bit = 0; bit < 32 && first + bit < wide * tall; bit++) {
        const mr_mask_sample at = mr_mask_sample_at(r, (first + bit) % wide, (first + bit) / wide, wide, tall);
        const int32_t left = r->first_column + at.left, right = r->first_column + at.right;
        const int32_t upper = r->first_row + at.top, lower = r->first_row + at.below;
        if (mr_mask_between(&at, logit_at(work, box, left, upper), logit_at(work, box, right, upper),
                            logit_at(work, box, left, lower), logit_at(work, box, right, lower)) > 0)
            word |= 1u << bit;
    }
    return word;
}

__device__ static void make_mask(const mr_detect_cuda_work *work, const mr_box *box, mr_box_mask *mask) {
    const mr_mask_region r = mr_mask_region_of(&work->head, box);
    const int32_t wide = mr_mask_cells(r.left, r.right, work->head.mask_width);
    const int32_t tall = mr_mask_cells(r.top, r.bottom, work->head.mask_height);
    if (threadIdx.x == 0) {
        mask->width = wide;
        mask->height = tall;
    }
    for (int32_t word = (int32_t)threadIdx.x; word * 32 < wide * tall; word += NUMBER_THREADS)
        mask->bits[word] = mask_word(work, box, &r, wide, tall, 32 * word);
}

/* A block makes the numbers of an object. */
__global__ static void add_numbers(const __grid_constant__ mr_detect_cuda_work work) {
    for (int32_t i = (int32_t)blockIdx.x; i < work.found->count; i += (int32_t)gridDim.x) {
        const mr_box *box = &work.found->item[i];
        float *to = mr_found_numbers(work.found, &work.head, (size_t)work.most, i);
        if (work.head.kind == MR_BOX_MASK)
            make_mask(&work, box, (mr_box_mask *)(void *)to);
        if (work.head.kind == MR_BOX_CORNERS && threadIdx.x == 0)
            mr_box_corner_numbers(box, to);
        for (int32_t k = (int32_t)threadIdx.x; k < work.head.points; k += NUMBER_THREADS)
            mr_box_point(&work.head, work.data, box, k, to + 3 * k);
    }
}

/* ------------------------------------------------------------------------------------------------------------------ */

int mr_detect_cuda(const mr_detect_cuda_work *work, void *scratch, void *stream) {
    const int64_t all = work->head.rows * columns_of(&work->head);
    const int64_t blocks = (all + COLLECT_THREADS - 1) / COLLECT_THREADS;
    const cudaError_t cleared = cudaMemsetAsync(scratch, 0, MR_DETECT_CUDA_COUNTERS, (cudaStream_t)stream);
    MR_LAUNCH(collect, (unsigned)(blocks < COLLECT_BLOCKS ? blocks : (int64_t)COLLECT_BLOCKS), COLLECT_THREADS, 0,
              stream, *work, scratch);
    MR_LAUNCH(finish, 1, FINISH_THREADS, 0, stream, *work, scratch);
    if (work->head.numbers)
        MR_LAUNCH(add_numbers, (unsigned)(work->most < NUMBER_BLOCKS ? work->most : (int32_t)NUMBER_BLOCKS),
                  NUMBER_THREADS, 0, stream, *work);
    return mr_launched("a detector's head", cleared);
}
