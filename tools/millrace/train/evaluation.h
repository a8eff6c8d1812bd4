/* Does the work for `millrace evaluate`: the pipeline's answers for pictures with known classes. Main thread. */
#pragma once

#include "tools/millrace/train/extract.h"
#include "tools/millrace/train/judge.h"
#include "tools/millrace/train/set.h"
#include "tools/millrace/train/temper.h"

typedef struct mr_evaluation_params {
    const char *pipeline, *data;
    const char *pictures; /* the folder in which paths in COCO's annotations begin; NULL: that of `data` */
    const char *vectors; /* NULL: the pipeline makes them */
    const mr_overrides *overrides;
    const char *stage, *page, *scores; /* NULL: not set */
    const char *part;                  /* "all", "train", "validation", "test" */
    uint64_t seed;                     /* seed for the intervals */
    bool json;
} mr_evaluation_params;

typedef struct mr_evaluation {
    const mr_evaluation_params *params;
    mr_vector_file *vectors;
    mr_set set;
    mr_extraction extraction;
    size_t *wanted; /* rows to score, in set order: the chosen part, and validation */
    size_t wanted_count, part_count;
    bool has_split; /* the head records how the training data was split */
    /* scored pictures in row order; a video's in time order */
    size_t *row;
    int64_t *at_ns;
    size_t count, room;
    size_t class_count; /* the pipeline's; 0: nothing has come yet */
    size_t none;             /* pictures without classes, because logits are not finite */
    char first_none[512];    /* the first such picture */
    char **names;
    double *scores; /* count x class_count */
    int32_t *truth, *group;
    /* for the validation part, as far as known */
    double *validation_scores;
    int32_t *validation_truth;
    size_t validation_count;
    mr_tempered tempered;
    mr_judged judged;
    mr_judgement judgement;
    bool told;
} mr_evaluation;

/* Returns an exit code; errors are printed. */
int mr_evaluate(const mr_evaluation_params *params);

/* Writes the figures as one JSON object. `pictures` NULL: omits the parts that only the page needs. */
struct mr_thumbnail;
int mr_evaluation_put(const mr_evaluation *evaluation, const struct mr_thumbnail *pictures, FILE *stream);
