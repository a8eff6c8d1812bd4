/* Infers ONNX operators' output shapes from their input shapes: one function per operator or family. Part of
 * onnx_shapes.h; one thread. */
#pragma once

#include "stages/model/onnx/onnx_shapes.h"

/* NULL: it is not known. */
const mr_onnx_operator *mr_onnx_find_operator(const mr_onnx_node *node);

/* Sets a tensor's shape. Returns false, and changes nothing, if a size is negative or above MR_ONNX_GRAPH_DIM, or the
 * rank above MR_ONNX_GRAPH_RANK. element 0: unchanged. */
bool mr_onnx_set(mr_onnx_tensor *tensor, int element, int rank, const int64_t *dims);
/* The input if its shape is known, else NULL. */
const mr_onnx_tensor *mr_onnx_shaped(const mr_onnx_graph *graph, const mr_onnx_node *node, int at);
/* An axis from an attribute or a list; negative values count from the end. -1: there is no such axis. */
int mr_onnx_axis(int64_t axis, int rank);
/* An input's integers, or an attribute's if the input is omitted (older operator versions). Returns how many there are;
 * -1 if unknown or above MR_ONNX_GRAPH_NUMBERS. */
int mr_onnx_list(const mr_onnx_graph *graph, const mr_onnx_node *node, int input, const char *attribute,
                 int64_t *values);

/* ---- onnx_layout.c: operators that change a shape, or compute with shapes ---------------------------------------- */

bool mr_onnx_infer_broadcast(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_reshape(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_flatten(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_transpose(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_squeeze(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_unsqueeze(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_concat(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_split(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_slice(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_gather(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_expand(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_tile(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_resize(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_pad(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_blocks(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_reduce(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_arg(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_topk(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_shape(const mr_onnx_graph *graph, const mr_onnx_node *node);
bool mr_onnx_infer_filled(const mr_onnx_graph *graph, const mr_onnx_node *node);
