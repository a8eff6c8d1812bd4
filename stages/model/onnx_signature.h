/* A network's inputs and outputs as its ONNX file declares them (onnx.proto, ONNX 1.x). No runtime is needed, which
 * would take hundreds of times longer to load the network. Pure functions; any thread. */
#pragma once

#include "stages/model/onnx/protobuf.h"
#include "stages/model/runtime.h"

typedef struct mr_onnx_value {
    mr_pb_span name;
    int element;       /* TensorProto.DataType */
    mr_shape shape;    /* -1: free */
    bool unshaped;     /* no shape is declared */
    mr_pb_span symbol; /* the model's name for an open first dimension; empty if it has none */
} mr_onnx_value;

typedef struct mr_onnx_signature {
    size_t input_count, output_count;
    mr_onnx_value inputs[MR_MODEL_MAX_TENSORS], outputs[MR_MODEL_MAX_TENSORS];
} mr_onnx_signature;

/* False if only a runtime can tell: an entry is not a tensor, an output's size depends on more than the batch, or there
 * are too many tensors. Names point into `data`. */
bool mr_onnx_read_signature(const uint8_t *data, size_t bytes, mr_onnx_signature *signature);
