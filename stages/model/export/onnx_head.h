/* Writes a classifier as ONNX graph nodes. */
#pragma once

#include "stages/model/onnx/onnx_build.h"
#include "stages/model/trained.h"

/* Adds nodes that compute the graph outputs `scores` and `class` from the tensor `vector`, batch x width. */
void mr_onnx_add_classifier(mr_onnx_build *build, const mr_trained *trained, const char *vector);
/* Adds nodes that turn a network's tensor into a vector with `width` numbers: mean over positions, length 1. Returns
 * its name. */
const char *mr_onnx_add_vector(mr_onnx_build *build, const char *tensor, size_t width, bool average, bool normalize);
