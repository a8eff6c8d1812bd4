/* A classifier as nodes of an ONNX graph. */
#pragma once

#include "stages/model/onnx/onnx_build.h"
#include "stages/model/trained.h"

/* Adds nodes that make `scores` and `class`, outputs of the graph, of the tensor `vector`, batch x width. */
void mr_onnx_add_classifier(mr_onnx_build *build, const mr_trained *trained, const char *vector);
/* Adds nodes that make a vector of `width` numbers of a network's tensor: the mean over positions, a length of 1.
 * Returns its name. */
const char *mr_onnx_add_vector(mr_onnx_build *build, const char *tensor, size_t width, bool average, bool normalize);
