/* A frame's results as objects: one Result for each, with elements of the classes that millrace's Python part names, or
 * an array.
 *
 * Threads: with the GIL. */
#pragma once

#include "hold.h"

/* All results, newest first, as a list. Arrays lie in the frame's memory unless `copied`. */
PyObject *mr_py_results(mr_py_hold *hold, const mr_result *results, bool copied);
