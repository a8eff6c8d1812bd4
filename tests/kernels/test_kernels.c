/* Vector operations: linear layers on devices, scores and best classes, normalising, pooling. All variants must agree.
 * Expected values are computed here in double precision, or come from NumPy and SciPy if a comment says so. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef MILLRACE_CUDA_HOST
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#endif

#include "engine/device/cuda/cuda.h"
#include "engine/device/probe/gpu.h"
#include "engine/device/sim/sim.h"
#include "kernels/classical/classical_rows.h"
#include "kernels/preprocess/preprocess_rows.h"
#include "kernels/scratch.h"
#include "kernels/vector/cublas.h"
#include "kernels/vector/vector.h"
#include "kernels/vector/vector_cuda.h"
#include "kernels/vector/vector_rows.h"
#include "tests/support/draw.h"
#include "tests/support/on_device.h"
#include "tests/support/suite.h"

/* Runs in another process, since tables are filled only once. This test must come first. */
PLAIN_TEST(a_named_variant_is_in_all_tables) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mr_preprocess_rows preprocess;
        mr_classical_rows classical;
        mr_vector_rows vector;
        mr_preprocess_rows_init(&preprocess, MR_ISA_C);
        mr_classical_rows_init(&classical, MR_ISA_C);
        mr_vector_rows_init(&vector, MR_ISA_C);
        setenv("MILLRACE_KERNELS", "c", 1);
        _exit((mr_preprocess_rows_get()->vertical8 == preprocess.vertical8 ? 0 : 1) +
              (mr_classical_rows_get()->gradients == classical.gradients ? 0 : 2) +
              (mr_vector_rows_get()->sum == vector.sum ? 0 : 4));
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* scipy.special.softmax([1, 3, 2, 3, -1]) and scipy.special.expit, SciPy 1.17. */
PLAIN_TEST(scores_and_best_classes) {
    const float logits[5] = {1, 3, 2, 3, -1};
    int32_t index[5], found = -1;
    float score[5];
    mr_top_k_work work = {.logits = logits, .count = 5, .most = 3, .activation = MR_ACTIVATION_SOFTMAX,
                          .index = index,
                          .score = score, .found = &found};
    mr_top_k(&work);
    assert_int_equal(found, 3);
    assert_int_equal(index[0], 1); /* the first of equal values */
    assert_int_equal(index[1], 3);
    assert_int_equal(index[2], 2);
    assert_float_equal(score[0], 0.3965846, 1e-6);
    assert_float_equal(score[2], 0.1458953, 1e-6);
    work.activation = MR_ACTIVATION_SIGMOID;
    work.threshold = 0.9f;
    work.most = 5;
    mr_top_k(&work);
    assert_int_equal(found, 2);
    assert_float_equal(score[0], 0.9525741, 1e-6);
    work.activation = MR_ACTIVATION_NONE;
    work.threshold = -10;
    mr_top_k(&work);
    assert_int_equal(found, 5);
    assert_float_equal(score[4], -1.0, 0);
    assert_int_equal(index[4], 4);
}

PLAIN_TEST(odd_logits) {
    const float logits[4] = {NAN, 200.0f, INFINITY, -INFINITY};
    int32_t index[4], found = -1;
    float score[4];
    mr_top_k_work work = {.logits = logits, .count = 2, .most = 4, .activation = MR_ACTIVATION_SOFTMAX,
                          .index = index,
                          .score = score, .found = &found};
    for (int activation = 0; activation < 3; activation++) {
        work.activation = (mr_activation)activation;
        for (work.count = 1; work.count <= 4; work.count++) { /* as scipy.special.softmax: all scores are NaN */
            mr_top_k(&work);
            assert_int_equal(found, MR_TOP_K_NOT_FINITE);
        }
    }
    work.logits = logits + 1; /* 200 */
    work.count = 1;
    mr_top_k(&work);
    assert_int_equal(found, 1);
    /* If the largest logit is infinite, expit still gives a score. */
    for (work.count = 2; work.count <= 3; work.count++)
        for (int activation = 0; activation < 3; activation++) {
            work.activation = (mr_activation)activation;
            mr_top_k(&work);
            assert_int_equal(found, activation == MR_ACTIVATION_SIGMOID ? work.count : MR_TOP_K_NOT_FINITE);
        }
    assert_int_equal(index[0], 1);
    assert_float_equal(score[1], 1.0, 0);
    assert_float_equal(score[2], 0.0, 0);
    work.activation = MR_ACTIVATION_SOFTMAX;
    work.logits = logits + 3; /* -inf */
    work.count = 1;
    mr_top_k(&work);
    assert_int_equal(found, MR_TOP_K_NOT_FINITE);
    work.logits = (const float[]){-INFINITY, 1, -INFINITY, 0}; /* excluded classes */
    work.count = 4;
    mr_top_k(&work);
    assert_int_equal(found, 4);
    assert_int_equal(index[0], 1);
    assert_float_equal(score[0], 0.7310586, 1e-6);
    assert_float_equal(score[3], 0.0, 0);
}

static int descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

PLAIN_TEST(best_of_many) {
    float *logits = draw_many(1000), *sorted = malloc(1000 * sizeof *sorted), score[17];
    int32_t index[17], found;
    memcpy(sorted, logits, 1000 * sizeof *sorted);
    qsort(sorted, 1000, sizeof *sorted, descending);
    mr_top_k_work work = {.logits = logits, .count = 1000, .most = 17, .threshold = -2, .index = index,
                          .score = score,
                          .found = &found};
    mr_top_k(&work);
    assert_int_equal(found, 17);
    for (int i = 0; i < 17; i++) {
        assert_true(score[i] == sorted[i]);
        assert_true(logits[index[i]] == sorted[i]);
    }
    free(logits);
    free(sorted);
}

PLAIN_TEST(vectors_of_length_one) {
    float values[3] = {3, 0, 4}, zeros[9] = {0};
    mr_normalize(&(mr_normalize_work){.src = values, .dst = values, .count = 3});
    assert_float_equal(values[0], 0.6, 1e-7);
    assert_float_equal(values[2], 0.8, 1e-7);
    mr_normalize(&(mr_normalize_work){.src = zeros, .dst = zeros, .count = 9});
    assert_float_equal(zeros[8], 0.0, 0);
}

PLAIN_TEST(pooling_both_layouts) {
    enum { CHANNELS = 13, POSITIONS = 49 };
    float *first = draw_many(CHANNELS * POSITIONS), last[CHANNELS * POSITIONS], a[CHANNELS], b[CHANNELS];
    for (int c = 0; c < CHANNELS; c++)
        for (int p = 0; p < POSITIONS; p++)
            last[p * CHANNELS + c] = first[c * POSITIONS + p];
    mr_pool_mean(&(mr_pool_work){.src = first, .dst = a, .channels = CHANNELS, .positions = POSITIONS});
    mr_pool_mean(
        &(mr_pool_work){.src = last, .dst = b, .channels = CHANNELS, .positions = POSITIONS, .channels_last = true});
    for (int c = 0; c < CHANNELS; c++) {
        double sum = 0.0;
        for (int p = 0; p < POSITIONS; p++)
            sum += first[c * POSITIONS + p];
        assert_float_equal(a[c], sum / POSITIONS, 1e-6);
        assert_float_equal(b[c], sum / POSITIONS, 1e-6);
    }
    free(first);
}

PLAIN_TEST(instruction_sets_of_other_processors_are_c) {
    const mr_isa here = mr_isa_detect();
    assert_int_equal(mr_isa_up_to(MR_ISA_C), MR_ISA_C);
    assert_int_equal(mr_isa_up_to(MR_ISA_COUNT), here);
    assert_int_equal(mr_isa_up_to(MR_ISA_NEON), here == MR_ISA_NEON ? MR_ISA_NEON : MR_ISA_C);
    assert_int_equal(mr_isa_up_to(MR_ISA_AVX2), here < MR_ISA_AVX2 ? here : MR_ISA_AVX2);
}

/* Arrays end with the allocation, so that the address sanitizer sees any read past the end. */
PLAIN_TEST(variants_of_sums_are_equal) {
    mr_vector_rows c, best;
    mr_vector_rows_init(&c, MR_ISA_C);
    for (int isa = MR_ISA_C + 1; isa <= (int)mr_isa_detect(); isa++) {
        mr_vector_rows_init(&best, (mr_isa)isa);
        for (int count = 0; count < 70; count++) {
            FREED float *values = draw_many((size_t)count), *others = draw_many((size_t)count);
            double exact = 0.0, product = 0.0;
            for (int i = 0; i < count; i++) {
                exact += values[i];
                product += (double)values[i] * (double)others[i];
            }
            assert_true(best.sum(values, count) == c.sum(values, count));
            assert_true(best.sum_of_squares(values, count) == c.sum_of_squares(values, count));
            assert_true(best.dot(values, others, count) == c.dot(values, others, count));
            assert_float_equal(c.sum(values, count), exact, 1e-5);
            assert_float_equal(c.dot(values, others, count), product, 1e-5);
        }
    }
}

/* The simulated accelerator runs work later, on a copy of the struct. */
PLAIN_TEST(work_on_a_stream) {
    static const float values[4] = {1, 2, 3, 6};
    static float mean;
    mr_sim_params params = {.manual = true};
    ENDED_BY(mr_device_destroy) mr_device *device = NULL;
    ENDED_BY(mr_stream_destroy) mr_stream *stream = NULL;
    assert_int_equal(mr_sim_create(&device, &params), MR_OK);
    assert_int_equal(mr_stream_create(device, &stream), MR_OK);
    mr_pool_work work = {.src = values, .dst = &mean, .channels = 1, .positions = 4};
    assert_int_equal(mr_pool_mean_enqueue(stream, &work, 1), MR_OK);
    memset(&work, 0, sizeof work);
    assert_float_equal(mean, 0.0, 0);
    mr_sim_advance(device, INT64_MAX - 1);
    assert_float_equal(mean, 3.0, 0);
}

/* ---- devices against the C reference ----------------------------------------------------------------------------- */

/* Allocates memory for results on a device, filled with NaN so that unwritten elements show. */
static float *put_poison(on_device *d, size_t count) {
    float *poison = malloc(count * sizeof *poison), *there;
    for (size_t i = 0; i < count; i++)
        poison[i] = NAN;
    there = on_device_put(d, poison, count * sizeof *poison);
    free(poison);
    return there;
}

static float *take(on_device *d, float *there, size_t count) {
    float *here = malloc(count * sizeof *here);
    on_device_take(d, there, here, count * sizeof *here);
    return here;
}

/* Returns the distance in units in the last place. */
static int64_t ulps(float a, float b) {
    int32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return llabs((int64_t)(x < 0 ? INT32_MIN - x : x) - (y < 0 ? INT32_MIN - y : y));
}

static size_t length_of(int i) {
    return (size_t)i * 9 + 1;
}

DEVICE_TEST(vectors_on_a_device) {
    enum { COUNT = 35, MOST = 320 };
    mr_normalize_work works[COUNT];
    float *src[COUNT], *there[COUNT], expected[MOST];
    for (int i = 0; i < COUNT; i++) {
        src[i] = draw_many(length_of(i));
        works[i] = (mr_normalize_work){.src = on_device_put(d, src[i], length_of(i) * sizeof(float)),
                                       .dst = there[i] = put_poison(d, length_of(i) + 1), .count = (int)length_of(i)};
    }
    assert_int_equal(mr_normalize_enqueue(d->stream, works, COUNT), MR_OK);
    on_device_finish(d);
    for (int i = 0; i < COUNT; i++) {
        FREED float *got = take(d, there[i], length_of(i) + 1);
        mr_normalize(&(mr_normalize_work){.src = src[i], .dst = expected, .count = (int)length_of(i)});
        assert_memory_equal(got, expected, length_of(i) * sizeof(float));
        assert_true(isnan(got[length_of(i)]));
        on_device_free(d, (void *)(uintptr_t)works[i].src);
        free(src[i]);
    }
}

DEVICE_TEST(means_on_a_device) {
    enum { COUNT = 34, MOST = 64 };
    mr_pool_work works[COUNT];
    float *src[COUNT], expected[MOST];
    for (int i = 0; i < COUNT; i++) {
        int channels = 1 + i * 7 % 50, positions = 1 + i * 5 % 60;
        size_t count = (size_t)channels * (size_t)positions;
        src[i] = draw_many(count);
        works[i] = (mr_pool_work){.src = on_device_put(d, src[i], count * sizeof(float)),
                                  .dst = put_poison(d, (size_t)channels + 1), .channels = channels,
                                  .positions = positions, .channels_last = i % 3 == 0};
    }
    assert_int_equal(mr_pool_mean_enqueue(d->stream, works, COUNT), MR_OK);
    on_device_finish(d);
    for (int i = 0; i < COUNT; i++) {
        mr_pool_work here = works[i];
        here.src = src[i];
        here.dst = expected;
        mr_pool_mean(&here);
        FREED float *got = take(d, works[i].dst, (size_t)here.channels + 1);
        assert_memory_equal(got, expected, (size_t)here.channels * sizeof(float));
        assert_true(isnan(got[here.channels]));
        on_device_free(d, (void *)(uintptr_t)works[i].src);
        free(src[i]);
    }
}

/* Draws logits with ties, infinities and NaN. */
static float *draw_logits(int count, int kind) {
    float *logits = draw_many((size_t)count);
    for (int i = 0; i < count; i++) {
        logits[i] *= 20.0f;
        if (kind % 2)
            logits[i] = (float)(int)logits[i];
        if (kind % 5 == 4 && i % 7 == 3)
            logits[i] = kind % 4 == 0 ? -INFINITY : kind % 4 == 1 ? NAN : kind % 4 == 2 ? INFINITY : logits[i];
    }
    return logits;
}

static void compare_best(const mr_top_k_work *want, const int32_t *index, const float *score, int32_t found) {
    assert_int_equal(found, *want->found);
    for (int k = 0; k < found; k++) {
        assert_int_equal(index[k], want->index[k]);
        if (ulps(score[k], want->score[k]) > MR_SCORE_ULPS)
            fail_msg("score %d: %.9g instead of %.9g", k, (double)score[k], (double)want->score[k]);
    }
}

DEVICE_TEST(best_classes_on_a_device) {
    enum { COUNT = 40, MOST = 30 };
    mr_top_k_work works[COUNT];
    float *logits[COUNT], score[MOST];
    int32_t index[MOST], found;
    for (int i = 0; i < COUNT; i++) {
        int count = i < 5 ? i : 1 + i * 37;
        logits[i] = draw_logits(count, i);
        works[i] = (mr_top_k_work){.logits = on_device_put(d, logits[i], (size_t)count * sizeof(float)),
                                   .count = count, .most = i % MOST, .activation = (mr_activation)(i % 3),
                                   .threshold = i % 4 ? -30.0f : 0.02f, .score = put_poison(d, MOST),
                                   .index = (int32_t *)put_poison(d, MOST), .found = (int32_t *)put_poison(d, 1)};
    }
    assert_int_equal(mr_top_k_enqueue(d->stream, works, COUNT), MR_OK);
    on_device_finish(d);
    for (int i = 0; i < COUNT; i++) {
        mr_top_k_work want = works[i];
        want.logits = logits[i];
        want.index = index;
        want.score = score;
        want.found = &found;
        mr_top_k(&want);
        int32_t *got = (int32_t *)take(d, (float *)works[i].index, MOST),
                *number = (int32_t *)take(d, (float *)works[i].found, 1);
        float *scores = take(d, works[i].score, MOST);
        compare_best(&want, got, scores, *number);
        on_device_free(d, (void *)(uintptr_t)works[i].logits);
        free(got);
        free(number);
        free(scores);
        free(logits[i]);
    }
}

/* Relu in networks maps -infinity to 0; ours gives NaN. A vector that is not finite must stay without classes. */
PLAIN_TEST(rectified_units_hide_nothing) {
    const float gate[] = {NAN, -INFINITY, INFINITY, -1, -0.0f, 0, 2}, src[] = {1, 2, 3, 4, 5, 6, NAN};
    float got[7];
    mr_rectify_work work = {.gate = gate, .src = gate, .dst = got, .count = 7};
    mr_rectify(&work);
    const float units[] = {NAN, NAN, INFINITY, 0, 0, 0, 2};
    for (int i = 0; i < 7; i++)
        assert_true(isnan(units[i]) ? isnan(got[i]) != 0 : got[i] == units[i]);
    work.src = src;
    mr_rectify(&work);
    const float derivative[] = {NAN, NAN, 3, 0, 0, 0, NAN};
    for (int i = 0; i < 7; i++)
        assert_true(isnan(derivative[i]) ? isnan(got[i]) != 0 : got[i] == derivative[i]);
}

DEVICE_TEST(rectified_units_on_a_device) {
    enum { COUNT = 35 };
    mr_rectify_work works[COUNT];
    float *gate[COUNT], *src[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const size_t count = i == 34 ? 40000 : (size_t)i * 29;
        gate[i] = draw_logits((int)count + 1, i);
        src[i] = i % 2 ? gate[i] : draw_many(count + 1);
        float *kept = on_device_put(d, gate[i], (count + 1) * sizeof(float));
        works[i] = (mr_rectify_work){.gate = kept, .src = kept, .dst = put_poison(d, count + 1), .count = count};
        if (src[i] != gate[i])
            works[i].src = on_device_put(d, src[i], (count + 1) * sizeof(float));
    }
    assert_int_equal(mr_rectify_enqueue(d->stream, works, COUNT), MR_OK);
    on_device_finish(d);
    for (int i = 0; i < COUNT; i++) {
        FREED float *got = take(d, works[i].dst, works[i].count + 1);
        for (size_t k = 0; k < works[i].count; k++)
            if (isnan(gate[i][k]) || gate[i][k] == -INFINITY)
                assert_true(isnan(got[k]));
            else if (isnan(src[i][k]))
                assert_true(isnan(got[k]) == (gate[i][k] > 0));
            else
                assert_true(got[k] == (gate[i][k] > 0 ? src[i][k] : 0.0f));
        assert_true(isnan(got[works[i].count]));
        if (works[i].src != works[i].gate) {
            on_device_free(d, (void *)(uintptr_t)works[i].src);
            free(src[i]);
        }
        on_device_free(d, (void *)(uintptr_t)works[i].gate);
        free(gate[i]);
    }
}

/* The shares by definition: a value votes if fewer than `most` values are better. */
static void count_shares(const float *near, const int32_t *classes, int count, int most, double *shares) {
    int votes = 0;
    for (int i = 0; i < count; i++) {
        int better = 0;
        for (int j = 0; j < count; j++)
            better += near[j] > near[i] || (near[j] == near[i] && j < i);
        if (!isfinite(near[i]))
            shares[0] = NAN;
        if (better >= most)
            continue;
        shares[classes[i]] += 1;
        votes++;
    }
    for (int c = 0; c < 5; c++)
        shares[c] = isnan(shares[0]) ? NAN : shares[c] / votes;
}

static void check_nearest_on(on_device *d, int count, int most, int kind) {
    enum { TOGETHER = 3, CLASSES = 5 };
    const size_t bytes = (size_t)count * sizeof(float);
    mr_nearest_work works[TOGETHER];
    float *near[TOGETHER];
    FREED int32_t *classes = malloc(bytes);
    for (int i = 0; i < count; i++)
        classes[i] = i * 7 % CLASSES;
    int32_t *classes_there = on_device_put(d, classes, bytes);
    for (int i = 0; i < TOGETHER; i++) {
        near[i] = draw_logits(count, kind + i);
        works[i] = (mr_nearest_work){.near = on_device_put(d, near[i], bytes), .classes = classes_there,
                                     .shares = put_poison(d, CLASSES + 1), .count = count, .most = most,
                                     .scratch = put_poison(d, mr_nearest_scratch((size_t)count, (size_t)most)),
                                     .class_count = CLASSES};
    }
    assert_int_equal(mr_nearest_enqueue(d->stream, works, TOGETHER), MR_OK);
    on_device_finish(d);
    for (int i = 0; i < TOGETHER; i++) {
        double wanted[CLASSES] = {0};
        FREED float *got = take(d, works[i].shares, CLASSES + 1);
        count_shares(near[i], classes, count, most, wanted);
        for (int c = 0; c < CLASSES; c++)
            assert_true(isnan(wanted[c]) ? isnan(got[c]) : got[c] == (float)wanted[c]);
        assert_true(isnan(got[CLASSES]));
        on_device_free(d, (void *)(uintptr_t)works[i].near);
        on_device_free(d, works[i].scratch);
        free(near[i]);
    }
    on_device_free(d, classes_there);
}

/* One slice, or several with a short last one. There are as many votes as values; values tie, or are infinite or
 * NaN. */
DEVICE_TEST(votes_of_the_nearest_on_a_device) {
    for (int kind = 0; kind < 5; kind++) {
        check_nearest_on(d, 1, 1, kind);
        check_nearest_on(d, 37, 5, kind);
        check_nearest_on(d, 60, 60, kind);
    }
    check_nearest_on(d, MR_NEAREST_SLICE + 300, 9, 4);
}

/* Launches the kernel for machines without cuBLAS. */
static int launch_plain(on_device *d, const mr_linear_work *work) {
    void *handle = NULL;
    int status = mr_cuda_enter(d->stream, &handle);
    return status ? status : mr_linear_cuda(work, handle);
}

/* Sums `inputs` products within -1..1, in another order. Repeats the work and checks the last result. */
static void repeat_linear_on(on_device *d, int outputs, int inputs, int batch, bool has_bias, bool plain, int times) {
    size_t row = (size_t)inputs + 1, src_row = (size_t)inputs + 3, dst_row = (size_t)outputs + 2;
    FREED float *weights = draw_many((size_t)outputs * row), *src = draw_many((size_t)batch * src_row);
    FREED float *expected = malloc((size_t)batch * dst_row * sizeof *expected);
    mr_linear_work here = {.weights = weights, .bias = has_bias ? weights + inputs : NULL, .weight_stride = row,
                           .bias_stride = row, .outputs = outputs, .inputs = inputs, .batch = batch, .src = src,
                           .src_stride = src_row, .dst = expected, .dst_stride = dst_row};
    mr_linear_work there = here;
    float *weights_there = on_device_put(d, weights, (size_t)outputs * row * sizeof(float));
    there.weights = weights_there;
    there.bias = has_bias ? weights_there + inputs : NULL;
    there.src = on_device_put(d, src, (size_t)batch * src_row * sizeof(float));
    there.dst = put_poison(d, (size_t)batch * dst_row);
    mr_linear(&here);
    for (int i = 0; i < times; i++) {
        assert_int_equal(plain ? launch_plain(d, &there) : mr_linear_enqueue(d->stream, &there), MR_OK);
        on_device_finish(d);
    }
    FREED float *got = take(d, there.dst, (size_t)batch * dst_row);
    for (size_t n = 0; n < (size_t)batch; n++) {
        for (size_t o = 0; o < (size_t)outputs; o++)
            assert_true(fabsf(got[n * dst_row + o] - expected[n * dst_row + o]) < 1e-6f * (float)(inputs + 4));
        assert_true(isnan(got[n * dst_row + (size_t)outputs]));
    }
    on_device_free(d, weights_there);
    on_device_free(d, (void *)(uintptr_t)there.src);
}

static void check_linear_on(on_device *d, int outputs, int inputs, int batch, bool has_bias, bool plain) {
    repeat_linear_on(d, outputs, inputs, batch, has_bias, plain, 1);
}

/* Repeated work is recorded as a CUDA graph. cuBLAS's kernels allow this if they use our workspace. */
CUDA_TEST(products_are_recorded) {
    enum { TIMES = 6 };
    print_message(mr_cublas_found() ? "with cuBLAS\n" : "without cuBLAS\n");
    repeat_linear_on(d, 33, 64, 20, true, false, TIMES);
    repeat_linear_on(d, 1000, 1280, 8, true, false, TIMES);
    mr_cuda_graph_counts counts = mr_cuda_graph_count(d->stream);
    assert_int_equal(counts.refused, 0);
    assert_int_equal(counts.recorded, 2);
    assert_int_equal(counts.launched, 2 * (TIMES - 1));
}

DEVICE_TEST(linear_layers_on_a_device) {
    for (int plain = 0; plain <= (int)mr_stream_is_cuda(d->stream); plain++) {
        check_linear_on(d, 1, 1, 1, true, plain);
        check_linear_on(d, 10, 37, 1, false, plain);
        check_linear_on(d, 17, 129, 5, true, plain);
        check_linear_on(d, 33, 64, 20, true, plain);
    }
}

#ifdef MILLRACE_CUDA_HOST
/* The workspace must have the size that NVIDIA advises, on each card that the build has kernels for. At least one
 * always runs. */
TEST(cublas_works_in_as_much_as_the_device_should_have) {
    static const int capabilities[] = {0, 75, 89, 90, 100};
    const int *compiled = mr_gpu_architectures();
    void *library = dlopen(getenv("MILLRACE_CUBLAS"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    size_t (*workspace)(void) = NULL;
    *(void **)&workspace = dlsym(library, "cublas_host_workspace");
    assert_non_null(workspace);
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++) {
        ENDED_BY(on_device_close) on_device d = {0};
        if (capabilities[i] && compiled[0] && !mr_gpu_has_code(compiled, capabilities[i]))
            continue;
        mr_host_be(capabilities[i], CUDART_VERSION);
        assert_true(on_device_open(&d, "cuda:0"));
        int capability = mr_cuda_about(d.device).capability;
        assert_true(capability == capabilities[i] || (!capabilities[i] && capability));
        check_linear_on(&d, 10, 37, 1, false, false);
        assert_int_equal(workspace(), capability < 90 ? 4 << 20 : 32 << 20);
    }
    mr_host_be(0, CUDART_VERSION);
    dlclose(library);
}
#endif

PLAIN_TEST(scratch_grows_and_is_kept) {
    void *small = mr_scratch(100);
    assert_non_null(small);
    assert_int_equal((uintptr_t)small % 64, 0);
    assert_ptr_equal(mr_scratch(50), small);
    uint8_t *large = mr_scratch(1 << 20);
    assert_non_null(large);
    memset(large, 1, 1 << 20);
    assert_ptr_equal(mr_scratch(1 << 20), large);
}

int main(void) {
#ifdef MILLRACE_CUDA_HOST
    setenv("MILLRACE_CUBLAS", BINARY_DIR "/libcublas_host.so", 1);
#endif
    return run_suite(NULL, NULL);
}
