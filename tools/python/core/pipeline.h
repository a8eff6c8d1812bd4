/* The type _core.Pipeline: a pipeline that is open, and all that the program can do with it while it runs. Python's
 * class millrace.Pipeline has one.
 *
 * Threads: with the GIL; calls that wait release it. */
#pragma once

#include "core.h"

int mr_py_pipeline_add_type(PyObject *module);
