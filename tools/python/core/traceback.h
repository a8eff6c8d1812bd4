/* An exception of the program's functions, told to people and to the engine.
 *
 * Threads: with the GIL. */
#pragma once

#include "core.h"

/* Takes the exception that is set. Its traceback goes to standard error, once for each line of code that raised one,
 * and mr_message becomes "WHOM raised ValueError: bad (brightness.py:12)". Returns MR_ERROR_DATA. */
int mr_py_fail_with_exception(const char *whom);
/* The last exception that went that way, or None: a new reference. */
PyObject *mr_py_last_exception(void);
int mr_py_traceback_begin(PyObject *module);
