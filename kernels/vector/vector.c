#include "kernels/vector/vector.h"

#include <cblas.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/vector/lanes.h"
#include "kernels/vector/vector_rows.h"

/* Outputs whose weights should stay in cache while all items use them. It must be a multiple of the rows that BLAS
 * takes at a time, so that each sum is made as in the whole product. */
enum { BLOCK = 48 };

static void multiply_alone(const mr_linear_work *work, float keep) {
    for (int first = 0; first < work->outputs; first += BLOCK) {
        const int count = work->outputs - first < BLOCK ? work->outputs - first : BLOCK;
        const float *weights = work->weights + (size_t)first * work->weight_stride;
        for (int n = 0; n < work->batch; n++)
            cblas_sgemv(CblasRowMajor, CblasNoTrans, count, work->inputs, 1.0f, weights, (f77_int)work->weight_stride,
                        work->src + (size_t)n * work->src_stride, 1, keep,
                        work->dst + (size_t)n * work->dst_stride + first, 1);
    }
}

void mr_linear(const mr_linear_work *work) {
    float keep = work->bias ? 1.0f : 0.0f;
    if (work->bias)
        for (int n = 0; n < work->batch; n++)
            for (int o = 0; o < work->outputs; o++)
                work->dst[(size_t)n * work->dst_stride + (size_t)o] = work->bias[(size_t)o * work->bias_stride];
    if (work->batch == 1)
        cblas_sgemv(CblasRowMajor, CblasNoTrans, work->outputs, work->inputs, 1.0f, work->weights,
                    (f77_int)work->weight_stride, work->src, 1, keep, work->dst, 1);
    else if (work->alone)
        multiply_alone(work, keep);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, work->batch, work->outputs, work->inputs, 1.0f,
                    work->src, (f77_int)work->src_stride, work->weights, (f77_int)work->weight_stride, keep, work->dst,
                    (f77_int)work->dst_stride);
}

/* Inserts into a sorted list; equal logits must keep their order. */
static int insert(const mr_top_k_work *work, int found, int index, float logit) {
    int at = found < work->most ? found++ : found - 1;
    for (; at > 0 && work->score[at - 1] < logit; at--) {
        work->score[at] = work->score[at - 1];
        work->index[at] = work->index[at - 1];
    }
    work->score[at] = logit;
    work->index[at] = index;
    return found;
}

static int select_best(const mr_top_k_work *work) {
    int found = 0;
    for (int i = 0; i < work->count; i++) {
        float logit = work->logits[i];
        if (found == work->most && !(logit > work->score[found - 1]))
            continue;
        found = insert(work, found, i, logit);
    }
    return found;
}

static double sum_of_exponentials(const float *logits, int count, float largest) {
    double sum = 0.0;
    for (int i = 0; i < count; i++)
        sum += logits[i] == largest ? 1.0 : (double)expf(logits[i] - largest);
    return sum;
}

static bool are_scores(const mr_top_k_work *work) {
    float largest = -INFINITY;
    bool numbers = true;
    for (int i = 0; i < work->count; i++) {
        numbers &= work->logits[i] == work->logits[i];
        largest = work->logits[i] > largest ? work->logits[i] : largest;
    }
    const bool scored = isfinite(largest) || work->activation == MR_ACTIVATION_SIGMOID;
    return numbers && (scored || work->count <= 0 || work->most <= 0);
}

void mr_top_k(const mr_top_k_work *work) {
    if (!are_scores(work)) {
        *work->found = MR_TOP_K_NOT_FINITE;
        return;
    }
    int found = work->most > 0 ? select_best(work) : 0, kept = 0;
    if (found > 0 && work->activation == MR_ACTIVATION_SOFTMAX) {
        float largest = work->score[0];
        double sum = sum_of_exponentials(work->logits, work->count, largest);
        for (int i = 0; i < found; i++)
            work->score[i] = work->score[i] == largest ? (float)(1.0 / sum)
                                                       : (float)((double)expf(work->score[i] - largest) / sum);
    } else if (work->activation == MR_ACTIVATION_SIGMOID) {
        for (int i = 0; i < found; i++)
            work->score[i] = (float)(1.0 / (1.0 + exp(-(double)work->score[i])));
    }
    while (kept < found && work->score[kept] >= work->threshold)
        kept++;
    *work->found = kept;
}

void mr_rectify(const mr_rectify_work *work) {
    for (size_t i = 0; i < work->count; i++)
        work->dst[i] = work->gate[i] > 0.0f ? work->src[i] : isfinite(work->gate[i]) ? 0.0f : NAN;
}

static bool are_finite(const float *values, int count) {
    bool finite = true;
    for (int i = 0; i < count; i++)
        finite &= isfinite(values[i]) != 0;
    return finite;
}

void mr_nearest(const mr_nearest_work *work) {
    int32_t *index = (int32_t *)(void *)(work->scratch + work->most), found = 0;
    if (!are_finite(work->near, work->count)) {
        for (int j = 0; j < work->class_count; j++)
            work->shares[j] = NAN;
        return;
    }
    mr_top_k(&(mr_top_k_work){.logits = work->near, .count = work->count, .most = work->most,
                              .activation = MR_ACTIVATION_NONE, .threshold = -INFINITY, .index = index,
                              .score = work->scratch, .found = &found});
    memset(work->shares, 0, (size_t)work->class_count * sizeof *work->shares);
    for (int32_t i = 0; i < found; i++)
        work->shares[work->classes[index[i]]] += 1.0f;
    for (int j = 0; j < work->class_count && found; j++)
        work->shares[j] /= (float)found;
}

void mr_normalize(const mr_normalize_work *work) {
    float factor = mr_unit_factor(mr_vector_rows_get()->sum_of_squares(work->src, work->count));
    for (int i = 0; i < work->count; i++)
        work->dst[i] = work->src[i] * factor;
}

float mr_dot(const float *a, const float *b, int count) {
    return mr_vector_rows_get()->dot(a, b, count);
}

void mr_pool_mean(const mr_pool_work *work) {
    const mr_vector_rows *rows = mr_vector_rows_get();
    float share = 1.0f / (float)work->positions;
    if (!work->channels_last) {
        for (int c = 0; c < work->channels; c++)
            work->dst[c] = rows->sum(work->src + (size_t)c * (size_t)work->positions, work->positions) * share;
        return;
    }
    memset(work->dst, 0, (size_t)work->channels * sizeof(float));
    for (int p = 0; p < work->positions; p++)
        for (int c = 0; c < work->channels; c++)
            work->dst[c] += work->src[(size_t)p * (size_t)work->channels + (size_t)c];
    for (int c = 0; c < work->channels; c++)
        work->dst[c] *= share;
}
