/* Fits classifiers (millrace/classifier.h): one fit's rows and parameters, shared by all kinds.
 *
 * mr_training_begin checks rows and parameters, lists training and validation rows in the caller's order, and measures
 * the scaler. A kind's fit then fills training->made. One thread at a time; kernels/fit/fit_workers.h provides threads
 * for sums. */
#pragma once

#include "kernels/fit/fit_scaler.h"
#include "stages/model/classifier.h"

enum { MR_TRAIN_THREADS = 64 };

typedef struct mr_fitting {
    mr_labelled_rows given;
    mr_fit_params params;
    mr_classifier *made;          /* its card is filled step by step */
    uint32_t *train, *validation; /* rows */
    size_t train_count, validation_count;
    double *weights;              /* per row; NULL: 1 */
    double total;                 /* total training weight */
    double *mean, *factor;        /* per feature; NULL: not standardised */
    size_t warning_room;
    int64_t written_ns;           /* when the state was last written */
    char problem[33];             /* digest of rows and parameters, for the state file; "": no file */
} mr_fitting;

/* Takes the structs that the program passed. */
int mr_training_begin(mr_fitting *training, const mr_labelled_rows *rows, const mr_fit_params *params);
/* Also frees `made` unless it was taken. */
void mr_training_end(mr_fitting *training);
/* Rows as kernels/fit reads them: for training, with weights, or for validation. */
mr_fit_rows mr_training_rows(const mr_fitting *training, bool validation);
/* Adds a warning to the card and reports it to the program. */
int mr_training_warn(mr_fitting *training, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports the fit's progress to the program; MR_ERROR_CANCELLED if it asks for that. */
int mr_training_report(const mr_fitting *training, const mr_fit_progress *progress);
