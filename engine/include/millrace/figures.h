/* How good a classifier is: figures from the scores of rows whose class is known.
 *
 * Definitions are those of scikit-learn 1.9 (user guide, 3.4), ties and absent classes included:
 *   precision, recall, F1   of a class: tp / (tp + fp), tp / (tp + fn), 2 tp / (2 tp + fp + fn); 0 where nothing is
 *                           divided
 *   balanced accuracy       mean recall of the classes that occur
 *   ROC area                of a class against the rest, by the trapezoidal rule, equal scores together; NaN if either
 *                           side is empty
 *   average precision       sum over thresholds of (recall - the one before) * precision, equal scores together; NaN
 *                           if no row is of the class
 *   log loss                -mean of log(p of the row's class), p held within DBL_EPSILON .. 1 - DBL_EPSILON
 * Calibration: rows in bins of equal width by the score of the first class; the error is the mean distance of a bin's
 * share of right rows from its mean score, weighted by its rows (Guo et al., On Calibration of Modern Neural Networks,
 * 2017). Their temperature T makes the log loss of softmax(logits / T) smallest.
 * Intervals: percentiles of the figure over resamples of whole groups with replacement (Efron and Tibshirani, An
 * Introduction to the Bootstrap, 1993, chapter 13), drawn from a seed: the same for the same groups. Resamples of rows
 * that are all right are all right, so a share of rows has an interval by a formula instead.
 *
 * Sums go row by row in one order, in double precision. The first class of a row is the one with the largest score, the
 * lower index if two are equal. All memory is the caller's but for work space. Any thread. Errors: MR_ERROR_MEMORY.
 *
 * Unstable: it is made for the command, and may change with any version (version.h). */
#ifndef MILLRACE_FIGURES_H
#define MILLRACE_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scores of rows: rows x classes, and the class that each is of, 0 <= class < classes. */
typedef struct mr_scored {
    size_t rows, classes;
    const double *scores;
    const int32_t *truth;
} mr_scored;

/* The first class of a row of scores. */
MR_API int32_t mr_first_class(const double *scores, size_t classes);

/* counts[t * classes + p]: rows of class t whose first class is p. */
MR_API void mr_confusion(const mr_scored *scored, uint64_t *counts);

typedef struct mr_class_figures {
    uint64_t rows, first, right; /* of the class; with it as their first class; both */
    double precision, recall, f1;
} mr_class_figures;

typedef struct mr_figures {
    uint64_t rows, right;
    double accuracy, balanced_accuracy;
    double precision, recall, f1; /* means over the classes that occur, or are named by a row */
} mr_figures;

/* Figures of each class, `classes` of them, and of all, from a confusion. */
MR_API void mr_figures_make(const uint64_t *confusion, size_t classes, mr_class_figures *each, mr_figures *all);

MR_API double mr_log_loss(const mr_scored *scored);

/* A point of the two curves of a class: rows with at least this score count as of the class. */
typedef struct mr_curve_point {
    double threshold;
    uint64_t true_positives, false_positives;
} mr_curve_point;

typedef struct mr_curve {
    size_t count;           /* of points, one for each distinct score, the highest first */
    mr_curve_point *points; /* room for one a row */
    uint64_t positives, negatives;
    double roc_area, average_precision;
} mr_curve;

/* The curves of one class against the rest; `points` is the caller's. */
MR_API int mr_curve_make(const mr_scored *scored, int32_t of, mr_curve *curve);

typedef struct mr_calibration_bin {
    uint64_t rows, right;
    double mean_score; /* of its rows; 0 if there are none */
} mr_calibration_bin;
/* Fills `count` bins; returns the expected calibration error. */
MR_API double mr_calibrate(const mr_scored *scored, size_t count, mr_calibration_bin *bins);

/* The temperature for these logits (scored->scores), within 0.05 .. 20. */
MR_API double mr_temperature(const mr_scored *scored);

typedef struct mr_interval {
    double low, high;
} mr_interval;
/* A figure of some rows: `row` names them, with repetitions. NaN: none, the resample is left out. */
typedef double mr_figure_function(void *user, const size_t *row, size_t count);
/* The interval that holds `share` (0.95) of the resamples. group[i] is that of row i, 0 <= group < groups. Percentiles
 * are interpolated linearly, as numpy.percentile does. Both ends are NaN if no resample has the figure. */
MR_API int mr_bootstrap(const int32_t *group, size_t rows, size_t groups, size_t resamples, uint64_t seed,
                        double share, mr_figure_function *figure, void *user, mr_interval *interval);

/* The 95% interval of a share of rows, such as the accuracy: Wilson's (Probable Inference, 1927), which stays open
 * where no row is wrong. right[i]: row i counts. Rows of a group may resemble each other, so they count as rows / D. D
 * is the variance of the share over groups by that of independent rows, at least 1 (Korn and Graubard, 1998). If all
 * rows are right, or none, or all are of one group, D is unknown and each group counts once. Both ends are NaN if there
 * are no rows. */
MR_API int mr_share_interval(const int32_t *group, const bool *right, size_t rows, size_t groups,
                             mr_interval *interval);

#ifdef __cplusplus
}
#endif
#endif
