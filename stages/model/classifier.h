/* An mr_classifier (millrace/classifier.h), and the folder that it is kept in.
 *
 *     head.json    the card, with the SHA-256 of every other file
 *     labels.txt   one class per line
 *     weights.npy  linear classifiers and prototypes: classes x (width + 1), the bias last
 *     layer-1.npy, layer-2.npy, ...  perceptrons: units x (inputs + 1)
 *     vectors.npy  neighbors: vectors x (width + 1), the last column -|v|^2 / 2
 *     classes.npy  neighbors: vectors x 1, the class of each vector
 *
 * Ownership: a classifier owns its arrays; its arena owns the texts. Constant after construction: any thread. */
#pragma once

#include "engine/base/arena.h"
#include "stages/model/trained.h"

enum { MR_HEAD_FORMAT = 1, MR_HEAD_PATH = 4096 };

struct mr_classifier {
    mr_trained trained;
    mr_classifier_card card;
    mr_arena arena;
};

/* The file name for the classifier's array `index`: layers first, then the vectors' classes. NULL: there is no such
 * array. `text` must have room for 16 bytes. */
const char *mr_classifier_file(const mr_trained *trained, size_t index, char *text);
/* "softmax", "sigmoid" or "none". */
const char *mr_classifier_activation(const mr_trained *trained);
