/* Weights that a model keeps in another file, as exporters write them for large networks: model.onnx.data beside
 * model.onnx. They are read and put into the model's bytes, so that all that looks at a model, and the runtime, has one
 * whole file; the model itself never makes anything open a path. Pure functions but for the file; any thread. */
#pragma once

#include "engine/base/file.h"

/* Puts weights from the file `path` into a model that was scanned (mr_onnx_scan): *model is replaced, with `room` bytes
 * free behind it. The model must name no other file than that, by its plain name. MR_ERROR_DATA, without naming the
 * model, if it does, or asks for bytes that the file does not have; errors of mr_file_read. */
int mr_onnx_take_external(mr_file_bytes *model, const char *path, size_t room);
