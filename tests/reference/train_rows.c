/* Fits a classifier to the rows of a file for train.py, and writes the scores.
 *
 *   train_rows ROWS KIND PENALTIES [FOLDER]     PENALTIES: "-" or numbers separated by commas; FOLDER: where to save
 *
 * ROWS: u32 rows, width and classes; then rows x width floats, rows int32 classes, and rows bytes for the parts.
 * Standard output: rows x classes floats, the scores. Environment: SCALING (usual, none, standard), BALANCED, DOUBLES,
 * K, HIDDEN (units separated by commas), NOISE (prints noisy rows as text instead of scores). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/classifier.h"
#include "millrace/status.h"
#include "tests/reference/raw.h"

enum { MOST = 32 };

static int finish(int status) {
    if (status)
        fprintf(stderr, "%s\n", mr_message());
    return mr_status_exit_code(status);
}

static size_t read_list(const char *text, double *to) {
    size_t count = 0;
    for (char *end; text && *text && count < MOST; text = *end ? end + 1 : end)
        to[count++] = strtod(text, &end);
    return count;
}

static int print_noise(const mr_labelled_rows *rows) {
    mr_noisy_row noisy[1000];
    size_t found = 0;
    const mr_noise_params params = {.k = (size_t)atoi(getenv("NOISE"))};
    int status = mr_label_noise(rows, &params, noisy, 1000, &found);
    for (size_t i = 0; i < found && i < 1000; i++)
        printf("%zu %d %d %.17g\n", noisy[i].row, (int)noisy[i].class_given, (int)noisy[i].class_near, noisy[i].share);
    return finish(status);
}

static int fit(const mr_labelled_rows *rows, const mr_fit_params *params, const char *folder) {
    mr_classifier *made = NULL;
    float *scores = malloc(rows->rows * rows->class_count * sizeof *scores);
    int status = mr_classifier_fit(&made, rows, params);
    if (!status && folder)
        status = mr_classifier_save(made, folder, NULL);
    if (!status && scores)
        status = mr_classifier_scores(made, rows->features, rows->rows, 0, scores);
    if (!status && scores)
        fwrite(scores, sizeof *scores, rows->rows * rows->class_count, stdout);
    free(scores);
    mr_classifier_destroy(&made);
    return finish(status);
}

static void take_environment(mr_fit_params *params, size_t hidden[MOST]) {
    double units[MOST];
    const char *scaling = getenv("SCALING");
    if (scaling)
        params->scaling = *scaling == 'n' ? MR_SCALING_NONE : *scaling == 's' ? MR_SCALING_STANDARD : MR_SCALING_USUAL;
    params->class_weights = getenv("BALANCED") ? MR_CLASS_WEIGHTS_BALANCED : MR_CLASS_WEIGHTS_NONE;
    params->doubles = getenv("DOUBLES") != NULL;
    params->k = getenv("K") ? (size_t)atoi(getenv("K")) : 0;
    params->hidden_count = read_list(getenv("HIDDEN"), units);
    params->hidden = hidden;
    for (size_t i = 0; i < params->hidden_count; i++)
        hidden[i] = (size_t)units[i];
}

int main(int argc, char **argv) {
    FILE *file = argc > 3 ? fopen(argv[1], "rb") : NULL;
    if (!file)
        return 64;
    uint32_t *size = read_many(file, 3, sizeof *size);
    mr_labelled_rows rows = {.rows = size[0], .width = size[1], .class_count = size[2]};
    float *features = read_many(file, rows.rows * rows.width, sizeof *features);
    int32_t *classes = read_many(file, rows.rows, sizeof *classes);
    uint8_t *parts = read_many(file, rows.rows, 1);
    char (*names)[24] = calloc(rows.class_count, sizeof *names);
    const char **list = calloc(rows.class_count, sizeof *list);
    fclose(file);
    for (size_t i = 0; names && list && i < rows.class_count; i++) {
        snprintf(names[i], sizeof names[i], "%zu", i);
        list[i] = names[i];
    }
    rows.features = features;
    rows.classes = classes;
    rows.parts = parts;
    rows.class_names = list;
    double penalties[MOST];
    size_t hidden[MOST];
    mr_fit_params params = {
        .penalties = penalties, .penalty_count = *argv[3] == '-' ? 0 : read_list(argv[3], penalties), .seed = 1};
    take_environment(&params, hidden);
    int code = mr_classifier_kind_find(argv[2], &params.kind) ? 64
               : getenv("NOISE")                              ? print_noise(&rows)
                                                              : fit(&rows, &params, argc > 4 ? argv[4] : NULL);
    free(size);
    free(features);
    free(classes);
    free(parts);
    free(names);
    free(list);
    return code;
}
