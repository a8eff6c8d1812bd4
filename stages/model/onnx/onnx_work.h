/* Counts one network run's work from the ONNX file and input shapes: operations, bytes, launches.
 *
 * It counts what ONNX Runtime's CUDA provider does, according to the public sources: one launch per operator, except
 *   - operators that only change the shape (Reshape, Flatten, ...), or compute only with shapes or constants: none;
 *   - BatchNormalization, and Add or Mul with a constant per channel, after a Conv: merged into the weights;
 *   - Relu, or Add and Relu, after a Conv: in the same launch. Other activations (Clip, Sigmoid, HardSwish) are
 *     separate launches;
 *   - Add with a constant after a MatMul: part of the product.
 * Each launch reads from the card's memory and writes to it; cache hits between launches are not modelled. A
 * multiply-add counts as two operations; any other operator counts some per element. Biases are not counted. Nodes that
 * cannot be counted are reported and skipped.
 *
 * Sums are floating point: they cannot overflow or wrap, whatever sizes a file declares. Pure function; any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "stages/model/onnx/onnx_graph.h"

enum { MR_ONNX_WORK_TEXT = 192 };

typedef struct mr_onnx_work {
    double multiply_adds;                   /* convolutions and matrix products, any type */
    double f32_operations, f16_operations;  /* all; f16: either kind of half precision */
    double launches;
    double weight_bytes, activation_bytes;  /* read, read and written */
    double input_bytes, output_bytes;       /* graph inputs and outputs, each once; included in activation_bytes */
    size_t missing;                         /* nodes that are not counted */
    char why[MR_ONNX_WORK_TEXT];            /* the first one: the operator X at node "Y" ...; "" if all are counted */
} mr_onnx_work;

/* mr_onnx_scan must have accepted the bytes. `inputs`: as for mr_onnx_infer. MR_ERROR_DATA with the reason: the graph
 * is too large, or violates the ONNX format. MR_ERROR_MEMORY. */
int mr_onnx_count_work(const uint8_t *data, size_t bytes, const mr_onnx_shape *inputs, size_t count,
                       mr_onnx_work *work);
