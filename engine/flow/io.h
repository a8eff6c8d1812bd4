/* What the engine itself asks of a call, beside mr_io_* of stage.h. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_IO_H
#define MILLRACE_FLOW_IO_H

#include "engine/flow/instance.h"

/* Takes input `index` of port 0 from the call, which nothing more is done with: its reference, and what becomes
 * of it, are the caller's. */
mr_frame *mr_io_take(mr_io *io, size_t index);
/* A buffer for what is brought in. */
int mr_io_staging(mr_io *io, size_t bytes, mr_buffer **buffer);
/* Memory of the call for frames that are copied together, of uploads with the block in which the host puts them together;
 * NULL where none is free, or none is planned. */
int mr_io_gather(mr_io *io, size_t bytes, mr_buffer **buffer, mr_buffer **block);
/* A pinned buffer of the call for a frame that is lent; NULL where it is not, or where the plan knew of none that are. */
int mr_io_passage(mr_io *io, const mr_frame *frame, mr_device *device, size_t bytes, mr_buffer **buffer);

#endif
