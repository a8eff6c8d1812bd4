/* A classifier as it is used: matrices, and how they make the scores of a vector.
 *
 * All kinds begin with a product, M x + b, whose last column is b. Of linear classifiers and prototypes it gives the
 * logits. Of perceptrons it is the first of several layers, with max(0, x) between them. Of neighbors each row of the
 * matrix is a kept vector v with the bias -|v|^2 / 2: what the product gives is larger the nearer v is to x; the k
 * largest vote, and the logits are the shares of the votes.
 *
 * Ownership: a classifier owns its arrays. Once filled it is constant: any thread. */
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
    size_t layers;                           /* 1 but for perceptrons */
    mr_matrix_f32 layer[MR_TRAINED_LAYERS];  /* units x (inputs + 1); of neighbors vectors x (width + 1) */
    int32_t *vector_classes;                 /* of neighbors: of each kept vector */
    size_t k;
} mr_trained;

/* Accepts a zeroed one. */
void mr_trained_fini(mr_trained *trained);
/* Whether the logits are a single product. */
static inline bool mr_trained_is_linear(const mr_trained *trained) {
    return trained->kind != MR_CLASSIFIER_NEIGHBORS && trained->kind != MR_CLASSIFIER_PERCEPTRON;
}

/* Logits of a batch of vectors, `stride` numbers apart. The bits of a vector's are those that it has alone. The arrays
 * must live until the work is done. */
typedef struct mr_trained_work {
    const mr_trained *trained;
    const float *vectors;
    size_t stride;
    int batch, filler;
    float *scratch; /* of mr_trained_scratch numbers */
    float *logits;  /* batch x classes */
} mr_trained_work;
/* Numbers of scratch memory for such a batch. */
size_t mr_trained_scratch(const mr_trained *trained, size_t batch);
void mr_trained_logits(const mr_trained_work *work);

/* The arrays of a classifier as devices with memory of their own have copies of them. All of it may be NULL. */
typedef struct mr_trained_copies {
    mr_resident *layer[MR_TRAINED_LAYERS], *vector_classes;
} mr_trained_copies;
/* MR_ERROR_MEMORY; _fini is due then as well. */
int mr_trained_copies_init(mr_trained_copies *copies, const mr_trained *trained);
void mr_trained_copies_fini(mr_trained_copies *copies);
/* Bytes of the copies on one device, the numbers of all matrices, and the launches of a batch on a GPU. */
size_t mr_trained_bytes(const mr_trained *trained);
size_t mr_trained_numbers(const mr_trained *trained);
int mr_trained_launches(const mr_trained *trained, int batch);

/* The logits on a stream. On a CUDA device by `copies`, and the bits of a vector's may depend on the size of the
 * batch. */
int mr_trained_enqueue(mr_stream *stream, const mr_trained_work *work, mr_trained_copies *copies);
