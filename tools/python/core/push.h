/* Frames from the program: arrays that a source of type `push` gives to the pipeline.
 *
 * Threads: with the GIL; waiting for room releases it. */
#pragma once

#include "core.h"

/* Pushes by a tuple (source, planes, pixel, layout, pts_ns or None, timeout or None,
 * copy): a list of arrays, one for each
 * plane of a picture, or one for a tensor. `pixel` is the number of a picture's pixel layout, or 0 for a tensor. Unless
 * `copy`, the pipeline reads the arrays' memory later, and keeps the arrays until then. */
int mr_py_push(mr_pipeline *pipeline, PyObject *arguments);
