/* An exception of the program's functions, told to people and to the engine.
 *
 * Threads: with the GIL. */
#pragma once

#include "core.h"

/* Takes the exception that is set. Its traceback goes to standard error, once for each line of code that raised one,
 * and mr_message becomes "WHOM raised ValueError: bad (brightness.py:12)". `run` is an address that no other function
 * and no other run has: its last exception is kept for Pipeline.wait, by these words. Returns MR_ERROR_DATA. */
int mr_py_fail_with_exception(const char *whom, const void *run);
int mr_py_traceback_begin(PyObject *module);
