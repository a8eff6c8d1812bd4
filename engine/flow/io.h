/* The engine's own requests of a call, beside mr_io_* of stage.h. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_IO_H
#define MILLRACE_FLOW_IO_H

#include "engine/flow/instance/instance.h"

/* Takes input `index` of port 0 from the call, which does nothing more with it: the caller owns its reference and
 * settles it. */
mr_frame *mr_io_take(mr_io *io, size_t index);
/* A buffer for an input that is brought in. */
int mr_io_staging(mr_io *io, size_t bytes, mr_buffer **buffer);
/* Memory of the call for frames that are copied together; for uploads also the block in which the host gathers them.
 * NULL if none is free, or none is planned. */
int mr_io_gather(mr_io *io, size_t bytes, mr_buffer **buffer, mr_buffer **block);
/* A pinned bounce buffer of the call for a frame in external memory; NULL if the frame is not, or the plan has none. */
int mr_io_bounce(mr_io *io, const mr_frame *frame, mr_device *device, size_t bytes, mr_buffer **buffer);

#endif
