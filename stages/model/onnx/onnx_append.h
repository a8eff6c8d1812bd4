/* Changes a network by appending a few bytes to its file. protobuf merges a message that comes twice, so a second graph
 * adds nodes and outputs to the first (onnx.proto, ONNX 1.x). Pure functions; any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Makes the tensor `name` an output of the graph. Returns how many bytes were written; at most strlen(name) +
 * MR_ONNX_OUTPUT_BYTES. */
enum { MR_ONNX_OUTPUT_BYTES = 32 };
size_t mr_onnx_append_output(uint8_t *end, const char *name);

/* Adds a node that casts the tensor `name` to another type (TensorProto.DataType), and makes the result `as` an output.
 * Returns how many bytes were written: at most twice both names' length + MR_ONNX_CAST_BYTES. */
enum { MR_ONNX_CAST_BYTES = 96 };
size_t mr_onnx_append_cast(uint8_t *end, const char *name, const char *as, int to);
