/* A look at the bytes that libavformat reads, for mr_ts_scan: a context of its own in front of another one. */
#ifndef MILLRACE_STAGES_MEDIA_TS_TS_TAP_H
#define MILLRACE_STAGES_MEDIA_TS_TS_TAP_H

#include <libavformat/avio.h>

#include "stages/media/ts/ts_scan.h"

/* Opens a context that reads from `from`, which stays the caller's, and feeds these bytes to a scan. 0, or an
 * AVERROR. */
int mr_ts_tap_open(AVIOContext **tap, AVIOContext *from);
/* Closes it and sets it to NULL; NULL is allowed. */
void mr_ts_tap_close(AVIOContext **tap);
/* Its scan; NULL: there is no tap. */
const mr_ts_scan *mr_ts_tap_scan(const AVIOContext *tap);

#endif
