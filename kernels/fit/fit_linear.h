/* Linear classifiers: loss and gradient for a chunk of rows.
 *
 * A row x of `width` features has the logits z = W x + b, one for each class. Its loss, and the objective:
 *   softmax        -log(exp(z_y) / sum over j of exp(z_j)), y the row's class (multinomial logistic regression)
 *   logistic       sum over j of log(1 + exp(-s_j z_j)), s_j = 1 for the row's class, else -1 (one against the rest)
 *   squared hinge  sum over j of max(0, 1 - s_j z_j)^2 (linear support vector machines, one against the rest)
 *   F = 1/V * sum over rows of v * loss + |W|^2 / (2 C V),  v the row's weight, V the sum of all weights
 * The bias is not penalised. With rows of weight 1 the first is scikit-learn's LogisticRegression objective divided by
 * C n (user guide, 1.1.11.1).
 *
 * Products are in floats (or doubles, if `doubles`), everything else in doubles. The bits in a chunk's sums depend only
 * on its rows, W, b and the processor kind.
 *
 * Parameters are one vector: W row by row, then b. A chunk's sum is the unscaled loss's gradient in the same order,
 * followed by the loss: `parameters + 1` numbers, which mr_fit_sum adds.
 *
 * Threads: pure functions on the caller's memory; each thread needs separate scratch memory. Errors:
 * MR_ERROR_MEMORY. */
#pragma once

#include "kernels/fit/fit_rows.h"

typedef enum mr_fit_loss { MR_FIT_SOFTMAX, MR_FIT_LOGISTIC, MR_FIT_SQUARED_HINGE } mr_fit_loss;

typedef struct mr_fit_linear {
    const mr_fit_rows *rows;
    size_t outputs; /* classes */
    mr_fit_loss loss;
    bool doubles;
} mr_fit_linear;

static inline size_t mr_fit_parameters(const mr_fit_linear *linear) {
    return linear->outputs * (linear->rows->width + 1);
}

/* The parameters to sum for, and W as the products need it. */
typedef struct mr_fit_point {
    const mr_fit_linear *linear;
    const double *parameters;
    void *weights; /* floats or doubles, outputs x width; room for doubles is enough */
} mr_fit_point;

/* Sets the parameters; must be called once before all chunks. */
void mr_fit_point_set(mr_fit_point *point, const double *parameters);
/* The task that sums over all chunks at that point. */
mr_fit_task mr_fit_linear_task(mr_fit_point *point);
/* F and its gradient from the sum over all chunks. `total`: V; `c`: C. `gradient` may be `sum`. */
double mr_fit_objective(const mr_fit_linear *linear, const double *parameters, const double *sum, double total,
                        double c, double *gradient);
