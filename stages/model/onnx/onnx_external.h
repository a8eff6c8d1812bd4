/* Weights in a separate file, as exporters write them for large networks: model.onnx.data next to model.onnx. They are
 * read and merged into the model's bytes, so that the runtime and all readers get one complete file. The model itself
 * can never make anything open a path. Pure functions, except for the file; any thread. */
#pragma once

#include "engine/base/file.h"

/* Moves weights from the file `path` into a scanned model (mr_onnx_scan). *model is replaced, with `room` free bytes at
 * the end. The model must refer only to that file, by a plain name. Otherwise, or if it asks for bytes that the file
 * lacks: MR_ERROR_DATA, without the model's name. Also mr_file_read's errors. */
int mr_onnx_take_external(mr_file_bytes *model, const char *path, size_t room);
