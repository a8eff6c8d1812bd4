/* A look at the bytes that libavformat reads, for mr_ts_scan: a context of its own in front of another one. */
#ifndef MILLRACE_STAGES_MEDIA_TS_TS_TAP_H
#define MILLRACE_STAGES_MEDIA_TS_TS_TAP_H

#include <libavformat/avio.h>

#include "stages/media/ts/ts_scan.h"

/* Opens a context that reads from `from` and feeds what it reads. Both it and `from` are closed by mr_ts_tap_close. 0,
 * or an AVERROR: `from` stays the caller's. */
int mr_ts_tap_open(AVIOContext **io, AVIOContext *from);
/* False: it is not one of mr_ts_tap_open, and is not closed. */
bool mr_ts_tap_close(AVIOContext *io);
/* What it has fed; NULL: it is not one of mr_ts_tap_open. */
const mr_ts_scan *mr_ts_tap_scan(const AVIOContext *io);

#endif
