/* A frame as the program sees it: metadata, results and payload. It never changes.
 *
 * Threads: with the GIL. */
#pragma once

#include "hold.h"

/* Makes a Frame. Takes the hold's reference. */
PyObject *mr_py_frame(mr_py_hold *hold, const char *source);
/* Frames of a call that returns: those that the program keeps get copies of their payload and results. `kept`: see
 * mr_py_hold_count. */
int mr_py_frame_end_call(PyObject *frame, mr_py_kept *kept);
int mr_py_frame_add_type(PyObject *module);
