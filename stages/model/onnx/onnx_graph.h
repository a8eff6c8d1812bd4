/* An ONNX file's outermost graph (onnx.proto, ONNX 1.x) as a table of tensors and nodes, in file order. Names and
 * messages point into the bytes, which must stay valid.
 *
 * Limits: a file with more than MR_ONNX_GRAPH_NODES nodes or MR_ONNX_GRAPH_TENSORS tensors is refused. Memory therefore
 * stays below about 100 MB whatever the file declares. All steps take time proportional to the file size. One
 * thread. */
#pragma once

#include <stddef.h>

#include "stages/model/onnx/protobuf.h"

enum {
    MR_ONNX_GRAPH_NODES = 1 << 16,
    MR_ONNX_GRAPH_TENSORS = 1 << 18,
    MR_ONNX_GRAPH_RANK = 8,
    MR_ONNX_GRAPH_NUMBERS = 16,
    MR_ONNX_NONE = -1
};
/* Limit for a dimension: sums and products over two of them then fit in 64 bits. */
#define MR_ONNX_GRAPH_DIM (INT64_C(1) << 30)

/* TensorProto.DataType */
enum {
    MR_ONNX_F32 = 1, MR_ONNX_U8 = 2, MR_ONNX_I8 = 3, MR_ONNX_I32 = 6, MR_ONNX_I64 = 7, MR_ONNX_BOOL = 9,
    MR_ONNX_F16 = 10, MR_ONNX_F64 = 11, MR_ONNX_BF16 = 16
};

/* The shape that an input will have; 0 or less: as declared. */
typedef struct mr_onnx_shape {
    int rank;
    int64_t dims[MR_ONNX_GRAPH_RANK];
} mr_onnx_shape;

typedef struct mr_onnx_tensor {
    mr_pb_span name;
    mr_pb_span declared;     /* its ValueInfoProto; empty: none */
    int element;             /* 0: not known */
    int rank;                /* -1: unknown shape */
    int64_t dims[MR_ONNX_GRAPH_RANK];
    int count;               /* count of known numbers: small constants, and tensors computed from shapes */
    double numbers[MR_ONNX_GRAPH_NUMBERS];
    bool weights;            /* the file has its values */
    bool input, output;      /* graph input, graph output */
    int users, user;         /* how many inputs of needed nodes read it; the last such node */
    int producer;            /* the node that computes it; MR_ONNX_NONE */
} mr_onnx_tensor;

typedef struct mr_onnx_node {
    mr_pb_span operation, name, domain, message; /* message: NodeProto */
    size_t first_input, first_output;            /* positions in mr_onnx_graph.at */
    int input_count, output_count;
    bool needed;                                 /* a graph output depends on it */
    const struct mr_onnx_operator *known;        /* onnx_shapes.h; NULL: unknown */
    bool inferred;                               /* output shapes follow from input shapes */
    bool in_weights;                             /* onnx_work.c: becomes part of a convolution's weights */
} mr_onnx_node;

typedef struct mr_onnx_graph {
    size_t tensor_count, node_count, at_count, tensor_room, node_room, at_room, slot_count;
    mr_onnx_tensor *tensors;
    mr_onnx_node *nodes;
    int *at;    /* tensors at the node's inputs and outputs; MR_ONNX_NONE: omitted */
    int *slots; /* tensors by name */
} mr_onnx_graph;

/* mr_onnx_scan must have accepted the bytes. MR_ERROR_DATA with the reason: it is too large, or violates the ONNX
 * format. MR_ERROR_MEMORY. mr_onnx_graph_free must be called in either case. */
int mr_onnx_graph_read(mr_onnx_graph *graph, const uint8_t *data, size_t bytes);
void mr_onnx_graph_free(mr_onnx_graph *graph);

/* The tensor at a node's input or output; NULL if omitted. */
mr_onnx_tensor *mr_onnx_input(const mr_onnx_graph *graph, const mr_onnx_node *node, int at);
mr_onnx_tensor *mr_onnx_output(const mr_onnx_graph *graph, const mr_onnx_node *node, int at);

/* Attributes. An integer is clamped to plus or minus MR_ONNX_GRAPH_DIM. For an integer list, at most `most` are stored,
 * and the return value is how many there are (0: no such list). A text is empty if there is none. */
int64_t mr_onnx_integer(const mr_onnx_node *node, const char *name, int64_t fallback);
int mr_onnx_integers(const mr_onnx_node *node, const char *name, int64_t *values, int most);
mr_pb_span mr_onnx_text(const mr_onnx_node *node, const char *name);
bool mr_onnx_has(const mr_onnx_node *node, const char *name);
/* Sets a tensor's element, shape and small numbers from a node attribute that is a tensor (TensorProto). */
bool mr_onnx_constant(const mr_onnx_node *node, const char *name, mr_onnx_tensor *tensor);

/* The shape declared in a ValueInfoProto: open dimensions are -1, with the symbol. False if it declares none, or too
 * many dimensions. */
bool mr_onnx_read_declared(mr_pb_span value, int *element, int *rank, int64_t *dims, mr_pb_span *symbols);
