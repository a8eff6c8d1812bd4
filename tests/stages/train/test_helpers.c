/* Fits with helpers, which are threads here: the same weights as without, with any number of them, also if they come
 * late, go and come again; and those that may not help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "millrace/classifier.h"
#include "millrace/fit_helpers.h"
#include "millrace/status.h"
#include "stages/train/helper_message.h"
#include "tests/support/blobs.h"

enum { MOST = 8 };

/* The system's function, or one of another system, which rounds in another way. */
static bool other_system;
double log1p(double x) {
    double (*of_the_system)(double);
    void *const found = dlsym(RTLD_NEXT, "log1p");
    memcpy(&of_the_system, &found, sizeof found);
    const double value = of_the_system(x);
    return other_system ? nextafter(value, 1.0) : value;
}

static char folder[64], rows_path[96];

typedef struct helping {
    char name[16], endpoint[96];
    const char *pipeline;
    atomic_bool stopped;
    pthread_t thread;
    int status;
    char message[512];
} helping;

static bool is_stopped(void *user) {
    return atomic_load(&((helping *)user)->stopped);
}

/* Waits for the rows, as the command does. */
static void *help(void *context) {
    helping *h = context;
    const mr_fit_help given = {.name = h->name, .rows = rows_path, .pipeline = h->pipeline, .endpoint = h->endpoint,
                               .threads = 2, .stopped = is_stopped, .user = h};
    struct stat found;
    while (stat(rows_path, &found) && !is_stopped(h))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    h->status = is_stopped(h) ? MR_OK : mr_fit_help_serve(&given);
    snprintf(h->message, sizeof h->message, "%s", h->status ? mr_message() : "");
    return NULL;
}

static void begin(helping *h, size_t number, const char *pipeline) {
    *h = (helping){.pipeline = pipeline};
    snprintf(h->name, sizeof h->name, "n%zu", number);
    snprintf(h->endpoint, sizeof h->endpoint, "ipc://%s/%s", folder, h->name);
    assert_int_equal(pthread_create(&h->thread, NULL, help, h), 0);
}

static void end(helping *h) {
    atomic_store(&h->stopped, true);
    pthread_join(h->thread, NULL);
}

static mr_fit_params params_of(mr_classifier_kind kind, bool doubles) {
    mr_fit_params params = blob_params(kind);
    params.doubles = doubles;
    params.scaling = MR_SCALING_STANDARD;
    return params;
}

static void assert_same(const mr_fit_params *params, mr_fit_helpers *helpers) {
    static float alone[BLOB_ROWS * BLOB_CLASSES], helped[BLOB_ROWS * BLOB_CLASSES];
    const mr_labelled_rows rows = blob_rows();
    mr_fit_params with = *params;
    with.helpers = helpers;
    mr_classifier *one = blob_fit(&rows, params), *other = blob_fit(&rows, &with);
    assert_int_equal(mr_classifier_logits(one, blob_features, BLOB_ROWS, BLOB_WIDTH, alone), MR_OK);
    assert_int_equal(mr_classifier_logits(other, blob_features, BLOB_ROWS, BLOB_WIDTH, helped), MR_OK);
    assert_memory_equal(alone, helped, sizeof alone);
    mr_classifier_destroy(&one);
    mr_classifier_destroy(&other);
}

/* So many helpers of that pipeline; those from `there` on never come. */
static mr_fit_helpers fit_with(size_t count, size_t there, const char *pipeline, const mr_fit_params *params) {
    helping helpers[MOST];
    mr_fit_helper list[MOST];
    unlink(rows_path);
    for (size_t i = 0; i < count; i++) {
        begin(&helpers[i], i, pipeline);
        if (i >= there)
            atomic_store(&helpers[i].stopped, true);
        list[i] = (mr_fit_helper){.name = helpers[i].name, .endpoint = helpers[i].endpoint};
    }
    mr_fit_helpers given = {.rows = rows_path, .pipeline = "p1", .count = count, .helpers = list,
                            .patience_ns = there < count || strcmp(pipeline, "p1") != 0 ? 500000000 : 20000000000};
    assert_same(params, &given);
    for (size_t i = 0; i < count; i++) {
        end(&helpers[i]);
        assert_int_equal(helpers[i].status, strcmp(pipeline, "p1") != 0 && i < there ? MR_ERROR_CONFIG : MR_OK);
        if (helpers[i].status)
            assert_non_null(strstr(helpers[i].message, "cannot help the fit, whose bits might become others"));
    }
    given.helpers = NULL;
    return given;
}

static void bits_are_those_of_one_process(void **state) {
    static const size_t counts[] = {1, 2, 3, MOST};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int kind = MR_CLASSIFIER_SOFTMAX; kind <= MR_CLASSIFIER_SQUARED_HINGE; kind++) {
            const mr_fit_params params = params_of((mr_classifier_kind)kind, i % 2 == 1);
            const mr_fit_helpers told = fit_with(counts[i], counts[i], "p1", &params);
            assert_true(told.evaluations > 3);
            assert_true(told.sent > 0);
            assert_true(told.helped <= told.blocks);
        }
}

static void a_fit_ends_without_them(void **state) {
    const mr_fit_params params = params_of(MR_CLASSIFIER_SOFTMAX, false);
    (void)state;
    const mr_fit_helpers told = fit_with(3, 0, "p1", &params);
    assert_int_equal(told.helped, 0);
    assert_true(told.blocks > 0);
    fit_with(3, 1, "p1", &params);
}

static void those_of_another_pipeline_are_refused(void **state) {
    const mr_fit_params params = params_of(MR_CLASSIFIER_SOFTMAX, false);
    (void)state;
    const mr_fit_helpers told = fit_with(2, 2, "p2", &params);
    assert_int_equal(told.helped, 0);
    assert_int_equal(told.sent, 0);
}

/* Bits depend on functions of the C library, too, of which each loss has its own. */
static void those_of_another_system_are_told_apart(void **state) {
    char here[MR_HELPER_SELF], again[MR_HELPER_SELF], there[MR_HELPER_SELF];
    (void)state;
    assert_int_equal(mr_helper_self("p1", here), MR_OK);
    assert_int_equal(mr_helper_self("p1", again), MR_OK);
    assert_string_equal(here, again);
    other_system = true;
    assert_int_equal(mr_helper_self("p1", there), MR_OK);
    other_system = false;
    assert_string_not_equal(here, there);
}

static void refuse_rows(const void *bytes, size_t count, int status, const char *words) {
    helping h;
    FILE *file = fopen(rows_path, "wb");
    assert_non_null(file);
    fwrite(bytes, 1, count, file);
    fclose(file);
    begin(&h, 0, "p1");
    pthread_join(h.thread, NULL);
    assert_int_equal(h.status, status);
    assert_non_null(strstr(h.message, words));
}

/* Each byte of the head, and each length, of a file that is good. */
static void damaged_rows_are_refused(void **state) {
    const mr_fit_params params = params_of(MR_CLASSIFIER_SOFTMAX, false);
    static const char words[] = "has no rows of a fit that millrace of this version has written";
    static char bytes[1 << 20];
    (void)state;
    fit_with(1, 1, "p1", &params);
    FILE *file = fopen(rows_path, "rb");
    assert_non_null(file);
    const size_t count = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(count > 1000 && count < sizeof bytes);
    refuse_rows(bytes, 0, MR_ERROR_DATA, words);
    refuse_rows(bytes, 10, MR_ERROR_DATA, words);
    refuse_rows(bytes, count - 1, MR_ERROR_DATA, words);
    for (size_t at = 0; at < 16; at += 5) {
        bytes[at] ^= 1;
        refuse_rows(bytes, count, MR_ERROR_DATA, words);
        bytes[at] ^= 1;
    }
    memset(bytes + 32, 0xff, 8); /* so many rows */
    refuse_rows(bytes, count, MR_ERROR_DATA, words);
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/millrace-helpers-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(rows_path, sizeof rows_path, "%s/fit", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(rows_path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bits_are_those_of_one_process, blob_setup),
        cmocka_unit_test_setup(a_fit_ends_without_them, blob_setup),
        cmocka_unit_test_setup(those_of_another_pipeline_are_refused, blob_setup),
        cmocka_unit_test(those_of_another_system_are_told_apart),
        cmocka_unit_test_setup(damaged_rows_are_refused, blob_setup),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
