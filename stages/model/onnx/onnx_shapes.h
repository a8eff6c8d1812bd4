/* Shapes of all tensors of an ONNX graph, from those of its inputs: for the operators that networks for pictures are
 * made of (defined in operators.md of ONNX 1.x). Numbers that are computed from shapes (the target of a Reshape) are
 * followed as well, as long as they are few. If a shape cannot be inferred it is taken as the file declares it
 * (value_info), with the sizes of named free dimensions put in; else it is left unknown. One thread. */
#pragma once

#include "stages/model/onnx/onnx_graph.h"

/* The kind of work of an operator. */
typedef enum mr_onnx_kind {
    MR_ONNX_VIEW,    /* none: the same bytes under another shape, or numbers about shapes */
    MR_ONNX_MOVE,    /* reads its inputs and writes its outputs */
    MR_ONNX_PICK,    /* reads as much as it writes, whatever its inputs hold */
    MR_ONNX_EACH,    /* operations on each element of the output */
    MR_ONNX_ACROSS,  /* operations on each element of the input */
    MR_ONNX_POOL,    /* one for each element of the window of each element of the output */
    MR_ONNX_CONV, MR_ONNX_DECONV, MR_ONNX_GEMM, MR_ONNX_MATMUL
} mr_onnx_kind;

typedef struct mr_onnx_operator {
    const char *name;
    mr_onnx_kind kind;
    bool (*infer)(const mr_onnx_graph *graph, const mr_onnx_node *node); /* false: not known */
    int per;    /* EACH and ACROSS: operations an element */
    int weight; /* products: which input the second factor is; broadcasts: the second operand */
} mr_onnx_operator;

/* `inputs`: shapes of the graph's inputs without weights, in the file's order; those behind, and those with a free
 * dimension, are as declared. */
void mr_onnx_infer(mr_onnx_graph *graph, const mr_onnx_shape *inputs, size_t count);

/* Elements of a tensor; 0 if its shape is not known. */
double mr_onnx_items(const mr_onnx_tensor *tensor);
/* Sizes of a window's axes, as its operator has them: of the weights, or kernel_shape; their product. */
double mr_onnx_window(const mr_onnx_graph *graph, const mr_onnx_node *node);
