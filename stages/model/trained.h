/* A classifier in use: matrices, and how they give a vector's scores.
 *
 * All kinds begin with a product, M x + b, where M's last column is b. For linear classifiers and prototypes, the
 * result is the logits. For perceptrons, it is the first layer, with max(0, x) between layers. For neighbors, each
 * matrix row is a kept vector v with bias -|v|^2 / 2: the product is larger the nearer v is to x. The k largest vote,
 * and the logits are the shares of votes.
 *
 * Ownership: a classifier owns its arrays. Constant once filled: any thread. */
#pragma once

#include <stdbool.h>

#include "engine/device/resident.h"
#include "kernels/vector/vector.h"
#include "millrace/classifier.h"
#include "stages/model/npy.h"

enum { MR_TRAINED_LAYERS = 8 };

typedef struct mr_trained {
    mr_classifier_kind kind;
    mr_activation activation;
    size_t width, classes;
    size_t layers;                           /* 1, except for perceptrons */
    mr_matrix_f32 layer[MR_TRAINED_LAYERS];  /* units x (inputs + 1); neighbors: vectors x (width + 1) */
    int32_t *vector_classes;                 /* neighbors: the class of each kept vector */
    size_t k;
} mr_trained;

/* Accepts a zeroed one. */
void mr_trained_fini(mr_trained *trained);
/* Whether the logits are one product. */
static inline bool mr_trained_is_linear(const mr_trained *trained) {
    return trained->kind != MR_CLASSIFIER_NEIGHBORS && trained->kind != MR_CLASSIFIER_PERCEPTRON;
}

/* Computes logits for a batch whose vectors are `stride` numbers apart. A vector's result is bit for bit what it gets
 * alone. The arrays must live until the work is done. */
typedef struct mr_trained_work {
    const mr_trained *trained;
    const float *vectors;
    size_t stride;
    int batch, filler;
    float *scratch; /* mr_trained_scratch numbers */
    float *logits;  /* batch x classes */
} mr_trained_work;
/* How many scratch numbers such a batch needs. */
size_t mr_trained_scratch(const mr_trained *trained, size_t batch);
void mr_trained_logits(const mr_trained_work *work);

/* Copies of a classifier's arrays on devices with separate memory. Everything may be NULL. */
typedef struct mr_trained_copies {
    mr_resident *layer[MR_TRAINED_LAYERS], *vector_classes;
} mr_trained_copies;
/* MR_ERROR_MEMORY; _fini must then be called too. */
int mr_trained_copies_init(mr_trained_copies *copies, const mr_trained *trained);
void mr_trained_copies_fini(mr_trained_copies *copies);
/* Copy size per device, number count over all matrices, and GPU launches per batch. */
size_t mr_trained_bytes(const mr_trained *trained);
size_t mr_trained_numbers(const mr_trained *trained);
int mr_trained_launches(const mr_trained *trained, int batch);

/* Computes logits on a stream. A CUDA device uses `copies`, and the result's bits can depend on the batch size. */
int mr_trained_enqueue(mr_stream *stream, const mr_trained_work *work, mr_trained_copies *copies);
