/* Packets of libavformat's demuxer of transport streams get the marks that it gives to others (ts_scan.h). */
#pragma once

#include <libavformat/avformat.h>

#include "stages/media/ts/ts_scan.h"

/* Zeros: a stream begins. */
typedef struct mr_ts_marks {
    mr_ts_cursor cursor;
    bool doubtful; /* libavformat has marked the packet before, and it was not found */
} mr_ts_marks;

/* Looks up the next packet of a stream: sets AV_PKT_FLAG_CORRUPT if bytes of it are missing, and clears it otherwise.
 * True: bytes are missing before it, or within it. A packet that cannot be found, as all are without a `scan`, keeps
 * its mark, which counts for the one behind it, too. */
bool mr_ts_mark(mr_ts_marks *marks, const mr_ts_scan *scan, int pid, AVPacket *packet);
