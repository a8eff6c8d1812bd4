/* preprocess as work on a device's stream: the function that stages call.
 *
 * Threads: as for the stream. Errors: MR_ERROR_MEMORY, MR_ERROR_DEVICE. */
#pragma once

#include "kernels/preprocess/preprocess.h"
#include "millrace/stage.h"

/* Enqueues runs for `count` pictures on `stream`. A CUDA device does up to MR_PREPROCESS_LAUNCH consecutive pictures
 * with one plan in one launch. `plan`, the planes and `dst` must stay valid until the work is done; the structs are
 * copied. The stream's device must be able to read planes and `dst`. Scratch memory belongs to the thread that does the
 * work, which keeps it. The thread that finds the work done calls `done`. That need not happen for work that a failed
 * device never runs, or if this function fails. */
int mr_preprocess_enqueue(mr_stream *stream, const mr_preprocess_work *works, int count);
