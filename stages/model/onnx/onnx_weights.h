/* Whether the weights in an ONNX file are numbers. If a classifier's weights hold a NaN its class silently vanishes,
 * since no number is larger than NaN.
 *
 * Looked at are tensors of f16, bf16, f32 and f64, in the outermost graph (initialisers, Constant nodes), that layers
 * multiply by or add: inputs of Gemm, MatMul, Conv, normalisations, recurrent layers, scales of quantised ones. Other
 * constants may be infinite for good reasons: the limits of a Clip, the mask of an attention. Pure function; any
 * thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The bytes were scanned by mr_onnx_scan. MR_ERROR_DATA, without naming the file: "the weights "fc.weight" (of a Gemm)
 * are nan at row 3, column 17". */
int mr_onnx_check_weights(const uint8_t *data, size_t bytes);
