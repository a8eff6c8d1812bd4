/* Steps that several classifier kinds share: building matrices, and measuring the loss on validation rows.
 *
 * One thread at a time. Errors: MR_ERROR_MEMORY. */
#pragma once

#include "stages/train/training.h"

/* Converts parameters (fit_linear.h) to a layer: divides by `divisor` and rounds to float. */
int mr_train_layer(mr_matrix_f32 *layer, const double *parameters, size_t units, size_t inputs, double divisor);
/* Fits a temperature to the classifier's logits on validation rows; 1 if there are none. */
int mr_train_temperature(const mr_fitting *training, const mr_trained *trained, double *temperature);
/* The mean log loss on validation rows, as the classifier will be used. `workers` must have room for the task below. */
double mr_train_log_loss(const mr_fitting *training, const mr_trained *trained, mr_fit_workers *workers);
/* The larger task in each respect, for a worker group that must do both. */
mr_fit_task mr_train_larger(const mr_fit_task *a, const mr_fit_task *b);
/* The task that mr_train_log_loss needs for a classifier with these sizes. */
mr_fit_task mr_train_loss_task(const mr_fitting *training, const mr_trained *trained);
/* Adds a tried penalty to the card; `loss` NaN: there is no validation. *better: it is the best so far. On a tie, the
 * strongest penalty wins. */
void mr_train_tried(mr_fitting *training, mr_fit_tried tried, bool *better);
