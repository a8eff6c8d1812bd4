/* Judges scores: all figures in `train` and `evaluate`, from one place, as text, as JSON, and for the page.
 *
 * Definitions: millrace/figures.h, which follows scikit-learn. One thread at a time. */
#pragma once

#include <stdio.h>

#include "engine/base/json.h"
#include "millrace/figures.h"

enum { MR_JUDGE_BINS = 15, MR_JUDGE_POINTS = 200, MR_JUDGE_CURVES = 12 };

/* The rows. The caller owns all memory and must keep it valid. */
typedef struct mr_judged {
    mr_scored scored;
    const int32_t *group; /* per row, 0 <= group < groups */
    size_t groups;
    const char *const *names; /* class names */
    uint64_t seed;            /* seed for the intervals */
    bool (*stopped)(void);    /* called from time to time; true: MR_ERROR_CANCELLED. NULL: not called */
} mr_judged;

/* Rows with class `truth` whose first class is `first`, a different one. */
typedef struct mr_mixed_pair {
    int32_t truth, first;
    uint64_t rows;
} mr_mixed_pair;

typedef struct mr_wrong_row {
    size_t row;
    int32_t first;
    double score; /* that class's score */
} mr_wrong_row;

typedef enum mr_judged_figure {
    MR_JUDGED_ACCURACY,
    MR_JUDGED_BALANCED,
    MR_JUDGED_F1,
    MR_JUDGED_LOG_LOSS,
    MR_JUDGED_FIGURES
} mr_judged_figure;

typedef struct mr_judgement {
    const mr_judged *of;
    uint64_t *confusion; /* classes x classes */
    mr_class_figures *each;
    mr_figures all;
    double log_loss;
    mr_interval interval[MR_JUDGED_FIGURES]; /* 95%; for the accuracy, Wilson's */
    mr_curve *curves;                        /* one per class; about MR_JUDGE_POINTS points each */
    double roc_area, average_precision;      /* means over classes that have one */
    mr_calibration_bin bins[MR_JUDGE_BINS];
    double calibration_error;
    size_t pair_count; /* the most frequent first */
    mr_mixed_pair *pairs;
    size_t wrong_count; /* the surest first */
    mr_wrong_row *wrong;
    int32_t *first; /* per row */
} mr_judgement;

/* MR_ERROR_MEMORY, MR_ERROR_CANCELLED. The caller must finish it in any case. */
int mr_judge(mr_judgement *made, const mr_judged *of);
void mr_judgement_fini(mr_judgement *judgement);

double mr_judgement_value(const mr_judgement *judgement, mr_judged_figure figure);
/* Prints a line with accuracy and the interval, one with the other figures, and the pairs that are confused most. */
void mr_judgement_tell(const mr_judgement *judgement, FILE *stream);
/* Writes object members. `whole`: includes classes, confusion and calibration; otherwise only a few numbers,
 * for a card. */
void mr_judgement_put(const mr_judgement *judgement, bool whole, yajl_gen json);
/* Writes an array "curves": for the classes with the smallest ROC area, at most MR_JUDGE_CURVES, their points [share of
 * other classes, recall, precision]. */
void mr_judgement_put_curves(const mr_judgement *judgement, yajl_gen json);
