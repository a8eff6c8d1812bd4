/* Marks packets from libavformat's transport stream demuxer, which puts the marks on wrong packets (ts_scan.h). */
#pragma once

#include <libavformat/avformat.h>

#include "stages/media/ts/ts_scan.h"

/* Zeros: a stream begins. */
typedef struct mr_ts_marks {
    mr_ts_cursor cursor;
    bool doubtful; /* libavformat marked the previous packet, which was not found */
} mr_ts_marks;

/* Looks up a stream's next packet: sets AV_PKT_FLAG_CORRUPT if it lacks bytes, else clears it. Returns true if bytes
 * are missing before or inside it. A packet that cannot be found (none can without a `scan`) keeps its mark, which then
 * also counts for the next packet. */
bool mr_ts_mark(mr_ts_marks *marks, const mr_ts_scan *scan, int pid, AVPacket *packet);
