/* An ONNX model under construction: an existing network, or none, and the nodes added to it.
 *
 * Model and graph are copies whose lists have room for more. The arena holds everything added; the rest still belongs
 * to the network. If memory runs out, `failed` is set and later calls do nothing: check it once at the end. One
 * thread. */
#pragma once

#include <stdbool.h>

#include "engine/base/arena.h"
#include "proto/onnx.pb-c.h"

enum { MR_ONNX_OPERATOR_SET = 13, MR_ONNX_LEAST_SET = 11, MR_ONNX_IR = 7 };

typedef struct mr_onnx_build {
    mr_arena arena;
    Millrace__Onnx__ModelProto model;
    Millrace__Onnx__GraphProto graph;
    mr_index names; /* all tensor names */
    int turn;       /* makes our names differ from the network's */
    bool failed;
    /* private */
    Millrace__Onnx__ModelProto *network;
} mr_onnx_build;

/* Begins a model without a network. MR_ERROR_MEMORY. The caller must finish the build in any case. */
int mr_onnx_build_begin(mr_onnx_build *build);
/* Starts with a scanned network (onnx_file.h), up to `tensor` (NULL: the first output). *vector becomes that tensor's
 * name. Nodes and weights that it does not depend on are removed, and so are the network's outputs. MR_ERROR_DATA names
 * `path` and the reason; MR_ERROR_MEMORY. */
int mr_onnx_build_join(mr_onnx_build *build, const char *path, const uint8_t *data, size_t bytes, const char *tensor,
                       const char **vector);
void mr_onnx_build_fini(mr_onnx_build *build);

/* A name that no tensor in the network has, such as "millrace.bias"; the build owns it. */
const char *mr_onnx_name(mr_onnx_build *build, const char *name);
/* Returns `name`, changed only if the network has such a tensor. */
const char *mr_onnx_output_name(mr_onnx_build *build, const char *name);
/* Constants: f32 and i64, with `rank` dimensions. Numbers are copied. Return the name. */
const char *mr_onnx_floats(mr_onnx_build *build, const char *name, const float *from, int rank, const int64_t *dims);
const char *mr_onnx_integers_of(mr_onnx_build *build, const char *name, const int64_t *from, int rank,
                                const int64_t *dims);
/* A node; its inputs end with NULL. Returns `output`, the node's only or first output. */
typedef struct mr_onnx_step {
    const char *operation;
    const char *inputs[4];
    const char *output, *more; /* more: a second output; NULL: none */
    const char *attribute[2];  /* whole numbers; NULL: none */
    int64_t value[2];
} mr_onnx_step;
const char *mr_onnx_add(mr_onnx_build *build, const mr_onnx_step *step);
/* A graph input or output: the batch, with `columns` numbers per row; 0: one dimension. */
void mr_onnx_add_value(mr_onnx_build *build, bool output, const char *name, int element, int64_t columns);
void mr_onnx_add_note(mr_onnx_build *build, const char *key, const char *value);
