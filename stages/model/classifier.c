#include "stages/model/classifier.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "millrace/status.h"

static const char *const kinds[] = {"softmax", "logistic", "squared-hinge", "prototypes", "neighbors", "perceptron"};
enum { KINDS = sizeof kinds / sizeof *kinds, TOGETHER = 32 };

const char *mr_classifier_kind_name(mr_classifier_kind kind) {
    return (unsigned)kind < KINDS ? kinds[kind] : NULL;
}

int mr_classifier_kind_find(const char *name, mr_classifier_kind *kind) {
    for (int i = 0; i < KINDS; i++)
        if (strcmp(name, kinds[i]) == 0) {
            *kind = (mr_classifier_kind)i;
            return MR_OK;
        }
    return mr_fail(MR_ERROR_USAGE, "there is no classifier \"%.60s\"; there are softmax, logistic, squared-hinge, "
                                   "prototypes, neighbors and perceptron", name);
}

const char *mr_classifier_file(const mr_trained *trained, size_t index, char *text) {
    if (trained->kind == MR_CLASSIFIER_NEIGHBORS)
        return index == 0 ? "vectors.npy" : index == 1 ? "classes.npy" : NULL;
    if (index >= trained->layers)
        return NULL;
    if (trained->kind != MR_CLASSIFIER_PERCEPTRON)
        return "weights.npy";
    snprintf(text, 16, "layer-%u.npy", (unsigned)index + 1);
    return text;
}

const char *mr_classifier_activation(const mr_trained *trained) {
    static const char *const names[] = {"none", "softmax", "sigmoid"};
    return names[trained->activation];
}

void mr_classifier_destroy(mr_classifier **classifier) {
    mr_classifier *gone = *classifier;
    *classifier = NULL;
    if (!gone)
        return;
    mr_trained_fini(&gone->trained);
    mr_arena_fini(&gone->arena);
    mr_free(gone);
}

const mr_classifier_card *mr_classifier_card_of(const mr_classifier *classifier) {
    return &classifier->card;
}

/* ---- scores ---------------------------------------------------------------------------------------------------- */

/* Computes scores for all classes, in class order; all are NaN if the logits yield none. `best` must have room for 2
 * numbers per class. */
static void make_scores(const mr_trained *t, float *row, float *best) {
    int32_t *index = (int32_t *)(void *)(best + t->classes), found = 0;
    mr_top_k(&(mr_top_k_work){.logits = row, .count = (int)t->classes, .most = (int)t->classes,
                              .activation = t->activation, .threshold = -INFINITY, .index = index, .score = best,
                              .found = &found});
    for (int32_t i = 0; i < (int32_t)t->classes && found == MR_TOP_K_NOT_FINITE; i++)
        row[i] = NAN;
    for (int32_t i = 0; i < found; i++)
        row[index[i]] = best[i];
}

static int work_through(const mr_classifier *classifier, const float *features, size_t rows, size_t stride, bool scores,
                        float *to) {
    const mr_trained *t = &classifier->trained;
    const size_t scratch = mr_trained_scratch(t, TOGETHER), classes = t->classes;
    float *memory = mr_alloc((scratch + 2 * classes) * sizeof *memory);
    if (!memory)
        return mr_fail(MR_ERROR_MEMORY, "no memory to classify");
    for (size_t first = 0, some; first < rows; first += some) {
        some = rows - first < TOGETHER ? rows - first : TOGETHER;
        mr_trained_logits(&(mr_trained_work){.trained = t, .vectors = features + first * stride, .stride = stride,
                                             .batch = (int)some, .scratch = memory, .logits = to + first * classes});
        for (size_t i = first; scores && i < first + some; i++)
            make_scores(t, to + i * classes, memory + scratch);
    }
    mr_free(memory);
    return MR_OK;
}

int mr_classifier_scores(const mr_classifier *classifier, const float *features, size_t rows, size_t stride,
                         float *scores) {
    MR_PLAIN_NUMBERS;
    return work_through(classifier, features, rows, stride ? stride : classifier->trained.width, true, scores);
}

int mr_classifier_logits(const mr_classifier *classifier, const float *features, size_t rows, size_t stride,
                         float *logits) {
    MR_PLAIN_NUMBERS;
    return work_through(classifier, features, rows, stride ? stride : classifier->trained.width, false, logits);
}
