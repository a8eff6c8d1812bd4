/* Checks an ONNX file before a runtime opens it: whether it refers to other files, and which tensors it computes. It
 * reads the protobuf encoding directly (onnx.proto, ONNX 1.x) and copies nothing.
 *
 * A model can keep tensors in other files that it names. It could thereby read files that the pipeline's author never
 * meant, so such models are refused unless the author names the file. Pure functions; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/file.h"
#include "stages/model/onnx/protobuf.h"

typedef struct mr_onnx_facts {
    bool external; /* a tensor is in another file */
    mr_pb_span location; /* that file's name in the model's bytes; empty: none */
    bool compiled; /* a node contains or names an engine compiled for one device (EPContext) */
    bool has_name; /* the graph computes a tensor with that name */
} mr_onnx_facts;

/* Scans a whole model. `name` may be NULL. MR_ERROR_DATA with the fault, without the file's name, if it is not a
 * complete ONNX model. */
int mr_onnx_scan(const uint8_t *data, size_t bytes, const char *name, mr_onnx_facts *facts);

/* Reads the whole file once and checks that a runtime may have it. `room` more bytes fit at the end. *has_tensor: the
 * graph computes `tensor` (may be NULL). The caller must free the bytes. mr_file_read's errors. MR_ERROR_DATA names
 * file and reason: no ONNX model, asks for other files, holds a compiled engine, or weights that are not finite
 * (onnx_weights.h). */
int mr_onnx_read(const char *path, size_t room, const char *tensor, mr_file_bytes *model, bool *has_tensor);
/* The same with weights from `external`, which become part of the bytes (onnx_external.h); NULL: none. */
int mr_onnx_read_parts(const char *path, const char *external, size_t room, const char *tensor, mr_file_bytes *model,
                       bool *has_tensor);
