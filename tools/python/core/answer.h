/* What a stage's function returned for one frame, written into the stage's output.
 *
 * None and True pass the frame on, False leaves it out. An array is the output's payload. A dict has results by name,
 * and under "output" the payload.
 *
 * Threads: with the GIL. */
#pragma once

#include "stage.h"

/* `frame` is the output, not yet emitted; NULL for a sink. *passes: whether to emit it. */
int mr_py_answer(const mr_py_stage *stage, mr_io *io, mr_frame *frame, PyObject *answer, bool *passes);
