/* A perceptron: weight layers with rectified units between them, and softmax after the last.
 *
 *   a_0 = x;  a_l = max(0, W_l a_(l-1) + b_l);  z = W_L a_(L-1) + b_L;  loss = -log softmax(z)_y
 *
 * Parameters are one vector: W_1 row by row (units x inputs), b_1, W_2, ... A chunk's sum is the unscaled loss's
 * gradient in the same order, followed by the loss. Products are in floats (or doubles, if `doubles`), sums in doubles.
 * A chunk's gradient covers only its rows, so minibatches are runs of chunks. Bits as in fit_linear.h.
 *
 * Adam (Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, algorithm 1) follows the gradient of a
 * minibatch, in double precision.
 *
 * Threads: each needs separate scratch memory. No errors. */
#pragma once

#include "kernels/fit/fit_rows.h"

enum { MR_PERCEPTRON_LAYERS = 8 };

typedef struct mr_perceptron {
    const mr_fit_rows *rows;
    size_t layers;                      /* weight layers; at least 1 */
    size_t units[MR_PERCEPTRON_LAYERS]; /* per layer; the last layer's are the classes */
    bool doubles;
} mr_perceptron;

typedef struct mr_perceptron_point {
    const mr_perceptron *perceptron;
    const double *parameters;
    void *weights; /* all W, one after another, floats or doubles; must have room for all parameters as doubles */
    size_t first;  /* the chunk where the task begins */
} mr_perceptron_point;

size_t mr_perceptron_parameters(const mr_perceptron *perceptron);
/* Draws weights from a seed: normal, with variance 2 / inputs (He et al., Delving Deep into Rectifiers, 2015); biases
 * are 0. */
void mr_perceptron_draw(const mr_perceptron *perceptron, uint64_t seed, double *parameters);
/* Sets the parameters; must be called once before all chunks. */
void mr_perceptron_point_set(mr_perceptron_point *point, const double *parameters);
/* The task that sums over `chunks` chunks from point->first. */
mr_fit_task mr_perceptron_task(mr_perceptron_point *point, size_t chunks);
/* Logits of a chunk, MR_FIT_CHUNK x classes; `scratch` as the task says. */
void mr_perceptron_logits(const mr_perceptron_point *point, size_t chunk, void *scratch, double *logits);

typedef struct mr_adam {
    size_t length;
    uint64_t step;
    double *mean, *square; /* of the gradients; zeros at first */
} mr_adam;
/* One step down the gradient: rate 0.001 is usual. */
void mr_adam_step(mr_adam *adam, double rate, const double *gradient, double *parameters);
