/* The file of rows that a fit shares with its helpers (millrace/fit_helpers.h): the training rows of a linear
 * classifier in the order of its chunks, their classes and weights, and the scaler.
 *
 *     helper_rows_head; factor and mean of each feature, weight of each row (doubles, those that there are);
 *     classes (int32); zeros up to a multiple of 64; features (floats)
 *
 * Numbers are in the byte order of the machine; the head tells that of others. The file is written beside its name and
 * renamed, so that it is whole for each reader. One thread. Errors: MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION,
 * MR_ERROR_IO, MR_ERROR_MEMORY; MR_ERROR_DATA: it is not such a file. */
#ifndef MILLRACE_STAGES_TRAIN_HELPER_ROWS_H
#define MILLRACE_STAGES_TRAIN_HELPER_ROWS_H

#include "kernels/fit/fit_linear.h"

/* An open file; zeroed it is none. */
typedef struct mr_helper_rows {
    uint64_t fit; /* number of the fit that it was written for */
    mr_fit_linear linear; /* of `rows` */
    mr_fit_rows rows;
    void *memory;
    size_t bytes;
} mr_helper_rows;

int mr_helper_rows_write(const char *path, const mr_fit_linear *linear, uint64_t fit);
/* Maps it; the struct must stay where it is. */
int mr_helper_rows_open(mr_helper_rows *rows, const char *path);
void mr_helper_rows_close(mr_helper_rows *rows);

#endif
