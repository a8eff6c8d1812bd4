/* The rows that a classifier is fitted to, and how products read them: a chunk at a time, standardised, as floats or
 * doubles.
 *
 * Features are standardised in double precision, (x - mean) * factor, before they are rounded to float. A chunk always
 * has MR_FIT_CHUNK rows, with zeros after the last real one, because BLIS multiplies a single row in another order. So
 * a row's products have the same bits wherever it is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/fit/fit_workers.h"

typedef struct mr_fit_rows {
    const float *features; /* rows x width, `stride` numbers apart */
    size_t stride, width, count;
    const uint32_t *order;  /* count rows in the order in which chunks take them; NULL: as they are */
    const int32_t *classes; /* each row's, 0 <= class < outputs */
    const double *weights;  /* each row's; NULL: 1 */
    const double *mean, *factor; /* each feature's; NULL: not standardised */
} mr_fit_rows;

/* Rows of a chunk: MR_FIT_CHUNK, or fewer if it is the last. */
size_t mr_fit_rows_of(const mr_fit_rows *rows, size_t chunk);
/* The row at position `at` in the order. */
static inline size_t mr_fit_row(const mr_fit_rows *rows, size_t at) {
    return rows->order ? rows->order[at] : at;
}
static inline double mr_fit_row_weight(const mr_fit_rows *rows, size_t row) {
    return rows->weights ? rows->weights[row] : 1.0;
}
/* A chunk's features, MR_FIT_CHUNK x width, in `to`. */
void mr_fit_take_floats(const mr_fit_rows *rows, size_t chunk, float *to);
void mr_fit_take_doubles(const mr_fit_rows *rows, size_t chunk, double *to);

/* The loss for a row's logits, with class `own`; logits become the loss's derivatives by them. */
typedef double mr_fit_loss_function(double *logit, size_t outputs, size_t own);
/* -log(exp(z_own) / sum over j of exp(z_j)) */
mr_fit_loss_function mr_fit_softmax;
/* sum over j of log(1 + exp(-s_j z_j)), s_j = 1 for the own class, else -1 */
mr_fit_loss_function mr_fit_logistic;
/* sum over j of max(0, 1 - s_j z_j)^2 */
mr_fit_loss_function mr_fit_squared_hinge;
