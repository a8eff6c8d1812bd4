/* Model files, described without a runtime: the inputs, outputs, operators and work of an ONNX model, and the shape of
 * weights in a NumPy file. It is what `millrace inspect FILE` prints.
 *
 *     const mr_model_view *model;
 *     if (mr_model_view_open(&model, "lite0.onnx")) { fprintf(stderr, "%s\n", mr_message()); ... }
 *     for (size_t i = 0; i < model->input_count; i++)
 *         printf("%s: %s\n", model->inputs[i].name, model->inputs[i].type);
 *     mr_model_view_close(&model);
 *
 * Files are refused as stages refuse them: models that name other files, hold an engine compiled for one device, or
 * have weights that are not finite. Texts come from the file: they are what its author wrote, up to a zero byte, and
 * may hold control characters. Any thread.
 *
 * Errors, with the file and the reason in the message: MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO,
 * MR_ERROR_DATA, MR_ERROR_MEMORY. */
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
    const char *name; /* the model's own for a free one, such as "batch"; "" if it has none */
} mr_model_dimension;

/* An input or output. */
typedef struct mr_model_value {
    const char *name;
    const char *kind;     /* "tensor", "sequence", "map", "optional", "sparse tensor"; "" if no type is declared */
    const char *type;     /* of tensors: "f32", "f16", "u8", "i64", "string", ...; NULL: not a tensor */
    bool shaped;          /* of tensors: the number of dimensions is declared */
    int rank;             /* dimensions, the batch included */
    const mr_model_dimension *dims;
    const char *operation; /* of outputs: the operator that computes its numbers, before those that only change their
                              shape or type; NULL: not known */
} mr_model_value;

/* A set of operators that the model needs. */
typedef struct mr_model_set {
    const char *domain; /* "ai.onnx", "com.microsoft", ... */
    int64_t version;
} mr_model_set;

typedef struct mr_model_operator {
    const char *name;
    size_t count; /* nodes */
} mr_model_operator;

/* All of it belongs to the view, is never changed, and lives until the view is closed. Grows at its end (version.h): a
 * program does not copy it. Texts that the file lacks are "". */
typedef struct mr_model_view {
    uint64_t bytes;        /* of the file */
    int64_t ir_version;    /* of the ONNX format */
    const char *producer, *producer_version, *graph;
    size_t set_count;
    const mr_model_set *sets;
    size_t node_count;     /* of the outermost graph */
    size_t operator_count;
    const mr_model_operator *operators;
    size_t weight_count;   /* tensors */
    uint64_t weight_numbers;
    size_t input_count, output_count; /* without weights that are listed among the inputs */
    const mr_model_value *inputs, *outputs;
    bool counted;          /* the work is known, as follows */
    double multiply_adds;  /* of convolutions and matrix products for one frame: a free batch counts as one; 0 also if
                              other free sizes leave nothing to count */
    size_t uncounted;      /* nodes whose work is not part of it */
    const char *why;       /* of the first of them; "" if there are none */
    const char *prepared;  /* how `millrace export` notes that preprocess made the pictures which the network was
                              trained with, as JSON; "": the file has no such note */
} mr_model_view;

/* Reads an ONNX model. On failure *view is NULL. Lists are cut: at most 64 inputs and 64 outputs of 16 dimensions each,
 * 128 operators and 16 sets are described. */
MR_API int mr_model_view_open(const mr_model_view **view, const char *path);
/* Also of NULL; sets *view to NULL. */
MR_API void mr_model_view_close(const mr_model_view **view);

/* True if numbers that the operator computes (mr_model_value.operation) are scores from 0 to 1, and no logits: softmax
 * or sigmoid is part of it. classify has activation: none for them by itself. Also of NULL. */
MR_API bool mr_model_gives_scores(const char *operation);

/* Checks that a NumPy file (.npy) holds weights that stages can read, a 2-dimensional array of finite f4 or f8 numbers
 * of at most 1 GiB, and tells its shape. */
MR_API int mr_npy_shape(const char *path, size_t *rows, size_t *columns);

#ifdef __cplusplus
}
#endif
#endif
