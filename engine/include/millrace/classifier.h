/* Classifiers that a program fits to rows of features, saves in a folder and opens again.
 *
 *     mr_labelled_rows rows = {.features = x, .rows = 5000, .width = 324, .classes = y, .parts = parts,
 *                              .class_count = 10, .class_names = names};
 *     mr_fit_params params = {.kind = MR_CLASSIFIER_SOFTMAX, .class_weights = MR_CLASS_WEIGHTS_BALANCED};
 *     mr_classifier *classifier;
 *     if (mr_classifier_fit(&classifier, &rows, &params)) { fprintf(stderr, "%s\n", mr_message()); ... }
 *     mr_classifier_save(classifier, "head", &notes);
 *     mr_classifier_destroy(&classifier);
 *
 * Features are standardised with the mean and standard deviation of the training rows only. The fit folds this scaler
 * into the classifier in double precision, so a classifier takes features as they are.
 *
 * The same rows and parameters give the same bits with any number of threads on one kind of processor. This also holds
 * if a fit was cancelled or killed and continues from its file of state.
 *
 * A classifier is immutable once it is fitted or opened: any thread may use it. A fit uses the calling thread and those
 * that it starts. Each function states its errors; all of them may also return MR_ERROR_MEMORY.
 *
 * Unstable: made for the command; it may change with any version (version.h). */
#ifndef MILLRACE_CLASSIFIER_H
#define MILLRACE_CLASSIFIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mr_classifier_kind {
    MR_CLASSIFIER_SOFTMAX,       /* multinomial logistic regression */
    MR_CLASSIFIER_LOGISTIC,      /* logistic regression, each class against the rest */
    MR_CLASSIFIER_SQUARED_HINGE, /* linear support vector machines, each class against the rest */
    MR_CLASSIFIER_PROTOTYPES,    /* the class whose mean is nearest */
    MR_CLASSIFIER_NEIGHBORS,     /* the class that most of the k nearest training rows have */
    MR_CLASSIFIER_PERCEPTRON     /* hidden layers of rectified units */
} mr_classifier_kind;
/* "softmax", "logistic", "squared-hinge", "prototypes", "neighbors", "perceptron", as in a head's card. NULL: there is
 * no such kind. */
MR_API const char *mr_classifier_kind_name(mr_classifier_kind kind);
/* MR_ERROR_USAGE: there is no such kind; the message lists the names. */
MR_API int mr_classifier_kind_find(const char *name, mr_classifier_kind *kind);

/* The part of the data to which a row belongs. */
typedef enum mr_row_part {
    MR_ROW_TRAIN,      /* fitted */
    MR_ROW_VALIDATION, /* selects the penalty and decides when a perceptron stops */
    MR_ROW_TEST,       /* ignored by a fit */
    MR_ROW_NONE        /* left out */
} mr_row_part;

/* Rows of features with known classes. The caller owns the memory, which is read until the call returns. It may be a
 * mapped file. Grows at its end (version.h). */
typedef struct mr_labelled_rows {
    const float *features;     /* `rows` times `width` numbers; each row starts `stride` numbers after the previous
                                  one */
    size_t rows, width, stride; /* stride 0: width */
    const int32_t *classes;    /* one per row, 0 <= class < class_count */
    const uint64_t *groups;    /* Optional. One per row: any number that identifies a file, person or day. NULL: each
                                  row is its own group. */
    const uint8_t *parts;      /* Optional. One per row: an mr_row_part. NULL: all are for training. */
    size_t class_count;
    const char *const *class_names; /* one per class: one line of UTF-8, at most 4,096 bytes */
} mr_labelled_rows;

typedef enum mr_class_weights {
    MR_CLASS_WEIGHTS_NONE,    /* each training row has weight 1 */
    MR_CLASS_WEIGHTS_BALANCED /* classes have equal weight: a row has rows / (classes * rows in its class) */
} mr_class_weights;

typedef enum mr_scaling {
    MR_SCALING_USUAL,    /* standard; none for prototypes and neighbors */
    MR_SCALING_NONE,     /* features as they are */
    MR_SCALING_STANDARD  /* (x - mean) / standard deviation of the training rows; constant features have no effect */
} mr_scaling;

/* The progress of a fit. */
typedef struct mr_fit_progress {
    size_t penalty, penalties; /* index of the current penalty, and the number of penalties */
    double c;
    int step;                  /* L-BFGS step; perceptron: epoch */
    double objective;
    double gradient;           /* the largest component; perceptron: 0 */
    double validation;         /* log loss of the last perceptron epoch; NaN: not known */
} mr_fit_progress;

/* Grows at its end (version.h): set fields by name and leave the others zero. */
typedef struct mr_fit_params {
    mr_classifier_kind kind;
    mr_class_weights class_weights; /* not for prototypes and neighbors */
    mr_scaling scaling;
    bool doubles;            /* Computes products in double precision, which takes twice as long. Not for prototypes
                                and neighbors, which have no products. */
    size_t penalty_count;    /* With several penalties, the fit takes the one with the smallest log loss on the
                                validation rows; on a tie, the strongest. Without validation rows there can be only
                                one. */
    const double *penalties; /* C: the objective is mean loss + |W|^2 / (2 C n), where n is the sum of row weights.
                                Count 0: 0.0001, 0.001, ... 100 with validation rows, else 1; perceptrons 10000. */
    double gradient;         /* The fit ends once no component of the gradient is larger. 0: 1e-6, with doubles 1e-8.
                                If the objective is below 0.01, the bound is this times 100 objectives. */
    int steps;               /* most steps per penalty; perceptrons: epochs. 0: 1000; perceptrons 200 */
    size_t hidden_count;     /* perceptrons: hidden layers, at most 7; 0: one with 128 and one with 64 units */
    const size_t *hidden;    /* units per hidden layer */
    size_t minibatch;        /* perceptrons: rows, a multiple of 256; 0: 256 */
    double rate;             /* perceptrons: Adam's step; 0: 0.001 */
    int patience;            /* perceptrons: epochs without a better validation log loss before the fit stops; 0: 10 */
    size_t k;                /* neighbors; 0: 5 */
    uint64_t seed;           /* perceptrons: initial weights and row order */
    int threads;             /* 1 to 64; 0: one per usable core. The result does not depend on it. */
    const char *state;       /* Optional. A file for the state of the fit. It is written now and then and on
                                cancellation, so that the fit can be resumed. It is removed at the end, unless
                                `keep_state`. */
    bool resume;             /* Continues from `state` if the file exists. MR_ERROR_DATA: the file is from other rows
                                or parameters. */
    /* Optional. Called on the calling thread after each step. Any return value other than 0 cancels the fit. */
    int (*progress)(void *user, const mr_fit_progress *progress);
    /* Optional. Called with each warning, one sentence without a full stop: constant features, a class with one group,
     * ... The card has the warnings too. */
    void (*warning)(void *user, const char *text);
    void *user;
    /* Softmax, logistic, squared hinge and perceptron: writes the whole fit to `state` at the end. The caller should
     * remove the file once the classifier is saved. A fit that continues from it ends at once, with the same bits. If
     * it cannot be written, `warning` is called and the fit does not fail. */
    bool keep_state;
} mr_fit_params;

typedef struct mr_classifier mr_classifier;

/* mr_classifier_fit for callers that pass the sizes of the structs themselves. */
MR_API int mr_classifier_fit_sized(mr_classifier **classifier, const mr_labelled_rows *rows, size_t rows_bytes,
                                   const mr_fit_params *params, size_t params_bytes);
/* Fits a classifier. On failure *classifier is NULL. MR_ERROR_USAGE: invalid parameters. MR_ERROR_DATA: rows that
 * cannot be fitted, such as a single class, a class without training rows, or a feature that is not finite, with its
 * place. MR_ERROR_CANCELLED: `progress` cancelled it. MR_ERROR_IO: the file of state. MR_ERROR_UNAVAILABLE: no thread,
 * or a missing device. MR_ERROR_CONFIG: an invalid device name. MR_ERROR_DEVICE: a device failed. */
static inline int mr_classifier_fit(mr_classifier **classifier, const mr_labelled_rows *rows,
                                    const mr_fit_params *params) {
    return mr_classifier_fit_sized(classifier, rows, sizeof *rows, params, sizeof *params);
}
/* Frees a classifier and sets *classifier to NULL; NULL is allowed. */
MR_API void mr_classifier_destroy(mr_classifier **classifier);

/* Computes scores, `class_count` per row, dense, as the stage `classify` gives them. Softmax, prototypes and
 * perceptron: probabilities that add up to 1. Squared hinge: the same, with a temperature that was fitted to the
 * validation rows (1 without any). Logistic: 0 to 1 for each class alone. Neighbors: the share of the k nearest rows. A
 * row's first class has the largest score; on a tie, the lower index. A row's scores do not depend on other rows. They
 * equal those of `classify` on a processor with `batch: 1`, bit for bit. */
MR_API int mr_classifier_scores(const mr_classifier *classifier, const float *features, size_t rows, size_t stride,
                                float *scores);
/* The same before softmax or the logistic function. Neighbors: the shares. */
MR_API int mr_classifier_logits(const mr_classifier *classifier, const float *features, size_t rows, size_t stride,
                                float *logits);

/* A penalty that the fit tried. */
typedef struct mr_fit_tried {
    double c;
    double objective;  /* on the training rows, at the end of the fit */
    double validation; /* log loss on the validation rows; NaN: there are none */
    int steps;         /* L-BFGS steps; perceptrons: epochs up to the best one */
    const char *end;   /* "gradient": small enough; "progress" or "precision": falls no further; "steps": reached the
                          limit; "patience" */
} mr_fit_tried;

/* A classifier's card: what is known about it. It belongs to the classifier and is immutable. Grows at its end
 * (version.h): a program must not copy it. Unknown texts are "". */
typedef struct mr_classifier_card {
    mr_classifier_kind kind;
    size_t width;              /* number of features */
    size_t class_count;
    const char *const *class_names;
    size_t layer_count;        /* perceptrons: layers of weights */
    const size_t *units;       /* units per layer */
    size_t k, vectors;         /* neighbors: k, and the number of kept rows */
    bool doubles, balanced, standardised;
    uint64_t seed;
    size_t tried_count, chosen; /* penalties in the order in which they were fitted; the index of the chosen one */
    const mr_fit_tried *tried;
    uint64_t train_rows, validation_rows, test_rows;
    size_t constant_features;  /* constant in the training rows */
    size_t warning_count;
    const char *const *warnings;
    /* The rest is as in mr_head_notes, for classifiers that were opened. */
    const char *version;       /* the version of millrace that wrote the folder */
    const char *pipeline;
    const char *stages;
    const char *digest;
    const char *tensor;
    const char *split;
    const char *figures;       /* JSON */
} mr_classifier_card;
MR_API const mr_classifier_card *mr_classifier_card_of(const mr_classifier *classifier);

/* What the program knows for the card and the fit does not. NULL: not known. Grows at its end (version.h). */
typedef struct mr_head_notes {
    const char *pipeline; /* name of the pipeline that makes the vectors */
    const char *stages;   /* the pipeline's stages up to the vector, from mr_planned_lineage (stage.h) */
    const char *digest;   /* digest of that text; `classify` compares it with the digest of its pipeline */
    const char *tensor;   /* the vector's name among the results, if there are several */
    const char *split;    /* how the rows were split, in words or as JSON: "hash of the group, 0.7 0.15 0.15, seed 1" */
    const char *figures;  /* figures for the test rows: a JSON value */
    const char *sign_key; /* Optional. File with the private key that signs the folder (signature.h). NULL: not
                             signed. */
} mr_head_notes;

/* mr_classifier_save for callers that pass the size of the notes themselves. */
MR_API int mr_classifier_save_sized(const mr_classifier *classifier, const char *folder, const mr_head_notes *notes,
                                    size_t notes_bytes);
/* Writes the folder that `classify` takes as its option `head`. It has head.json (the card), labels.txt and the
 * numbers: weights.npy; layer-1.npy, layer-2.npy, ... for a perceptron; vectors.npy and classes.npy for neighbors. A
 * signed folder also has head.sig and head.pub. The folder is made under a temporary name beside the final one, synced
 * to the disk and renamed, so a partial folder never exists. It replaces a head folder with that name; where the file
 * system can, the names are exchanged. Anything else with that name is refused, as is a head folder that holds other
 * files. `notes` is optional. MR_ERROR_USAGE: figures that are not JSON. MR_ERROR_PERMISSION, MR_ERROR_IO; errors of
 * mr_signing_key_check. */
static inline int mr_classifier_save(const mr_classifier *classifier, const char *folder, const mr_head_notes *notes) {
    return mr_classifier_save_sized(classifier, folder, notes, sizeof *notes);
}
/* Checks whether mr_classifier_save would accept that name. MR_ERROR_IO: the message names the entry in the way. */
MR_API int mr_classifier_check_folder(const char *folder);
/* Opens a head folder. On failure *classifier is NULL. MR_ERROR_NO_INPUT. MR_ERROR_DATA: it is no head folder, has a
 * later version, or a file was changed; the message has the file and the reason. */
MR_API int mr_classifier_open(mr_classifier **classifier, const char *folder);

/* A row whose neighbours disagree with its class. */
typedef struct mr_noisy_row {
    size_t row;
    int32_t class_given, class_near; /* the row's class; the class that most neighbours have */
    double share;                    /* share of neighbours with class_near */
} mr_noisy_row;
typedef struct mr_noise_params {
    size_t k;        /* neighbours per row; 0: 10 */
    double share;    /* least share of neighbours; 0: 0.8 */
    uint64_t seed;
    int threads;     /* as in mr_fit_params */
    bool (*stopped)(void *user); /* Optional. Called now and then on these threads; true ends the call with
                                    MR_ERROR_CANCELLED. */
    void *user;
} mr_noise_params;
/* mr_label_noise for callers that pass the size of the rows themselves. */
MR_API int mr_label_noise_sized(const mr_labelled_rows *rows, size_t rows_bytes, const mr_noise_params *params,
                                mr_noisy_row *noisy, size_t most, size_t *found);
/* Finds rows whose class differs from that of most of the k nearest rows in other groups, surest first. It uses rows
 * for training and validation. A row whose class has no rows in other groups is not judged. Features are standardised.
 * Neighbours come from at most 20,000 rows, drawn from the seed. Writes up to `most` rows; *found is the total. Errors
 * as for mr_classifier_fit. */
static inline int mr_label_noise(const mr_labelled_rows *rows, const mr_noise_params *params, mr_noisy_row *noisy,
                                 size_t most, size_t *found) {
    return mr_label_noise_sized(rows, sizeof *rows, params, noisy, most, found);
}

#ifdef __cplusplus
}
#endif
#endif
