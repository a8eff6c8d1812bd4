/* Does the work for `millrace train`, from data set to head. Main thread. */
#pragma once

#include "tools/millrace/train/exporting.h"
#include "tools/millrace/train/features.h"
#include "tools/millrace/train/judge.h"
#include "tools/millrace/train/near.h"

typedef struct mr_training_params {
    const char *pipeline, *data, *head;
    const char *pictures; /* the folder in which paths in COCO's annotations begin; NULL: that of `data` */
    const char *vectors; /* a vector file for the data's rows; NULL: the pipeline computes them */
    const mr_overrides *overrides;
    const char *stage, *cache; /* NULL: not set */
    mr_fit_params fit;
    uint64_t seed;
    mr_split_shares shares;
    bool skip_near, json;
    bool onnx; /* also write the head as model.onnx */
    const char *sign_key; /* NULL: it is not signed */
    mr_extraction_nodes *spread; /* how to run the pipeline's nodes */
} mr_training_params;

/* A training in progress, and everything its report needs. */
typedef struct mr_training {
    const mr_training_params *params;
    char folder[MR_CACHE_PATH]; /* cache folder */
    char objects[MR_CACHE_PATH + 64]; /* list of pictures that were cut out, for labelled objects */
    char cut_out[MR_CACHE_PATH + 64]; /* their folder */
    int lock, cut_out_lock; /* the head's lock, and that of cut_out; -1: none */
    mr_vector_file *vectors;
    mr_set set;
    mr_extraction extraction;
    mr_features features;
    mr_near near;
    int32_t *classes; /* for the feature rows */
    uint64_t *groups;
    uint8_t *parts;
    mr_labelled_rows rows;
    mr_classifier *classifier;
    double fit_seconds;
    double temperature; /* from the validation part; 0: there is none */
    mr_noisy_row *noisy;
    size_t noisy_count, noisy_listed;
    /* test part's */
    double *scores;
    int32_t *truth, *test_group;
    size_t *test_row; /* feature rows */
    mr_judged judged;
    mr_judgement judgement;
    bool has_test, told, shown;
    mr_exporting exporting; /* with onnx, once the head exists */
    char model[MR_CACHE_PATH]; /* HEAD/model.onnx */
} mr_training;

/* Returns an exit code; errors are printed. */
int mr_train(const mr_training_params *params);

/* report.c: on standard output. */
void mr_training_tell(const mr_training *training, FILE *stream);
int mr_training_put(const mr_training *training, FILE *stream);
/* Reports classes that have no training rows but rows in other parts, and a remedy. */
void mr_training_tell_untrained(const mr_training *training, FILE *stream);
/* The test part's figures and the split, for the card: JSON texts, which the caller must free; NULL: no memory. */
char *mr_training_figures(const mr_training *training);
char *mr_training_split(const mr_training *training);
