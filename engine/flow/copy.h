/* Copies frames into another memory. The planner inserts this as a stage; stages on several devices call it directly.
 *
 * A copy is a new frame. Planes and tensors that must move lie one after the other in one buffer; parts that are
 * already in the right memory are shared. Pictures get the engine's layout, whatever stride they had. Nothing blocks:
 * copies are work on the call's stream. Call all functions on that call's thread. */
#pragma once

#include "engine/plan/copy_options.h"
#include "millrace/stage.h"

extern const mr_stage_type mr_copy_stage;

/* The device that holds any part of the frame; NULL if the whole frame is in host memory. */
mr_device *mr_copy_device(const mr_frame *frame);
/* The buffer size needed to copy the frame to `device` (NULL: the host); 0 if nothing needs copying. */
size_t mr_copy_bytes(const mr_frame *frame, const mr_device *device);
/* Whether any data to copy is in unpinned host memory. A direct copy would block the calling thread until the device
 * gets to it. */
bool mr_copy_is_external(const mr_frame *frame, mr_device *device);
/* Copies into `buffer` on the call's stream. If `bounce` is not NULL, the host data are in it on return. Both must be
 * as large as mr_copy_bytes says; the copy takes references to `buffer`. *copy is written last. Returns MR_ERROR_MEMORY
 * or the stream's error. */
int mr_copy_frame(mr_io *io, const mr_frame *from, const mr_device *device, mr_buffer *buffer, mr_buffer *bounce,
                  mr_frame **copy);
