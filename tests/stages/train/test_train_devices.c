/* Fits whose products are made on devices: the bits for any number of devices and threads, the distance from the
 * processors' fit, chunks that a device has no room for, and devices that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/draw.h"
#include "millrace/classifier.h"
#include "millrace/status.h"
#include "tests/support/sanitized.h"

#ifdef MILLRACE_CUDA_HOST /* where a block's threads take turns */
enum { ROWS = 700, STEPS = 6 };
#else
enum { ROWS = 3000, STEPS = 0 };
#endif
enum { WIDTH = 12, CLASSES = 5, PATH = 256 };

static const char *const names[] = {"ant", "bee", "cat", "dog", "eel"};
static const mr_classifier_kind kinds[] = {MR_CLASSIFIER_SOFTMAX, MR_CLASSIFIER_LOGISTIC,
                                           MR_CLASSIFIER_SQUARED_HINGE};
enum { KINDS = sizeof kinds / sizeof kinds[0] };
#ifdef MILLRACE_CUDA_HOST
static const char *const one[] = {"cuda:0"};
#else
static const char *const one[] = {"sim:0"};
#endif

static float features[ROWS * WIDTH], scores[ROWS * CLASSES], wanted[ROWS * CLASSES];
static int32_t classes[ROWS];
static uint8_t parts[ROWS];

static void draw_rows(void) {
    uint64_t seed = 5;
    double centre[CLASSES][WIDTH];
    for (size_t i = 0; i < CLASSES * WIDTH; i++)
        centre[i / WIDTH][i % WIDTH] = 0.6 * mr_draw_normal(&seed);
    for (size_t row = 0; row < ROWS; row++) {
        classes[row] = (int32_t)mr_draw_below(&seed, CLASSES);
        parts[row] = row % 7 == 0 ? MR_ROW_VALIDATION : MR_ROW_TRAIN;
        for (size_t k = 0; k < WIDTH; k++)
            features[row * WIDTH + k] = (float)(centre[classes[row]][k] + mr_draw_normal(&seed));
    }
}

static int prepare(void **state) {
    (void)state;
    draw_rows();
    return 0;
}

static const double penalties[] = {0.01, 1.0};

static mr_fit_params on(mr_classifier_kind kind, const char *const *devices, size_t count, int threads) {
    return (mr_fit_params){.kind = kind, .penalties = penalties, .penalty_count = 2, .threads = threads,
                           .steps = STEPS, .devices = devices, .device_count = count};
}

static const size_t hidden[] = {16, 9};

/* Two epochs of minibatches of two chunks. */
static mr_fit_params perceptron_on(const char *const *devices, size_t count, int threads) {
    return (mr_fit_params){.kind = MR_CLASSIFIER_PERCEPTRON, .hidden = hidden, .hidden_count = 2, .minibatch = 512,
                           .threads = threads, .steps = 2, .seed = 3, .devices = devices, .device_count = count};
}

static int fit(mr_classifier **made, const mr_fit_params *params) {
    const mr_labelled_rows rows = {.features = features, .rows = ROWS, .width = WIDTH, .classes = classes,
                                   .parts = parts, .class_count = CLASSES, .class_names = names};
    return mr_classifier_fit(made, &rows, params);
}

/* The objective that was reached; and all scores. */
static double fit_well(const mr_fit_params *params, float *to) {
    mr_classifier *made;
    if (fit(&made, params))
        fail_msg("%s", mr_message());
    assert_int_equal(mr_classifier_scores(made, features, ROWS, 0, to), MR_OK);
    const double objective = mr_classifier_card_of(made)->tried[params->penalty_count ? 1 : 0].objective;
    mr_classifier_destroy(&made);
    return objective;
}

static size_t first_of(const float *row) {
    size_t best = 0;
    for (size_t j = 1; j < CLASSES; j++)
        best = row[j] > row[best] ? j : best;
    return best;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* The objective within 1e-6 of itself, and the same first class but where two are nearly equal. */
static void a_device_finds_what_the_processors_find(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        const mr_fit_params here = on(kinds[k], NULL, 0, 2), there = on(kinds[k], one, 1, 2);
        const double objective = fit_well(&here, wanted), found = fit_well(&there, scores);
        if (!(fabs(found - objective) <= 1e-6 * objective))
            fail_msg("%s: %.12g and %.12g", mr_classifier_kind_name(kinds[k]), found, objective);
        for (size_t row = 0; row < ROWS; row++) {
            const float *ours = scores + row * CLASSES, *theirs = wanted + row * CLASSES;
            const size_t best = first_of(theirs);
            if (first_of(ours) != best && theirs[best] - theirs[first_of(ours)] > 2e-3f)
                fail_msg("%s: row %zu", mr_classifier_kind_name(kinds[k]), row);
        }
    }
}

/* What adds up in a few steps is a multiple of the rounding of one. */
static void a_device_makes_a_perceptron_near_that_of_the_processors(void **state) {
    (void)state;
    const mr_fit_params here = perceptron_on(NULL, 0, 2), there = perceptron_on(one, 1, 2);
    const double objective = fit_well(&here, wanted), found = fit_well(&there, scores);
    if (!(fabs(found - objective) <= 1e-6 * objective))
        fail_msg("%.12g and %.12g", found, objective);
    for (size_t i = 0; i < ROWS * CLASSES; i++)
        assert_true(fabsf(scores[i] - wanted[i]) < 1e-4f);
}

/* In double precision the ways are the same, whoever makes the products. */
static void doubles_of_a_device_are_those_of_the_processors(void **state) {
    (void)state;
    for (int kind = 0; kind <= KINDS; kind++) {
        mr_fit_params here = kind < KINDS ? on(kinds[kind], NULL, 0, 2) : perceptron_on(NULL, 0, 2);
        mr_fit_params there = kind < KINDS ? on(kinds[kind], one, 1, 2) : perceptron_on(one, 1, 2);
        here.doubles = there.doubles = true;
        const double objective = fit_well(&here, wanted), found = fit_well(&there, scores);
        if (!(fabs(found - objective) <= 1e-11 * objective))
            fail_msg("%s: %.17g and %.17g", mr_classifier_kind_name(here.kind), found, objective);
        for (size_t i = 0; i < ROWS * CLASSES; i++)
            assert_true(fabsf(scores[i] - wanted[i]) < 1e-6f);
    }
}

typedef mr_fit_params params_function(const char *const *devices, size_t count, int threads);

static mr_fit_params softmax_on(const char *const *devices, size_t count, int threads) {
    return on(MR_CLASSIFIER_SOFTMAX, devices, count, threads);
}

static mr_fit_params doubles_on(const char *const *devices, size_t count, int threads) {
    mr_fit_params params = softmax_on(devices, count, threads);
    params.doubles = true;
    return params;
}

static params_function *const fits[] = {softmax_on, perceptron_on, doubles_on};
enum { FITS = sizeof fits / sizeof fits[0] };

static void want(int fit, const char *const *devices) {
    const mr_fit_params params = fits[fit](devices, 1, 1);
    fit_well(&params, wanted);
}

static void expect_bits(int fit, const char *const *devices, size_t count, int threads) {
    const mr_fit_params params = fits[fit](devices, count, threads);
    fit_well(&params, scores);
    if (memcmp(scores, wanted, sizeof wanted) != 0)
        fail_msg("%s: %zu devices, %s first, %d threads", mr_classifier_kind_name(params.kind), count, devices[0],
                 threads);
}

#ifdef MILLRACE_CUDA_HOST
static void threads_change_no_bit(void **state) {
    (void)state;
    for (int fit = 0; fit < FITS; fit++) {
        want(fit, one);
        expect_bits(fit, one, 1, 2);
        expect_bits(fit, one, 1, 6);
    }
}
#else
/* 12 chunks: some devices have one block more than others. */
static void devices_and_threads_change_no_bit(void **state) {
    static const char *const five[] = {"sim:0", "sim:1", "sim:2", "sim:3", "sim:4"};
    (void)state;
    for (int fit = 0; fit < FITS; fit++) {
        want(fit, one);
        for (int threads = 1; threads <= 16; threads *= UNDER_TSAN(4, 2)) {
            expect_bits(fit, one, 1, threads);
            expect_bits(fit, five, 2, threads);
            expect_bits(fit, five, 5, threads);
        }
    }
}

/* Chunks that it has no room for are uploaded each time. */
static void a_small_device_changes_no_bit(void **state) {
    static const char *const small[] = {"sim:0?memory=200KiB"};
    (void)state;
    want(0, one);
    expect_bits(0, small, 1, 1);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static int cancel(void *user, const mr_fit_progress *progress) {
    return progress->penalty + 1 == progress->penalties && progress->step == *(const int *)user;
}

/* Cancelled in the middle on one device, it goes on with two; not on the processors, which have other bits. */
static void go_on(mr_fit_params params, int step) {
    static const char *const two[] = {"sim:0", "sim:1"};
    char path[PATH];
    mr_classifier *made;
    snprintf(path, sizeof path, "%s/train-devices-%ld", P_tmpdir, (long)getpid());
    fit_well(&params, wanted);
    params.state = path;
    params.progress = cancel;
    params.user = &step;
    assert_int_equal(fit(&made, &params), MR_ERROR_CANCELLED);
    params.progress = NULL;
    params.resume = true;
    params.device_count = 0;
    assert_int_equal(fit(&made, &params), MR_ERROR_DATA);
    params.devices = two;
    params.device_count = 2;
    fit_well(&params, scores);
    assert_memory_equal(scores, wanted, sizeof wanted);
    assert_int_equal(access(path, F_OK), -1);
}

static void a_fit_goes_on_with_other_devices_of_its_kind(void **state) {
    (void)state;
    go_on(softmax_on(one, 1, 2), 3);
    go_on(perceptron_on(one, 1, 2), 1);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* The fit ends with the device's failure, or, where only a chunk finds no room, with the same bits; until so many calls
 * that nothing fails any more. */
static void fail_at_each(mr_fit_params params, const char *what, int step) {
    params.steps = 2;
    fit_well(&params, wanted);
    int failed = 0;
    const int most = step == 1 ? UNDER_TSAN(60, 400) : 400;
    for (int at = 1; at < most; at += step) {
        char name[64];
        const char *const device[] = {name};
        mr_classifier *made;
        snprintf(name, sizeof name, "sim:0?%s=%d", what, at);
        params.devices = device;
        params.threads = 1 + at % 4;
        const int status = fit(&made, &params);
        if (status) {
            assert_null(made);
            if (status != MR_ERROR_DEVICE && status != MR_ERROR_MEMORY)
                fail_msg("%s: %d: %s", name, status, mr_message());
            if (!strstr(mr_message(), "sim:0"))
                fail_msg("%s: %s", name, mr_message());
            failed++;
            continue;
        }
        assert_int_equal(mr_classifier_scores(made, features, ROWS, 0, scores), MR_OK);
        assert_memory_equal(scores, wanted, sizeof wanted);
        mr_classifier_destroy(&made);
    }
    assert_true(failed > 3);
}

static void a_device_that_fails_ends_the_fit(void **state) {
    (void)state;
    for (int fit = 0; fit < FITS; fit++) {
        fail_at_each(fits[fit](one, 1, 1), "fail_allocation", 1);
        fail_at_each(fits[fit](one, 1, 1), "fail_call", 7 + 16 * fit);
        fail_at_each(fits[fit](one, 1, 1), "fail_after", 13 + 24 * fit);
        fail_at_each(fits[fit](one, 1, 1), "lose_after", 17 + 30 * fit);
    }
}

static void refuse(mr_fit_params params, int status, const char *why) {
    mr_classifier *made;
    assert_int_equal(fit(&made, &params), status);
    assert_null(made);
    if (!strstr(mr_message(), why))
        fail_msg("%s: %s", why, mr_message());
}

static void what_no_device_can_fit_is_refused(void **state) {
    static const char *const mixed[] = {"sim:0", "cuda:0"}, *const none[] = {"tpu:0"}, *const processor[] = {"cpu"};
    static const char *const absent[] = {"cuda:63"};
    static const char *many[17];
    (void)state;
    for (size_t i = 0; i < 17; i++)
        many[i] = "sim:0";
    refuse(on(MR_CLASSIFIER_SOFTMAX, mixed, 2, 1), MR_ERROR_USAGE, "two kinds");
    refuse(on(MR_CLASSIFIER_SOFTMAX, none, 1, 1), MR_ERROR_CONFIG, "tpu");
    refuse(on(MR_CLASSIFIER_SOFTMAX, processor, 1, 1), MR_ERROR_USAGE, "no device is named");
    refuse(on(MR_CLASSIFIER_SOFTMAX, many, 17, 1), MR_ERROR_USAGE, "at most 16");
    refuse(on(MR_CLASSIFIER_SOFTMAX, absent, 1, 1), MR_ERROR_UNAVAILABLE, "");
    refuse(on(MR_CLASSIFIER_PROTOTYPES, one, 1, 1), MR_ERROR_USAGE, "prototypes");
}
#endif

int main(void) {
#ifdef MILLRACE_CUDA_HOST
    setenv("MILLRACE_CUBLAS", BINARY_DIR "/libcublas_host.so", 1);
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_device_finds_what_the_processors_find, prepare),
        cmocka_unit_test_setup(a_device_makes_a_perceptron_near_that_of_the_processors, prepare),
        cmocka_unit_test_setup(doubles_of_a_device_are_those_of_the_processors, prepare),
#ifdef MILLRACE_CUDA_HOST
        cmocka_unit_test_setup(threads_change_no_bit, prepare),
#else
        cmocka_unit_test_setup(devices_and_threads_change_no_bit, prepare),
        cmocka_unit_test_setup(a_small_device_changes_no_bit, prepare),
        cmocka_unit_test_setup(a_fit_goes_on_with_other_devices_of_its_kind, prepare),
        cmocka_unit_test_setup(a_device_that_fails_ends_the_fit, prepare),
        cmocka_unit_test_setup(what_no_device_can_fit_is_refused, prepare),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
