#include "tests/support/blobs.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/draw.h"
#include "millrace/status.h"
#include "tests/support/clips.h"

const char *const blob_names[BLOB_CLASSES] = {"ant", "bee", "cat", "dog"};
float blob_features[BLOB_ROWS * BLOB_WIDTH];
int32_t blob_classes[BLOB_ROWS];
uint64_t blob_groups[BLOB_ROWS];
uint8_t blob_parts[BLOB_ROWS];
char blob_heard[BLOB_HEARD];
const mr_labelled_rows blob_rows = {.features = blob_features, .rows = BLOB_ROWS, .width = BLOB_WIDTH,
                                    .classes = blob_classes, .groups = blob_groups, .parts = blob_parts,
                                    .class_count = BLOB_CLASSES, .class_names = blob_names};

void blob_draw(void) {
    uint64_t seed = 11;
    double centre[BLOB_CLASSES][BLOB_WIDTH];
    for (size_t i = 0; i < BLOB_CLASSES * BLOB_WIDTH; i++)
        centre[i / BLOB_WIDTH][i % BLOB_WIDTH] = 1.2 * mr_draw_normal(&seed);
    for (size_t row = 0; row < BLOB_ROWS; row++) {
        blob_classes[row] = (int32_t)mr_draw_below(&seed, BLOB_CLASSES);
        blob_groups[row] = row / 2;
        blob_parts[row] = row / 2 % 5 == 0 ? MR_ROW_VALIDATION : row / 2 % 5 == 1 ? MR_ROW_TEST : MR_ROW_TRAIN;
        for (size_t k = 0; k < BLOB_WIDTH; k++)
            blob_features[row * BLOB_WIDTH + k] = (float)((centre[blob_classes[row]][k] + mr_draw_normal(&seed)) *
                                                              pow(10.0, (double)k / 3.0 - 2.0) + 5.0);
        blob_features[row * BLOB_WIDTH + BLOB_WIDTH - 1] = 7.0f;
    }
}

int blob_setup(void **state) {
    blob_draw();
    blob_heard[0] = 0;
    return 0;
}

static void warn(void *user, const char *text) {
    size_t used = strlen(blob_heard);
    snprintf(blob_heard + used, BLOB_HEARD - used, "%s\n", text);
}

mr_fit_params blob_params(mr_classifier_kind kind) {
    return (mr_fit_params){.kind = kind, .seed = 3, .threads = 2, .steps = kind == MR_CLASSIFIER_PERCEPTRON ? 30 : 0,
                           .warning = warn};
}

mr_classifier *blob_fit(const mr_labelled_rows *rows, const mr_fit_params *params) {
    mr_classifier *made;
    if (mr_classifier_fit(&made, rows, params))
        fail_msg("%s", mr_message());
    return made;
}

mr_classifier *blob_fit_kind(int kind) {
    const mr_fit_params params = blob_params((mr_classifier_kind)kind);
    return blob_fit(&blob_rows, &params);
}

void blob_scores(const mr_classifier *classifier, float *scores) {
    assert_int_equal(mr_classifier_scores(classifier, blob_features, BLOB_ROWS, 0, scores), MR_OK);
}

void blob_expect_same(const mr_classifier *one, const mr_classifier *other) {
    static float first[BLOB_ROWS * BLOB_CLASSES], second[BLOB_ROWS * BLOB_CLASSES];
    blob_scores(one, first);
    blob_scores(other, second);
    assert_memory_equal(first, second, sizeof first);
}

void blob_classify(arrived *got, const char *folder, const char *options) {
    char stages[700];
    snprintf(stages, sizeof stages, "  classify: {input: in, head: \"%s\", top_k: 10%s}\n"
                                    "  sink: {type: callback, input: classify}\n", folder, options);
    got->look = look_at_classes;
    if (models_run("f32 12", blob_features, stages, got))
        fail_msg("%s: %s", options, mr_message());
    for (size_t frame = 0; frame < got->frames; frame++)
        assert_int_equal(got->class_count[frame], BLOB_CLASSES);
    assert_true(got->gaps || got->frames == MODELS_FRAMES);
}

void blob_folder(const char *name, char path[256]) {
    snprintf(path, 256, "%s/train-test-%s-%ld", P_tmpdir, name, (long)getpid());
}

void blob_remove(const char *folder) {
    clip_shell("rm -rf '%s'", folder);
}

int blob_stop(void *user, const mr_fit_progress *progress) {
    blob_stopping *s = user;
    assert_true(progress->c > 0.0 && isfinite(progress->objective) && progress->penalty < progress->penalties);
    return ++s->calls > s->after;
}
