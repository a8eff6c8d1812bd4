/* What stages that only add to a frame have in common. */
#ifndef MILLRACE_STAGES_PAYLOAD_H
#define MILLRACE_STAGES_PAYLOAD_H

#include "millrace/stage.h"

/* A new frame with the payload of `from`, by reference, and all that mr_io_derive takes over. */
int mr_payload_share(mr_io *io, const mr_frame *from, mr_frame **frame);

#endif
