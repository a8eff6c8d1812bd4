/* Operations on vectors: linear layers, scores and best classes, normalising, pooling; and the parity of their
 * variants. Expected values are computed here in double precision, or were computed with NumPy and SciPy as the
 * comments say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/device/device.h"
#include "kernels/kernels.h"
#include "kernels/scratch.h"
#include "kernels/vector.h"

static uint32_t random_state = 20261121;

/* Uniform in -1..1. */
static float draw(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) / 8388608.0f - 1.0f;
}

static float *draw_many(size_t count) {
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = draw();
    return values;
}

/* Sums of n products: rounding errors of single precision grow at most with n, in practice with its root. */
static void check_linear(int outputs, int inputs, int batch, bool bias_in_weights) {
    size_t row = (size_t)inputs + 1, src_row = (size_t)inputs + 3, dst_row = (size_t)outputs + 2;
    float *weights = draw_many((size_t)outputs * row), *src = draw_many((size_t)batch * src_row);
    float *dst = malloc((size_t)batch * dst_row * sizeof *dst);
    mr_linear_work work = {.weights = weights, .bias = bias_in_weights ? weights + inputs : NULL, .weight_stride = row,
                           .bias_stride = row, .outputs = outputs, .inputs = inputs, .batch = batch, .src = src,
                           .src_stride = src_row, .dst = dst, .dst_stride = dst_row};
    for (size_t i = 0; i < (size_t)batch * dst_row; i++)
        dst[i] = NAN;
    mr_linear(&work);
    for (size_t n = 0; n < (size_t)batch; n++) {
        for (size_t o = 0; o < (size_t)outputs; o++) {
            double sum = bias_in_weights ? weights[o * row + (size_t)inputs] : 0.0;
            for (size_t i = 0; i < (size_t)inputs; i++)
                sum += (double)weights[o * row + i] * src[n * src_row + i];
            assert_true(fabs(dst[n * dst_row + o] - sum) < 1e-6 * (inputs + 4));
        }
        assert_true(isnan(dst[n * dst_row + (size_t)outputs]));
    }
    free(weights);
    free(src);
    free(dst);
}

static void linear_layers(void **state) {
    (void)state;
    check_linear(1, 1, 1, true);
    check_linear(10, 37, 1, true);
    check_linear(10, 37, 1, false);
    check_linear(7, 129, 5, true);
    check_linear(1000, 1280, 8, true);
}

/* scipy.special.softmax([1, 3, 2, 3, -1]) and scipy.special.expit, SciPy 1.17. */
static void scores_and_best_classes(void **state) {
    (void)state;
    const float logits[5] = {1, 3, 2, 3, -1};
    int32_t index[5], found = -1;
    float score[5];
    mr_top_k_work work = {.logits = logits, .count = 5, .most = 3, .activation = MR_ACTIVATION_SOFTMAX, .index = index,
                          .score = score, .found = &found};
    mr_top_k(&work);
    assert_int_equal(found, 3);
    assert_int_equal(index[0], 1); /* of equal ones the first */
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

static void odd_logits(void **state) {
    (void)state;
    const float logits[4] = {NAN, 200.0f, INFINITY, -INFINITY};
    int32_t index[4], found = -1;
    float score[4];
    mr_top_k_work work = {.logits = logits, .count = 2, .most = 4, .activation = MR_ACTIVATION_SOFTMAX, .index = index,
                          .score = score, .found = &found};
    mr_top_k(&work); /* not a number never counts */
    assert_int_equal(found, 1);
    assert_int_equal(index[0], 1);
    assert_float_equal(score[0], 1.0, 0);
    work.count = 4;
    mr_top_k(&work); /* an infinite logit takes it all */
    assert_int_equal(found, 3);
    assert_int_equal(index[0], 2);
    assert_float_equal(score[0], 1.0, 0);
    assert_float_equal(score[1], 0.0, 0);
    work.count = 1;
    mr_top_k(&work);
    assert_int_equal(found, 0);
}

static int descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void best_of_many(void **state) {
    (void)state;
    float *logits = draw_many(1000), *sorted = malloc(1000 * sizeof *sorted), score[17];
    int32_t index[17], found;
    memcpy(sorted, logits, 1000 * sizeof *sorted);
    qsort(sorted, 1000, sizeof *sorted, descending);
    mr_top_k_work work = {.logits = logits, .count = 1000, .most = 17, .threshold = -2, .index = index, .score = score,
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

static void vectors_of_length_one(void **state) {
    (void)state;
    float values[3] = {3, 0, 4}, zeros[9] = {0};
    mr_normalize(&(mr_normalize_work){.src = values, .dst = values, .count = 3});
    assert_float_equal(values[0], 0.6, 1e-7);
    assert_float_equal(values[2], 0.8, 1e-7);
    mr_normalize(&(mr_normalize_work){.src = zeros, .dst = zeros, .count = 9});
    assert_float_equal(zeros[8], 0.0, 0);
}

static void pooling_both_layouts(void **state) {
    (void)state;
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

/* Arrays end where their allocation does, so that the address sanitizer sees a read too far. */
static void variants_of_sums_are_equal(void **state) {
    (void)state;
    mr_kernels c, best;
    mr_kernels_init(&c, MR_ISA_C);
    for (int isa = MR_ISA_AVX2; isa <= (int)mr_isa_detect(); isa++) {
        mr_kernels_init(&best, (mr_isa)isa);
        for (int count = 0; count < 70; count++) {
            float *values = draw_many((size_t)count);
            double exact = 0.0;
            for (int i = 0; i < count; i++)
                exact += values[i];
            assert_true(best.sum(values, count) == c.sum(values, count));
            assert_true(best.sum_of_squares(values, count) == c.sum_of_squares(values, count));
            assert_float_equal(c.sum(values, count), exact, 1e-5);
            free(values);
        }
    }
}

/* The simulated accelerator does work later and on its own copy of the struct. */
static void work_on_a_stream(void **state) {
    (void)state;
    static const float values[4] = {1, 2, 3, 6};
    static float mean;
    mr_sim_params params = {.manual = true};
    mr_device *device = NULL;
    mr_stream *stream = NULL;
    assert_int_equal(mr_sim_create(&device, &params), MR_OK);
    assert_int_equal(mr_stream_create(device, &stream), MR_OK);
    mr_pool_work work = {.src = values, .dst = &mean, .channels = 1, .positions = 4};
    assert_int_equal(mr_pool_mean_enqueue(stream, &work), MR_OK);
    memset(&work, 0, sizeof work);
    assert_float_equal(mean, 0.0, 0);
    mr_sim_advance(device, INT64_MAX - 1);
    assert_float_equal(mean, 3.0, 0);
    mr_stream_destroy(&stream);
    mr_device_destroy(&device);
}

static void scratch_grows_and_is_kept(void **state) {
    (void)state;
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_layers),
        cmocka_unit_test(scores_and_best_classes),
        cmocka_unit_test(odd_logits),
        cmocka_unit_test(best_of_many),
        cmocka_unit_test(vectors_of_length_one),
        cmocka_unit_test(pooling_both_layouts),
        cmocka_unit_test(variants_of_sums_are_equal),
        cmocka_unit_test(work_on_a_stream),
        cmocka_unit_test(scratch_grows_and_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
