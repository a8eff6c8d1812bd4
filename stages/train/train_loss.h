/* Steps that kinds of classifiers share: their matrices, and how well the validation rows are told.
 *
 * One thread at a time. Errors: MR_ERROR_MEMORY. */
#pragma once

#include "stages/train/training.h"

/* Rows of the whole, as a layer: parameters as in fit_linear.h divided by `divisor`, rounded to float. */
int mr_train_layer(mr_matrix_f32 *layer, const double *parameters, size_t units, size_t inputs, double divisor);
/* The temperature of the classifier's logits of validation rows; 1 if there are none. */
int mr_train_temperature(const mr_fitting *training, const mr_trained *trained, double *temperature);
/* The mean log loss of the validation rows, as the classifier will be used. `workers` has room for the task below. */
double mr_train_log_loss(const mr_fitting *training, const mr_trained *trained, mr_fit_workers *workers);
/* The largest of two tasks, for a group of workers that does both. */
mr_fit_task mr_train_larger(const mr_fit_task *a, const mr_fit_task *b);
/* The task of mr_train_log_loss for a classifier of these sizes. */
mr_fit_task mr_train_loss_task(const mr_fitting *training, const mr_trained *trained);
/* A penalty that was tried goes into the card; `loss` NaN: there is no validation. *better: it is the best so far. Of
 * equal ones the strongest penalty is the best. */
void mr_train_tried(mr_fitting *training, mr_fit_tried tried, bool *better);
