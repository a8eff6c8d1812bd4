/* Bringing frames into another memory: the stage type of the copies that the planner puts in, and the work it does,
 * which a stage on several devices does for itself.
 *
 * A copy is a new frame whose planes, and the tensors among whose results, lie one behind the other in one buffer;
 * what is in the right memory already is shared. Pictures lie there as the engine lays them out, whatever their
 * strides were. Nothing waits: copies are work on the stream of the stage's call, on whose thread all of this is
 * called. */
#ifndef MILLRACE_FLOW_COPY_H
#define MILLRACE_FLOW_COPY_H

#include "engine/plan/copy_options.h"
#include "millrace/stage.h"

extern const mr_stage_type mr_copy_stage;

/* The device in whose memory something of the frame lies; NULL where all of it is in host memory. */
mr_device *mr_copy_device(const mr_frame *frame);
/* Bytes of the buffer that a copy of the frame for `device` (NULL: the host) needs; 0 where there is nothing to copy.
 */
size_t mr_copy_bytes(const mr_frame *frame, const mr_device *device);
/* Whether something that has to be copied lies in host memory that is not pinned: a copy from there would hold the
 * calling thread up until the device has come to it. */
bool mr_copy_is_lent(const mr_frame *frame, mr_device *device);
/* Makes the copy in `buffer` by work on the call's stream; with `passage`, by way of that: what lies on the host is
 * there when this returns. Of `buffer` it takes references of its own; both are as large as mr_copy_bytes says. *copy
 * is written last. MR_ERROR_MEMORY, or what the stream answers. */
int mr_copy_frame(mr_io *io, const mr_frame *from, const mr_device *device, mr_buffer *buffer, mr_buffer *passage,
                  mr_frame **copy);

#endif
