/* Describes model files without a runtime: an ONNX model's inputs, outputs, operators and work, and the shape of
 * weights in a NumPy file. `millrace inspect FILE` prints it.
 *
 *     const mr_model_view *model;
 *     if (mr_model_view_open(&model, "lite0.onnx")) { fprintf(stderr, "%s\n", mr_message()); ... }
 *     for (size_t i = 0; i < model->input_count; i++)
 *         printf("%s: %s\n", model->inputs[i].name, model->inputs[i].type);
 *     mr_model_view_close(&model);
 *
 * Files are refused as stages refuse them: models that name other files, hold an engine compiled for one device, or
 * have weights that are not finite. Texts come from the file's author, up to a zero byte, and may hold control
 * characters. Any thread.
 *
 * Errors: MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO, MR_ERROR_DATA, MR_ERROR_MEMORY. The message has the file
 * and the reason. */
#ifndef MILLRACE_MODEL_H
#define MILLRACE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A dimension of an input or output. */
typedef struct mr_model_dimension {
    int64_t size;     /* -1: free */
    const char *name; /* the model's name for a free dimension, such as "batch"; "" if it has none */
} mr_model_dimension;

/* An input or output. */
typedef struct mr_model_value {
    const char *name;
    const char *kind;     /* "tensor", "sequence", "map", "optional", "sparse tensor"; "" if no type is declared */
    const char *type;     /* tensors: "f32", "f16", "u8", "i64", "string", ...; NULL: not a tensor */
    bool shaped;          /* tensors: the number of dimensions is declared */
    int rank;             /* number of dimensions, with the batch */
    const mr_model_dimension *dims;
    const char *operation; /* Outputs: the operator that computes the numbers; later operators only change shape or
                              type. NULL: not known. */
} mr_model_value;

/* An operator set that the model needs. */
typedef struct mr_model_set {
    const char *domain; /* "ai.onnx", "com.microsoft", ... */
    int64_t version;
} mr_model_set;

typedef struct mr_model_operator {
    const char *name;
    size_t count; /* number of nodes */
} mr_model_operator;

/* The view owns everything, never changes, and lives until it is closed. Grows at its end (version.h): a program must
 * not copy it. Texts that the file lacks are "". */
typedef struct mr_model_view {
    uint64_t bytes;        /* size of the file */
    int64_t ir_version;    /* ONNX format version */
    const char *producer, *producer_version, *graph;
    size_t set_count;
    const mr_model_set *sets;
    size_t node_count;     /* nodes in the outermost graph */
    size_t operator_count;
    const mr_model_operator *operators;
    size_t weight_count;   /* number of tensors */
    uint64_t weight_numbers;
    size_t input_count, output_count; /* without weights that are listed as inputs */
    const mr_model_value *inputs, *outputs;
    bool counted;          /* the fields below are known */
    double multiply_adds;  /* Convolutions and matrix products for one frame; a free batch counts as 1. Also 0 if
                              other free sizes leave nothing to count. */
    size_t uncounted;      /* nodes whose work is not counted */
    const char *why;       /* reason for the first such node; "" if there are none */
    const char *prepared;  /* `millrace export`'s note, as JSON, on how preprocess made the network's training
                              pictures; "": there is no note */
    const char *labels;    /* the classes that the same note has, as a JSON array; "" */
    const char *head;      /* the detector's head that the shapes of the outputs fit, as detect's option; "" */
    const char *no_head;   /* why none is named; "" */
} mr_model_view;

/* Reads an ONNX model. On failure *view is NULL. The view has at most 64 inputs and 64 outputs with 16 dimensions each,
 * 128 operators and 16 sets; the rest is left out. */
MR_API int mr_model_view_open(const mr_model_view **view, const char *path);
/* Frees a view and sets *view to NULL; NULL is allowed. */
MR_API void mr_model_view_close(const mr_model_view **view);

/* True if the operator (mr_model_value.operation) gives scores from 0 to 1 and not logits: it includes softmax or
 * sigmoid. classify then defaults to activation: none. NULL is allowed. */
MR_API bool mr_model_gives_scores(const char *operation);

/* Checks that a NumPy file (.npy) holds weights that stages can read, and returns the shape. The file must have a
 * 2-dimensional array of finite f4 or f8 numbers, at most 1 GiB. */
MR_API int mr_npy_shape(const char *path, size_t *rows, size_t *columns);

#ifdef __cplusplus
}
#endif
#endif
