/* Counts one network run's work from its ONNX file and input shapes: operations, bytes, launches.
 *
 * The count is that of ONNX Runtime's CUDA provider, as far as its public sources show: one launch for each operator,
 * except
 *   - operators that change only the shape (Reshape, Flatten, ...), or compute with shapes or constants alone: none;
 *   - BatchNormalization, and Add or Mul of a constant for each channel, behind a Conv: part of its weights;
 *   - Relu behind a Conv, and Add and Relu behind a Conv: part of its launch. Other activations (Clip, Sigmoid,
 *     HardSwish)
 *     are launches of their own there;
 *   - Add of a constant behind a MatMul: part of its product.
 * Each launch reads its inputs from the card's memory, and writes its outputs there; hits in the card's cache between
 * two launches are not modelled. Operations are two for each multiplication with addition, and some per element for all
 * else; biases are not counted. Nodes that cannot be counted are reported, and left out.
 *
 * Sums are floating point: they neither overflow nor wrap, whatever sizes a file declares. Pure function; any thread.
 * */
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
