/* Checks that the weights in an ONNX file are numbers. If a classifier's weights contain NaN, that class silently
 * vanishes, since no number is larger than NaN.
 *
 * It checks f16, bf16, f32 and f64 tensors in the outermost graph (initialisers, Constant nodes) that layers multiply
 * by or add: inputs to Gemm, MatMul, Conv, normalisations and recurrent layers, and quantisation scales. Other
 * constants can be infinite for good reasons: a Clip's limits, an attention mask. Pure function; any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* mr_onnx_scan must have accepted the bytes. MR_ERROR_DATA, without the file's name: "the weights "fc.weight" (of a
 * Gemm) are nan at row 3, column 17". */
int mr_onnx_check_weights(const uint8_t *data, size_t bytes);
