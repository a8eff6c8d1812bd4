/* preprocess as work of a device's stream: the function that stages call.
 *
 * Threads: as for the stream. Errors: MR_ERROR_MEMORY, MR_ERROR_DEVICE. */
#pragma once

#include "kernels/preprocess/preprocess.h"
#include "millrace/stage.h"

/* Enqueues the runs of `count` pictures on `stream`; a CUDA device does up to MR_PREPROCESS_LAUNCH pictures of one plan
 * that follow each other in one launch. Until the work is done `plan`, the planes and `dst` must stay valid; the
 * structs themselves are copied. Planes and `dst` are in memory that the device of the stream reads. Scratch memory
 * belongs to the thread that does the work and is kept by it. `done` is called from the thread that finds the work
 * done. It may not be called for work that a failed device never runs, nor if this function fails. */
int mr_preprocess_enqueue(mr_stream *stream, const mr_preprocess_work *works, int count);
