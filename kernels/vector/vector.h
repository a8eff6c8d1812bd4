/* Arithmetic on float vectors: linear layers and what comes between them, scores and best classes, neighbour votes,
 * normalising, pooling.
 *
 * Each operation is a pure function on the calling thread and, with _enqueue, work on a stream: `count` pieces, which a
 * CUDA device does in one launch. The structs passed to _enqueue are copied; memory they point to must stay valid until
 * the work is done, and the stream's device must be able to read and write it. Structs must have no gaps, since calls
 * that are equal byte by byte can be launched as a CUDA graph (engine/device/cuda/cuda.h). The caller owns all memory.
 * Arrays are dense unless a stride, in floats, is given. Any thread; _enqueue returns the stream's errors. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct mr_stream mr_stream; /* as in millrace/stage.h, which C++ cannot include */

/* dst[n][o] = bias[o] + sum over i of weights[o][i] * src[n][i], for `batch` items n. Uses BLAS on one thread: an
 * item's sums can differ in the last bits with the batch size. On processors, `alone` prevents that: the sums are those
 * for a batch of one, but need less time than separate calls. `bias` can be NULL; with `bias_stride` it can be the
 * weights' last column (weights are classes x (features + 1), both strides are features + 1). */
typedef struct mr_linear_work {
    const float *weights, *bias;
    size_t weight_stride, bias_stride;
    int outputs, inputs, batch, alone;
    const float *src;
    size_t src_stride;
    float *dst;
    size_t dst_stride;
} mr_linear_work;
void mr_linear(const mr_linear_work *work);
int mr_linear_enqueue(mr_stream *stream, const mr_linear_work *work);

/* Turns logits into scores. NONE: the scores are the logits. SOFTMAX: exp(x - max) / the sum over all classes. SIGMOID:
 * 1 / (1 + exp(-x)), for each class separately. */
typedef enum mr_activation { MR_ACTIVATION_NONE, MR_ACTIVATION_SOFTMAX, MR_ACTIVATION_SIGMOID } mr_activation;

/* The best `most` of `count` classes, best first; equal scores are ordered by index. Classes with a score below
 * `threshold` are left out. *found is how many; index and score must have room for `most`.
 *
 * *found is MR_TOP_K_NOT_FINITE if any logit is NaN, since no score is then a number. Except with SIGMOID, an infinite
 * largest logit has the same effect: softmax cannot give a number, and the logit is no score. */
enum { MR_TOP_K_NOT_FINITE = -1 };
typedef struct mr_top_k_work {
    const float *logits;
    int count, most;
    mr_activation activation;
    float threshold;
    int32_t *index;
    float *score;
    int32_t *found;
} mr_top_k_work;
void mr_top_k(const mr_top_k_work *work);
int mr_top_k_enqueue(mr_stream *stream, const mr_top_k_work *works, int count);

/* dst[i] = src[i] where gate[i] > 0, NaN where that is not a number or -infinity, else 0. With gate and src the same it
 * is a rectified unit, max(0, x), which does not hide input that was not finite; with the unit's output as the gate,
 * its derivative. Can be in place, on either. */
typedef struct mr_rectify_work {
    const float *gate, *src;
    float *dst;
    size_t count;
} mr_rectify_work;
void mr_rectify(const mr_rectify_work *work);
int mr_rectify_enqueue(mr_stream *stream, const mr_rectify_work *works, int count);

/* shares[c] = the fraction of the `most` largest among `count` values that belongs to class c; classes[i] is value i's
 * class. Among equal values lower indices win. If one value is not finite all shares are not a number. 1 <= most <=
 * count. `scratch`: room for mr_nearest_scratch(count, most) floats. */
typedef struct mr_nearest_work {
    const float *near;
    const int32_t *classes;
    float *shares, *scratch;
    int count, most, class_count, filler;
} mr_nearest_work;
enum { MR_NEAREST_SLICE = 4096 }; /* values that one GPU block looks at */
static inline size_t mr_nearest_scratch(size_t count, size_t most) {
    const size_t slices = (count + MR_NEAREST_SLICE - 1) / MR_NEAREST_SLICE;
    return 2 * slices * (most < MR_NEAREST_SLICE ? most : (size_t)MR_NEAREST_SLICE);
}
void mr_nearest(const mr_nearest_work *work);
int mr_nearest_enqueue(mr_stream *stream, const mr_nearest_work *works, int count);

/* dst = src / max(|src|, 1e-12), where |src| is the root of the squares' sum, as torch.nn.functional.normalize. Can be
 * in place. */
typedef struct mr_normalize_work {
    const float *src;
    float *dst;
    int count, filler;
} mr_normalize_work;
void mr_normalize(const mr_normalize_work *work);
int mr_normalize_enqueue(mr_stream *stream, const mr_normalize_work *works, int count);

/* The sum of a[i] * b[i], in the order of lanes.h. For vectors on the host. */
float mr_dot(const float *a, const float *b, int count);

/* dst[c] = mean over all positions of channel c. src is channels x positions, or, with channels_last, positions x
 * channels. */
typedef struct mr_pool_work {
    const float *src;
    float *dst;
    int channels, positions;
    int channels_last, filler; /* channels_last: 0 or 1 */
} mr_pool_work;
void mr_pool_mean(const mr_pool_work *work);
int mr_pool_mean_enqueue(mr_stream *stream, const mr_pool_work *works, int count);
