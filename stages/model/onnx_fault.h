/* Why bytes cannot be read as an ONNX model: a file that is cut off, or one of another format. Pure functions; any
 * thread. */
#ifndef MILLRACE_STAGES_MODEL_ONNX_FAULT_H
#define MILLRACE_STAGES_MODEL_ONNX_FAULT_H

#include <stddef.h>
#include <stdint.h>

enum { MR_ONNX_FAULT_TEXT = 320 };

/* For bytes that mr_onnx_scan has refused: "it is truncated: it ends at byte 812 inside the graph, ..." or what the
 * file seems to be instead. Returns `text`. */
const char *mr_onnx_fault(const uint8_t *data, size_t bytes, char *text, size_t text_bytes);

#endif
