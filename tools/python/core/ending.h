/* How a run ends: by Pipeline.close, and with the interpreter.
 *
 * Both call the program's handlers of signals while they wait. The first exception, such as that of Ctrl-C, drops the
 * frames in flight, as the end of the time does. The next gives up: a thread then waits for the run's end instead, and
 * the caller goes on.
 *
 * Threads: with the GIL, which they release while they wait. */
#pragma once

#include "core.h"
#include "session.h"

/* Ends the run and waits for it; frames in flight have `left` nanoseconds (-1: no limit). Returns the last summary;
 * None: there was no run, or another thread closes it. */
PyObject *mr_py_close(mr_py_session *session, int64_t left);
/* Closes all sessions. A run that does not end, because a function of the program does not return, is left with a
 * warning that names the stage. */
void mr_py_close_all(void);
/* An object that closes the session when the program lets go of it, unless a function that a pipeline calls does so,
 * and gives its Pipeline the last summary. Exceptions of signals during this wait are raised after it. A run that does
 * not end is left with a warning, as by mr_py_close_all. */
PyObject *mr_py_closer(mr_py_session *session, PyObject *pipeline);
int mr_py_closer_add_type(PyObject *module);
