/* Waiting for a stream, for callers outside of a graph, which have nothing else to do meanwhile. */
#pragma once

#include "engine/device/device.h"

/* Records an event on the stream and waits for it, on the calling thread. `now_ns`: a device's simulated time, which
 * this advances; unused on others. Returns the work's status. */
int mr_stream_finish(mr_stream *stream, int64_t *now_ns);
