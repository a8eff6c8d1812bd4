/* Each feature's mean and spread, which standardise rows.
 *
 * mean = sum of v x / V; factor = 1 / sqrt(sum of v (x - mean)^2 / V), v the row's weight, V the sum of all weights. A
 * feature that is the same in all rows has factor 0, so that it counts for nothing. Two passes over the rows, in double
 * precision, by the tree in fit_sum.h: the bits do not depend on the number of threads. This is scikit-learn's
 * StandardScaler, except that it leaves constant features as they are.
 *
 * A linear classifier on standardised features is also one on the features themselves: mr_fit_fold puts the scaler into
 * it.
 *
 * Errors: MR_ERROR_MEMORY; MR_ERROR_DATA if a feature is not a finite number, with its place. */
#pragma once

#include "kernels/fit/fit_rows.h"

/* The largest task that mr_fit_scaler runs; workers and nodes must have room for it. */
mr_fit_task mr_fit_scaler_task(const mr_fit_rows *rows);
/* Measures rows->mean and rows->factor (which are not read) into `mean` and `factor`, `width` numbers each. `nodes`
 * must have room for the task's blocks. */
int mr_fit_scaler(const mr_fit_rows *rows, mr_fit_workers *workers, double *nodes, double *mean, double *factor);

/* The same classifier for features that are not standardised: W' = W factor, b' = b - W' mean. In place; parameters as
 * in fit_linear.h. */
void mr_fit_fold(double *parameters, size_t outputs, size_t width, const double *mean, const double *factor);
