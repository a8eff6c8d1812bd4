/* Copies frames into another memory: the stage type of the copies that the planner inserts, and the same work for
 * stages on several devices, which do it themselves.
 *
 * A copy is a new frame. Its planes, and the tensors among its results, lie one after the other in one buffer; parts
 * that are in the right memory already are shared. Pictures get the engine's layout, whatever their strides were.
 * Nothing blocks: copies are work on the stream of the stage's call, and all functions are called on that call's
 * thread. */
#ifndef MILLRACE_FLOW_COPY_H
#define MILLRACE_FLOW_COPY_H

#include "engine/plan/copy_options.h"
#include "millrace/stage.h"

extern const mr_stage_type mr_copy_stage;

/* The device whose memory holds some of the frame; NULL if all of it is in host memory. */
mr_device *mr_copy_device(const mr_frame *frame);
/* Bytes of the buffer that a copy of the frame for `device` (NULL: the host) needs; 0 if there is nothing to copy. */
size_t mr_copy_bytes(const mr_frame *frame, const mr_device *device);
/* Whether some of the data to copy is in host memory that is not pinned: a copy from there would block the calling
 * thread until the device reaches it. */
bool mr_copy_is_external(const mr_frame *frame, mr_device *device);
/* Copies into `buffer` by work on the call's stream. If `bounce` is not NULL, it serves as bounce buffer, and host
 * data are in it when this returns. Takes references of its own to `buffer`; both are as large as mr_copy_bytes says.
 * *copy is written last. MR_ERROR_MEMORY, or the stream's error. */
int mr_copy_frame(mr_io *io, const mr_frame *from, const mr_device *device, mr_buffer *buffer, mr_buffer *bounce,
                  mr_frame **copy);

#endif
