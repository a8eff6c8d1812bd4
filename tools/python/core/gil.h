/* The GIL for the engine's threads.
 *
 * A thread keeps its Python state from its first call until it ends: making one for each call would take longer than
 * the call, and functions would find their threading.local empty each time.
 *
 * Threads: any, without the GIL. */
#pragma once

#include "core.h"

int mr_py_gil_begin(PyObject *module);
/* Takes the GIL; mr_py_gil_give must follow. */
PyGILState_STATE mr_py_gil_take(void);
void mr_py_gil_give(PyGILState_STATE state);
/* The interpreter ends: threads that end later leave their states to it. */
void mr_py_gil_end(void);
