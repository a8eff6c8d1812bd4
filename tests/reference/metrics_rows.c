/* Computes the figures of raw scores for metrics.py. Prints one figure a line, with all digits.
 *
 *   metrics_rows ROWS CLASSES GROUPS SEED
 *
 * Standard input: ROWS x CLASSES doubles, ROWS int32 classes, ROWS int32 groups. */
#include <stdio.h>
#include <stdlib.h>

#include "millrace/figures.h"
#include "millrace/status.h"
#include "tests/reference/raw.h"

enum { BINS = 15, RESAMPLES = 200 };

static void print_counts(const mr_scored *scored) {
    const size_t classes = scored->classes;
    uint64_t *counts = malloc(classes * classes * sizeof *counts);
    mr_class_figures *each = malloc(classes * sizeof *each);
    mr_figures all;
    mr_confusion(scored, counts);
    mr_figures_make(counts, classes, each, &all);
    for (size_t i = 0; i < classes * classes; i++)
        printf("confusion %.17g\n", (double)counts[i]);
    for (size_t j = 0; j < classes; j++)
        printf("class %.17g\nclass %.17g\nclass %.17g\n", each[j].precision, each[j].recall, each[j].f1);
    printf("all %.17g\nall %.17g\nall %.17g\nall %.17g\nall %.17g\n", all.accuracy, all.balanced_accuracy,
           all.precision, all.recall, all.f1);
    free(counts);
    free(each);
}

static void print_curves(const mr_scored *scored) {
    mr_curve curve = {.points = malloc((scored->rows + 1) * sizeof *curve.points)};
    for (size_t j = 0; j < scored->classes; j++) {
        if (mr_curve_make(scored, (int32_t)j, &curve))
            exit(EXIT_FAILURE);
        printf("curve %.17g\ncurve %.17g\ncurve %.17g\n", curve.roc_area, curve.average_precision, (double)curve.count);
    }
    free(curve.points);
}

static double accuracy(void *user, const size_t *row, size_t count) {
    const mr_scored *scored = user;
    size_t right = 0;
    for (size_t i = 0; i < count; i++)
        right += mr_first_class(scored->scores + row[i] * scored->classes, scored->classes) == scored->truth[row[i]];
    printf("resample %.17g\n", count ? (double)right / (double)count : 0.0);
    return count ? (double)right / (double)count : 0.0;
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 64;
    const size_t rows = (size_t)atol(argv[1]), classes = (size_t)atol(argv[2]);
    double *scores = read_many(stdin, rows * classes, sizeof *scores);
    int32_t *truth = read_many(stdin, rows, sizeof *truth), *group = read_many(stdin, rows, sizeof *group);
    mr_scored scored = {.rows = rows, .classes = classes, .scores = scores, .truth = truth};
    mr_calibration_bin bins[BINS];
    mr_interval interval;
    print_counts(&scored);
    print_curves(&scored);
    printf("loss %.17g\nerror %.17g\ntemperature %.17g\n", mr_log_loss(&scored), mr_calibrate(&scored, BINS, bins),
           mr_temperature(&scored));
    if (mr_bootstrap(group, rows, (size_t)atol(argv[3]), RESAMPLES, (uint64_t)atol(argv[4]), 0.95, accuracy, &scored,
                     &interval))
        return EXIT_FAILURE;
    printf("interval %.17g\ninterval %.17g\n", interval.low, interval.high);
    bool *right = calloc(rows + 1, sizeof *right);
    for (size_t i = 0; right && i < rows; i++)
        right[i] = mr_first_class(scored.scores + i * scored.classes, scored.classes) == scored.truth[i];
    if (!right || mr_share_interval(group, right, rows, (size_t)atol(argv[3]), &interval))
        return EXIT_FAILURE;
    free(right);
    printf("share %.17g\nshare %.17g\n", interval.low, interval.high);
    free(scores);
    free(truth);
    free(group);
    return EXIT_SUCCESS;
}
