/* What planning must know about a network besides shapes: which operator computes the numbers, and which operators
 * compute across a batch's frames. Pure functions on the graph (onnx_graph.h); one thread. */
#pragma once

#include "stages/model/onnx/onnx_graph.h"

enum { MR_ONNX_OPERATOR_TEXT = 64, MR_ONNX_MIXING_TEXT = 192 };

/* Writes which operator computes the tensor `name`, skipping operators that only change shape or type. Also "Softmax"
 * or "Sigmoid" if an ONNX-ML classifier ends in one. "": not known. Returns `text`. */
const char *mr_onnx_finish(const mr_onnx_graph *graph, mr_pb_span name, char text[MR_ONNX_OPERATOR_TEXT]);

/* True if the operator's numbers are scores from 0 to 1 rather than logits: it includes softmax or sigmoid. Accepts
 * NULL and "". */
bool mr_onnx_gives_scores(const char *operation);

/* Writes which operator's values determine the size of the tensor `name`, such as "NonZero", which outputs as many rows
 * as it finds. "": no operator that computes it does so. Returns `text`. */
const char *mr_onnx_sized_by(const mr_onnx_graph *graph, mr_pb_span name, char text[MR_ONNX_OPERATOR_TEXT]);

/* What mr_onnx_find_mixing is asked about. */
typedef struct mr_onnx_batch {
    const mr_onnx_shape *inputs; /* as for mr_onnx_infer; the batch must be the first size */
    size_t input_count;
    bool fixed;                  /* the file fixes the batch */
    const char *const *outputs;  /* names of tensors to read */
    size_t output_count;
} mr_onnx_batch;

/* Finds the first operator that mixes a batch's frames in one of these outputs. Writes "ReduceMean at node "pool"" to
 * `text`, or "". Shapes are inferred for two batch sizes: a dimension that differs counts frames. MR_ERROR_DATA and
 * MR_ERROR_MEMORY as mr_onnx_graph_read. */
int mr_onnx_find_mixing(const uint8_t *data, size_t bytes, const mr_onnx_batch *batch,
                        char text[MR_ONNX_MIXING_TEXT]);
