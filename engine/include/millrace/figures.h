/* Figures of merit for a classifier, from the scores of rows with known classes.
 *
 * Definitions are those of scikit-learn 1.9 (user guide, 3.4), also for ties and absent classes:
 *   precision, recall, F1   per class: tp / (tp + fp), tp / (tp + fn), 2 tp / (2 tp + fp + fn); 0 if the divisor is 0
 *   balanced accuracy       mean recall over classes that occur
 *   ROC area                one class against the rest, by the trapezoidal rule, equal scores together; NaN if either
 *                           side is empty
 *   average precision       sum over thresholds of (recall - previous recall) * precision, equal scores together; NaN
 *                           if no row has the class
 *   log loss                -mean of log(p of the row's class), p held within DBL_EPSILON .. 1 - DBL_EPSILON
 *
 * Calibration (Guo et al., On Calibration of Modern Neural Networks, 2017): the first class's score sorts rows into
 * bins with equal width. The error is the mean distance between a bin's share of right rows and its mean score,
 * weighted by rows. The temperature T minimises the log loss of softmax(logits / T).
 *
 * Intervals (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13): percentiles of the figure over
 * resamples of whole groups with replacement. A seed determines the resamples: the same groups give the same ones. If
 * all rows are right, so are all resamples; a share of rows therefore has an interval by a formula.
 *
 * Objects: see mr_object_figures.
 *
 * Sums run row by row in one order, in double precision. A row's first class has the largest score; on a tie, the lower
 * index. The caller owns all memory except work space. Any thread. Errors: MR_ERROR_MEMORY.
 *
 * Unstable: made for the command; it may change with any version (version.h). */
#ifndef MILLRACE_FIGURES_H
#define MILLRACE_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scores, rows x classes, and the class of each row, 0 <= class < classes. */
typedef struct mr_scored {
    size_t rows, classes;
    const double *scores;
    const int32_t *truth;
} mr_scored;

/* The first class in a row of scores. */
MR_API int32_t mr_first_class(const double *scores, size_t classes);

/* counts[t * classes + p]: rows with class t and first class p. */
MR_API void mr_confusion(const mr_scored *scored, uint64_t *counts);

typedef struct mr_class_figures {
    uint64_t rows, first, right; /* rows with the class; with it as first class; with both */
    double precision, recall, f1;
} mr_class_figures;

typedef struct mr_figures {
    uint64_t rows, right;
    double accuracy, balanced_accuracy;
    double precision, recall, f1; /* means over classes that occur in the rows or as a first class */
} mr_figures;

/* Computes figures for each class, `classes` of them, and for all, from a confusion matrix. */
MR_API void mr_figures_make(const uint64_t *confusion, size_t classes, mr_class_figures *each, mr_figures *all);

MR_API double mr_log_loss(const mr_scored *scored);

/* A point on the two curves of a class: rows with at least this score count as positive. */
typedef struct mr_curve_point {
    double threshold;
    uint64_t true_positives, false_positives;
} mr_curve_point;

typedef struct mr_curve {
    size_t count;           /* number of points: one per distinct score, highest first */
    mr_curve_point *points; /* room for one per row */
    uint64_t positives, negatives;
    double roc_area, average_precision;
} mr_curve;

/* Computes the curves of class `of` against the rest. The caller owns `points`. */
MR_API int mr_curve_make(const mr_scored *scored, int32_t of, mr_curve *curve);

typedef struct mr_calibration_bin {
    uint64_t rows, right;
    double mean_score; /* mean over the bin's rows; 0 if there are none */
} mr_calibration_bin;
/* Fills `count` bins. Returns the expected calibration error. */
MR_API double mr_calibrate(const mr_scored *scored, size_t count, mr_calibration_bin *bins);

/* The temperature for these logits (scored->scores), within 0.05 .. 20. */
MR_API double mr_temperature(const mr_scored *scored);

typedef struct mr_interval {
    double low, high;
} mr_interval;
/* Computes a figure for some rows. `row` has their indexes, with repetitions. NaN: not defined; the resample is left
 * out. */
typedef double mr_figure_function(void *user, const size_t *row, size_t count);
/* Computes the interval that holds `share` (0.95) of the resamples. group[i] is the group of row i, 0 <= group <
 * groups. Percentiles are interpolated linearly, as in numpy.percentile. Both ends are NaN if no resample has the
 * figure. */
MR_API int mr_bootstrap(const int32_t *group, size_t rows, size_t groups, size_t resamples, uint64_t seed,
                        double share, mr_figure_function *figure, void *user, mr_interval *interval);

/* Computes the 95% interval of a share of rows, such as the accuracy. It is Wilson's (Probable Inference, 1927), which
 * stays open if no row is wrong. right[i]: row i counts. Rows in a group may resemble each other, so they count as rows
 * / D. D is the share's variance over groups, divided by the variance for independent rows, and at least 1 (Korn and
 * Graubard, 1998). If all rows are right, none is, or all are in one group, D is not known and each group counts once.
 * Both ends are NaN if there are no rows. */
MR_API int mr_share_interval(const int32_t *group, const bool *right, size_t rows, size_t groups,
                             mr_interval *interval);

/* ---- objects ---------------------------------------------------------------------------------------------------- */

/* A box in a picture. Pictures and classes are numbered from 0. */
typedef struct mr_boxed {
    size_t image;
    int32_t label; /* number of the class */
    double left, top, width, height;
    double score;  /* of an object that was found */
    double area;   /* of a true object: decides its size */
    bool crowd;    /* of a true object: it stands for several, and what is found in it is neither right nor wrong */
    int64_t track; /* its number in the sequence; 0: none */
} mr_boxed;

/* Means over classes that have true objects, as COCO defines them (cocoeval.py in pycocotools 2.0.11). Precision is
 * averaged over 101 recalls, and everything but the next two over ten overlaps, 0.5 to 0.95. Small objects have an area
 * below 32 x 32 pixels, large ones above 96 x 96. NaN: there are no such objects. */
typedef struct mr_object_figures {
    double precision, precision_50, precision_75; /* mAP; at the overlaps 0.5 and 0.75 */
    double precision_small, precision_medium, precision_large;
    double recall_1, recall_10, recall_100; /* with at most this number of objects in a picture and class */
    double recall_small, recall_medium, recall_large;
} mr_object_figures;

/* Compares objects that were found with the true ones. Among equal scores the earlier picture counts first, then the
 * earlier object. `each`: the precision of each class; NaN: it has no true objects. MR_ERROR_MEMORY. */
MR_API int mr_object_figures_make(const mr_boxed *truth, size_t truth_count, const mr_boxed *found, size_t found_count,
                                  size_t classes, mr_object_figures *all, double *each);

/* Figures of tracks, over all classes and sequences, as trackeval 1.3.0 defines them: CLEAR MOT (Bernardin and
 * Stiefelhagen, 2008), IDF1 (Ristani et al., 2016) and HOTA (Luiten et al., 2021). */
typedef struct mr_track_figures {
    uint64_t objects, found, matched, switches; /* boxes that count; switches: a true track got another number */
    uint64_t tracks, found_tracks;
    uint64_t mostly_tracked, mostly_lost; /* true tracks matched in more than 0.8, less than 0.2, of their pictures */
    double mota, motp;                    /* motp: the mean overlap of matches */
    double idf1, id_precision, id_recall;
    double hota, detection, association; /* means over the overlaps 0.05, 0.1, ... 0.95 */
} mr_track_figures;

/* Compares tracks that were found with the true ones. Pictures of a sequence have numbers in order of time; sequence[i]
 * is that of picture i, and does not fall; NULL: there is one. Found objects without a track do not count, nor do those
 * on a crowd; true objects with a label below 0 only take part in that comparison. MR_ERROR_MEMORY. */
MR_API int mr_track_figures_make(const mr_boxed *truth, size_t truth_count, const mr_boxed *found, size_t found_count,
                                 size_t classes, const size_t *sequence, size_t sequences, mr_track_figures *all);

#ifdef __cplusplus
}
#endif
#endif
