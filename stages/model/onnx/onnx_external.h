/* Weights that a model keeps in another file, as exporters write them for large networks: model.onnx.data beside
 * model.onnx. They are read and put into the model's bytes, so that all that looks at a model, and the runtime, has one
 * whole file; the model itself never makes anything open a path. Pure functions but for the file; any thread. */
#pragma once

#include "engine/base/file.h"

/* Moves weights from the file `path` into a scanned model (mr_onnx_scan). *model is replaced, with `room` free bytes at
 * the end. The model must refer only to that file, by its plain name. Otherwise, or if it asks for bytes that the file
 * lacks: MR_ERROR_DATA, without the model's name. Also mr_file_read's errors. */
int mr_onnx_take_external(mr_file_bytes *model, const char *path, size_t room);
