/* Matrix products on the host: against sums in double precision, and on several threads at once. */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/vector/vector.h"
#include "tests/support/draw.h"
#include "tests/support/suite.h"

/* For a sum of n products, single precision errors grow at most with n, in practice with the square root. */
static void check_linear(int outputs, int inputs, int batch, bool bias_in_weights) {
    size_t row = (size_t)inputs + 1, src_row = (size_t)inputs + 3, dst_row = (size_t)outputs + 2;
    FREED float *weights = draw_many((size_t)outputs * row), *src = draw_many((size_t)batch * src_row);
    FREED float *dst = malloc((size_t)batch * dst_row * sizeof *dst);
    mr_linear_work work = {.weights = weights, .bias = bias_in_weights ? weights + inputs : NULL,
                           .weight_stride = row,
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
}

TEST(linear_layers) {
    check_linear(1, 1, 1, true);
    check_linear(10, 37, 1, true);
    check_linear(10, 37, 1, false);
    check_linear(7, 129, 5, true);
    check_linear(1000, 1280, 8, true);
}

/* Each item must have the bits that it gets alone: in whole output blocks, in parts, and in large batches. */
static void check_alone(int outputs, int inputs, int batch) {
    size_t row = (size_t)inputs + 1, src_row = (size_t)inputs + 3, dst_row = (size_t)outputs + 2;
    FREED float *weights = draw_many((size_t)outputs * row), *src = draw_many((size_t)batch * src_row);
    FREED float *dst = malloc((size_t)batch * dst_row * sizeof *dst), *one = malloc((size_t)outputs * sizeof *one);
    mr_linear_work work = {.weights = weights, .bias = weights + inputs, .weight_stride = row, .bias_stride = row,
                           .outputs = outputs, .inputs = inputs, .batch = batch, .alone = 1, .src = src,
                           .src_stride = src_row, .dst = dst, .dst_stride = dst_row};
    for (size_t i = 0; i < (size_t)batch * dst_row; i++)
        dst[i] = NAN;
    mr_linear(&work);
    work.batch = 1;
    work.dst = one;
    for (size_t n = 0; n < (size_t)batch; n++) {
        work.src = src + n * src_row;
        mr_linear(&work);
        assert_memory_equal(dst + n * dst_row, one, (size_t)outputs * sizeof *one);
        assert_true(isnan(dst[n * dst_row + (size_t)outputs]) && isnan(dst[n * dst_row + (size_t)outputs + 1]));
    }
}

TEST(items_of_a_batch_are_as_alone) {
    static const int outputs[] = {1, 6, 7, 47, 48, 49, 95, 96, 100, 1000};
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++)
        for (int batch = 1; batch <= 9; batch++) {
            check_alone(outputs[i], 1280, batch);
            check_alone(outputs[i], 37, batch);
        }
}

/* ---- products on several threads at once ----------------------------------------------------------------------- */

enum { SHARED_OUTPUTS = 1000, SHARED_INPUTS = 1280, SHARED_THREADS = 4, SHARED_ROUNDS = 300 };

/* The matrices that one thread multiplies repeatedly, and the number of products that differ from the first. */
typedef struct multiplier {
    mr_linear_work work;
    float *src, *alone;
    int wrong;
} multiplier;

static void *multiply(void *context) {
    multiplier *self = context;
    size_t bytes = (size_t)self->work.batch * SHARED_OUTPUTS * sizeof(float);
    for (int i = 0; i < SHARED_ROUNDS; i++) {
        memset(self->work.dst, 0xff, bytes);
        mr_linear(&self->work);
        self->wrong += memcmp(self->work.dst, self->alone, bytes) != 0;
    }
    return NULL;
}

/* Workers classify at the same time. Products on all threads at once must equal those computed alone. */
TEST(threads_multiply_at_once) {
    FREED float *weights = draw_many(SHARED_OUTPUTS * SHARED_INPUTS);
    multiplier threads[SHARED_THREADS];
    pthread_t ids[SHARED_THREADS];
    for (int i = 0; i < SHARED_THREADS; i++) {
        int batch = 1 + i % 2 * 3;
        size_t results = (size_t)batch * SHARED_OUTPUTS;
        threads[i] = (multiplier){.src = draw_many((size_t)batch * SHARED_INPUTS),
                                  .alone = malloc(results * sizeof(float))};
        threads[i].work = (mr_linear_work){
            .weights = weights, .weight_stride = SHARED_INPUTS, .outputs = SHARED_OUTPUTS, .inputs = SHARED_INPUTS,
            .batch = batch, .src = threads[i].src, .src_stride = SHARED_INPUTS,
            .dst = malloc(results * sizeof(float)), .dst_stride = SHARED_OUTPUTS};
        mr_linear(&threads[i].work);
        memcpy(threads[i].alone, threads[i].work.dst, results * sizeof(float));
    }
    for (int i = 0; i < SHARED_THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, multiply, &threads[i]), 0);
    for (int i = 0; i < SHARED_THREADS; i++) {
        pthread_join(ids[i], NULL);
        assert_int_equal(threads[i].wrong, 0);
        free(threads[i].alone);
        free(threads[i].src);
        free(threads[i].work.dst);
    }
}

RUN_TESTS(NULL, NULL)
