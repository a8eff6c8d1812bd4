/* Infers all tensor shapes in an ONNX graph from the input shapes, for the operators that picture networks use
 * (operators.md, ONNX 1.x). It also follows numbers computed from shapes (a Reshape's target), as long as they are few.
 * A shape that cannot be inferred is taken from the file (value_info), with sizes for named open dimensions; otherwise
 * it stays unknown. One thread. */
#pragma once

#include "stages/model/onnx/onnx_graph.h"

/* What work an operator does. */
typedef enum mr_onnx_kind {
    MR_ONNX_VIEW,    /* none: the same bytes with another shape, or numbers about shapes */
    MR_ONNX_MOVE,    /* reads inputs and writes outputs */
    MR_ONNX_PICK,    /* reads only as much as it writes, however large the inputs are */
    MR_ONNX_EACH,    /* operations on each output element */
    MR_ONNX_ACROSS,  /* operations on each input element */
    MR_ONNX_POOL,    /* one for each window element per output element */
    MR_ONNX_CONV, MR_ONNX_DECONV, MR_ONNX_GEMM, MR_ONNX_MATMUL
} mr_onnx_kind;

typedef struct mr_onnx_operator {
    const char *name;
    mr_onnx_kind kind;
    bool (*infer)(const mr_onnx_graph *graph, const mr_onnx_node *node); /* false: not known */
    int per;    /* EACH and ACROSS: operations an element */
    int weight; /* products: which input the second factor is; broadcasts: the second operand */
} mr_onnx_operator;

/* `inputs`: shapes for the graph's inputs without weights, in file order. Inputs after `count`, and those with an open
 * dimension, keep their declared shape. */
void mr_onnx_infer(mr_onnx_graph *graph, const mr_onnx_shape *inputs, size_t count);

/* How many elements a tensor has; 0 if its shape is not known. */
double mr_onnx_items(const mr_onnx_tensor *tensor);
/* The product of a window's sizes, from the weights or kernel_shape. */
double mr_onnx_window(const mr_onnx_graph *graph, const mr_onnx_node *node);
