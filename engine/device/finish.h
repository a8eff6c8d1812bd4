/* Waiting for a stream, for callers outside of a graph, which have nothing else to do meanwhile. */
#pragma once

#include "engine/device/device.h"

/* Records an event on the stream and waits for it, on the calling thread. `now_ns`: simulated time of a device that
 * works in it, which is moved on; unused on others. Returns the status of the work. */
int mr_stream_finish(mr_stream *stream, int64_t *now_ns);
