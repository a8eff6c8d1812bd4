/* Requests that only the engine makes during a call, besides mr_io_* in stage.h. Internal to engine/flow. */
#pragma once

#include "engine/flow/instance/instance.h"
#include "engine/flow/run/intact.h"

/* A call returned a value that is no answer: stops the run, and returns its status. */
int mr_io_refuse_answer(mr_io *io, int answer);
/* The call has changed its inputs. Stops the run. */
int mr_io_refuse_change(mr_io *io, mr_intact_change change);
/* Takes input `index` on port 0 away from the call. The caller then owns the reference and must settle the frame. */
mr_frame *mr_io_take(mr_io *io, size_t index);
/* Takes a buffer for an input that must be copied to the call's device. */
int mr_io_staging(mr_io *io, size_t bytes, mr_buffer **buffer);
/* Takes memory for frames to copy together; for uploads also the block where the host gathers them. NULL if none is
 * free or planned. */
int mr_io_gather(mr_io *io, size_t bytes, mr_buffer **buffer, mr_buffer **block);
/* Takes a pinned bounce buffer for a frame in external memory. NULL if the frame needs none or none is planned. */
int mr_io_bounce(mr_io *io, const mr_frame *frame, mr_device *device, size_t bytes, mr_buffer **buffer);
