/* Classifiers of one's own: fitted to rows of features, kept in a folder, opened again.
 *
 *     mr_labelled_rows rows = {.features = x, .rows = 5000, .width = 324, .classes = y, .parts = parts,
 *                              .class_count = 10, .class_names = names};
 *     mr_fit_params params = {.kind = MR_CLASSIFIER_SOFTMAX, .class_weights = MR_CLASS_WEIGHTS_BALANCED};
 *     mr_classifier *classifier;
 *     if (mr_classifier_fit(&classifier, &rows, &params)) { fprintf(stderr, "%s\n", mr_message()); ... }
 *     mr_classifier_save(classifier, "head", &notes);
 *     mr_classifier_destroy(&classifier);
 *
 * Features are standardised with the mean and the spread of the training rows alone. That scaler is folded into the
 * classifier in double precision, so a classifier takes features as they are.
 *
 * The same rows and parameters make the same bits with any number of threads on one kind of processor, and also if a
 * fit was cancelled or killed and continues from its file of state.
 *
 * A classifier is not changed once it is fitted or opened: any thread may use it. Fitting takes the calling thread and
 * those that it starts. Errors are stated with each function; MR_ERROR_MEMORY may come from all of them.
 *
 * Unstable: it is made for the command, and may change with any version (version.h). */
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
/* "softmax", "logistic", "squared-hinge", "prototypes", "neighbors", "perceptron", as a head's card has it; NULL if
 * there is no such kind. */
MR_API const char *mr_classifier_kind_name(mr_classifier_kind kind);
/* MR_ERROR_USAGE, with the names that there are. */
MR_API int mr_classifier_kind_find(const char *name, mr_classifier_kind *kind);

/* The part of the data that a row belongs to. */
typedef enum mr_row_part {
    MR_ROW_TRAIN,      /* fitted to */
    MR_ROW_VALIDATION, /* decides which penalty is taken and when a perceptron stops */
    MR_ROW_TEST,       /* not looked at by a fit */
    MR_ROW_NONE        /* left out */
} mr_row_part;

/* Rows of features whose class is known. The memory is the caller's and is read until the call returns; it may be a
 * mapped file. Grows at its end (version.h). */
typedef struct mr_labelled_rows {
    const float *features;     /* `rows` times `width` numbers, each row `stride` numbers behind the one before */
    size_t rows, width, stride; /* stride 0: width */
    const int32_t *classes;    /* of each row, 0 <= class < class_count */
    const uint64_t *groups;    /* of each row, any number that names its file, person or day; NULL: each its own */
    const uint8_t *parts;      /* of each row, an mr_row_part; NULL: all are for training */
    size_t class_count;
    const char *const *class_names; /* of each class: UTF-8 of one line, of at most 4,096 bytes */
} mr_labelled_rows;

typedef enum mr_class_weights {
    MR_CLASS_WEIGHTS_NONE,    /* each training row counts as one */
    MR_CLASS_WEIGHTS_BALANCED /* classes count alike: a row counts as rows / (classes * rows of its class) */
} mr_class_weights;

typedef enum mr_scaling {
    MR_SCALING_USUAL,    /* standard; of prototypes and neighbors, none */
    MR_SCALING_NONE,     /* features are taken as they are */
    MR_SCALING_STANDARD  /* (x - mean) / standard deviation of the training rows; constant features count for nothing */
} mr_scaling;

/* How far a fit has come. */
typedef struct mr_fit_progress {
    size_t penalty, penalties; /* the one that is fitted, from 0, and how many there are */
    double c;
    int step;                  /* of L-BFGS; of a perceptron, the epoch */
    double objective;
    double gradient;           /* its largest component; of a perceptron 0 */
    double validation;         /* log loss of the last perceptron epoch; NaN: not known */
} mr_fit_progress;

/* Grows at its end (version.h): fields are set by name, and those that are not set are zero. */
typedef struct mr_fit_params {
    mr_classifier_kind kind;
    mr_class_weights class_weights; /* not of prototypes and neighbors */
    mr_scaling scaling;
    bool doubles;            /* products in double precision, which take twice as long; not of prototypes and
                                neighbors, which have none */
    size_t penalty_count;    /* of several penalties the one with the smallest log loss of the validation rows is taken,
                                of equal ones the strongest; without validation rows there may be one only */
    const double *penalties; /* C: the objective is mean loss + |W|^2 / (2 C n), n the sum of the rows' weights. Count
                                0: 0.0001, 0.001, ... 100 with validation rows, else 1; of perceptrons 10000 */
    double gradient;         /* the fit ends if no component of the gradient is larger; 0: 1e-6, with doubles 1e-8. If
                                the objective is below 0.01 the bound is this times 100 objectives */
    int steps;               /* at most, for each penalty; of perceptrons epochs. 0: 1000; of perceptrons 200 */
    size_t hidden_count;     /* of perceptrons: hidden layers, at most 7; 0: one of 128 and one of 64 units */
    const size_t *hidden;    /* units of each */
    size_t minibatch;        /* of perceptrons: rows, a multiple of 256; 0: 256 */
    double rate;             /* of perceptrons: Adam's step; 0: 0.001 */
    int patience;            /* of perceptrons: epochs without a better validation log loss before it stops; 0: 10 */
    size_t k;                /* of neighbors; 0: 5 */
    uint64_t seed;           /* of perceptrons: first weights and the order of rows */
    int threads;             /* 1 to 64; 0: one for each usable core. They do not change the result */
    const char *state;       /* not NULL: a file that the state of the fit is written to now and then, and when it is
                                cancelled, so that it can be resumed. It is removed at the end of a fit, unless
                                `keep_state` */
    bool resume;             /* continue from `state` if the file is there; MR_ERROR_DATA if it is of other rows or
                                parameters */
    /* Called on the calling thread after each step; another answer than 0 cancels the fit. NULL: none */
    int (*progress)(void *user, const mr_fit_progress *progress);
    /* Called with each warning, one sentence without a full stop: constant features, a class with one group, ... They
     * are in the card as well. NULL: none */
    void (*warning)(void *user, const char *text);
    void *user;
    /* Devices that make the products by their names (devices.h), at most 16 of one kind; without
     * any the processors. Not of prototypes and neighbors. The bits are the same for any number of devices of one kind,
     * and, on GPUs, of one model; between kinds the objective of linear classifiers is within 1e-6, and perceptrons,
     * whose steps add up what differs, come near each other. */
    size_t device_count;
    const char *const *devices;
    /* Softmax, logistic, squared hinge and perceptron: the whole fit is written to `state` at its end, for the
     * caller to remove once the classifier is saved. A fit that continues from there ends at once, with the same
     * bits. If it cannot be written, `warning` is told, and the fit does not fail. */
    bool keep_state;
} mr_fit_params;

typedef struct mr_classifier mr_classifier;

/* mr_classifier_fit for callers that give the sizes of the structs themselves. */
MR_API int mr_classifier_fit_sized(mr_classifier **classifier, const mr_labelled_rows *rows, size_t rows_bytes,
                                   const mr_fit_params *params, size_t params_bytes);
/* Fits. On failure *classifier is NULL. MR_ERROR_USAGE: parameters that cannot be. MR_ERROR_DATA: rows that cannot be
 * fitted to, such as one class only, a class without training rows, or a feature that is not a finite number, with its
 * place. MR_ERROR_CANCELLED: by `progress`. MR_ERROR_IO: the file of state. MR_ERROR_UNAVAILABLE: no
 * thread, or a device that is not there; MR_ERROR_CONFIG: no name of a device; MR_ERROR_DEVICE: it failed. */
static inline int mr_classifier_fit(mr_classifier **classifier, const mr_labelled_rows *rows,
                                    const mr_fit_params *params) {
    return mr_classifier_fit_sized(classifier, rows, sizeof *rows, params, sizeof *params);
}
/* Also of NULL; sets *classifier to NULL. */
MR_API void mr_classifier_destroy(mr_classifier **classifier);

/* Scores of rows, `class_count` for each, dense, as the stage `classify` gives them: of softmax, prototypes and
 * perceptron probabilities that add up to 1; of squared hinge, too, by a temperature that was fitted to the validation
 * rows (1 if there are none); of logistic each class by itself, 0 to 1; of neighbors the share of the k nearest rows.
 * The first class of a row is the one with the largest score, the lower index if two are equal. A row's scores do not
 * depend on the rows beside it, and are bit for bit those of `classify` on a processor with `batch: 1`. */
MR_API int mr_classifier_scores(const mr_classifier *classifier, const float *features, size_t rows, size_t stride,
                                float *scores);
/* The same before softmax or the logistic function; of neighbors the shares. */
MR_API int mr_classifier_logits(const mr_classifier *classifier, const float *features, size_t rows, size_t stride,
                                float *logits);

/* A penalty that was tried. */
typedef struct mr_fit_tried {
    double c;
    double objective;  /* of the training rows, where the fit ended */
    double validation; /* log loss of the validation rows; NaN: there are none */
    int steps;         /* of L-BFGS; of perceptrons epochs up to the best one */
    const char *end;   /* "gradient": small enough; "progress" or "precision": it falls no further; "steps": as many as
                          were allowed; "patience" */
} mr_fit_tried;

/* What is known of a classifier: its card. All of it belongs to the classifier and is never changed. Grows at its end
 * (version.h): a program does not copy it. Texts that are not known are "". */
typedef struct mr_classifier_card {
    mr_classifier_kind kind;
    size_t width;              /* features */
    size_t class_count;
    const char *const *class_names;
    size_t layer_count;        /* of perceptrons: layers of weights */
    const size_t *units;       /* of each */
    size_t k, vectors;         /* of neighbors: k, and the rows that are kept */
    bool doubles, balanced, standardised;
    uint64_t seed;
    size_t tried_count, chosen; /* penalties in the order in which they were fitted, and the one that was taken */
    const mr_fit_tried *tried;
    uint64_t train_rows, validation_rows, test_rows;
    size_t constant_features;  /* of the training rows */
    size_t warning_count;
    const char *const *warnings;
    /* From here on as mr_head_notes has it, of classifiers that were opened. */
    const char *version;       /* of millrace, that wrote the folder */
    const char *pipeline;
    const char *stages;
    const char *digest;
    const char *tensor;
    const char *split;
    const char *figures;       /* JSON */
} mr_classifier_card;
MR_API const mr_classifier_card *mr_classifier_card_of(const mr_classifier *classifier);

/* What the program knows and the fit does not, for the card. NULL: not known. Grows at its end (version.h). */
typedef struct mr_head_notes {
    const char *pipeline; /* name of the pipeline that makes the vectors */
    const char *stages;   /* its stages up to the vector, as mr_planned_lineage (stage.h) gives them */
    const char *digest;   /* of that text; `classify` compares it with that of its own pipeline */
    const char *tensor;   /* the name of the vector among the results, if it is one of several */
    const char *split;    /* how the rows were split, in words or as JSON: "hash of the group, 0.7 0.15 0.15, seed 1" */
    const char *figures;  /* of the test rows: a JSON value */
    const char *sign_key; /* file of the private key that the folder is signed with (signature.h); NULL: it is not */
} mr_head_notes;

/* mr_classifier_save for callers that give the size of the notes themselves. */
MR_API int mr_classifier_save_sized(const mr_classifier *classifier, const char *folder, const mr_head_notes *notes,
                                    size_t notes_bytes);
/* Writes the folder, which `classify` takes as its option `head`: head.json, the card; labels.txt; weights.npy, or
 * layer-1.npy, layer-2.npy, ... of a perceptron, or vectors.npy and classes.npy of neighbors; head.sig and head.pub if
 * it is signed. It is made under a
 * temporary name beside the folder, brought to the disk and renamed, so there is never half of one. A head folder of
 * that name is replaced, by exchanging the names where the file system can; anything else of that name is refused, and
 * so is a head folder that holds other files. `notes` may be NULL. MR_ERROR_USAGE: figures that are
 * not JSON; MR_ERROR_PERMISSION, MR_ERROR_IO; errors of mr_signing_key_check. */
static inline int mr_classifier_save(const mr_classifier *classifier, const char *folder, const mr_head_notes *notes) {
    return mr_classifier_save_sized(classifier, folder, notes, sizeof *notes);
}
/* Whether mr_classifier_save would take that name: MR_ERROR_IO, with an entry of the folder that is in the way. */
MR_API int mr_classifier_check_folder(const char *folder);
/* Opens such a folder. On failure *classifier is NULL. MR_ERROR_NO_INPUT; MR_ERROR_DATA: it is not such a folder, is of
 * a later version, or a file is not as it was written, with the file and the reason. */
MR_API int mr_classifier_open(mr_classifier **classifier, const char *folder);

/* A row whose neighbours disagree with its class. */
typedef struct mr_noisy_row {
    size_t row;
    int32_t class_given, class_near; /* its own; the one that most neighbours have */
    double share;                    /* of the neighbours, that have class_near */
} mr_noisy_row;
typedef struct mr_noise_params {
    size_t k;        /* neighbours of each row; 0: 10 */
    double share;    /* of them, at least; 0: 0.8 */
    uint64_t seed;
    int threads;     /* as of mr_fit_params */
    bool (*stopped)(void *user); /* asked on these threads now and then; true ends with MR_ERROR_CANCELLED. NULL: it is
                                    not asked */
    void *user;
} mr_noise_params;
/* mr_label_noise for callers that give the size of the rows themselves. */
MR_API int mr_label_noise_sized(const mr_labelled_rows *rows, size_t rows_bytes, const mr_noise_params *params,
                                mr_noisy_row *noisy, size_t most, size_t *found);
/* Finds rows, of training and validation, that have another class than most of their k nearest such rows of other
 * groups have, the surest first. A row whose class has no rows in other groups is not judged. Features are
 * standardised. Neighbours are looked for among at most 20,000 rows, drawn from the seed. Writes at most `most` rows;
 * *found is how many there are. Errors as mr_classifier_fit. */
static inline int mr_label_noise(const mr_labelled_rows *rows, const mr_noise_params *params, mr_noisy_row *noisy,
                                 size_t most, size_t *found) {
    return mr_label_noise_sized(rows, sizeof *rows, params, noisy, most, found);
}

#ifdef __cplusplus
}
#endif
#endif
