/* What planning must know of a network beside its shapes: the operator that its numbers come from, and operators that
 * compute across the frames of a batch. Pure functions of the graph (onnx_graph.h); one thread. */
#pragma once

#include "stages/model/onnx/onnx_graph.h"

enum { MR_ONNX_OPERATOR_TEXT = 64, MR_ONNX_MIXING_TEXT = 192 };

/* Writes the name of the operator that computes the numbers of the tensor `name`, before operators that only change
 * their shape or type. "Softmax" and "Sigmoid" also of a classifier of ONNX-ML that ends in them. "": it is not known.
 * Returns `text`. */
const char *mr_onnx_finish(const mr_onnx_graph *graph, mr_pb_span name, char text[MR_ONNX_OPERATOR_TEXT]);

/* True if numbers that the operator computes are scores from 0 to 1, and no logits: softmax or sigmoid is part of it.
 * Also of NULL and "". */
bool mr_onnx_gives_scores(const char *operation);

/* Writes the operator on whose values the size of the tensor `name` depends, such as "NonZero": one that gives as many
 * rows as it finds. "": there is none among those that compute it. Returns `text`. */
const char *mr_onnx_sized_by(const mr_onnx_graph *graph, mr_pb_span name, char text[MR_ONNX_OPERATOR_TEXT]);

/* What mr_onnx_find_mixing is asked about. */
typedef struct mr_onnx_batch {
    const mr_onnx_shape *inputs; /* as for mr_onnx_infer, with the batch as their first size */
    size_t input_count;
    bool fixed;                  /* the file fixes the batch */
    const char *const *outputs;  /* names of tensors that are read */
    size_t output_count;
} mr_onnx_batch;

/* Looks for the first operator that mixes the frames of a batch in one of these outputs, and writes "ReduceMean at node
 * "pool"" into `text`, or "". Shapes are inferred for two sizes of the batch: a dimension that differs is that of the
 * frames. MR_ERROR_DATA and MR_ERROR_MEMORY as mr_onnx_graph_read. */
int mr_onnx_find_mixing(const uint8_t *data, size_t bytes, const mr_onnx_batch *batch,
                        char text[MR_ONNX_MIXING_TEXT]);
