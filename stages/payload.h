/* What stages that only add to a frame have in common. Called by `process`, on its thread; errors are MR_ERROR_MEMORY
 * and those of mr_io_derive. */
#ifndef MILLRACE_STAGES_PAYLOAD_H
#define MILLRACE_STAGES_PAYLOAD_H

#include "millrace/stage.h"

/* A new frame with the payload of `from`, by reference, and all that mr_io_derive takes over. */
int mr_payload_share(mr_io *io, const mr_frame *from, mr_frame **frame);

/* Adds a small tensor as a named result to a frame that is not yet emitted. It stands in the result itself, not in a
 * buffer: such results go with a frame as far as it goes, and pools do not count on that. *data is to be filled in by
 * this call's work; `name` lives as long as the pipeline. */
int mr_payload_add_tensor(mr_io *io, mr_frame *frame, const char *name, const mr_format *format, void **data);

#endif
