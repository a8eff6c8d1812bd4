/* A look at the bytes that libavformat reads, for mr_ts_scan: a context of its own in front of another one. Where the
 * video is replaced by another one (ts_tables.h) the bytes end, and another demuxer reads on. */
#pragma once

#include <libavformat/avio.h>

#include "stages/media/ts/ts_scan.h"

/* Opens a context that reads from `from`, which stays the caller's, and feeds these bytes to a scan. 0, or an
 * AVERROR. */
int mr_ts_tap_open(AVIOContext **tap, AVIOContext *from);
/* Closes it and sets it to NULL; NULL is allowed. */
void mr_ts_tap_close(AVIOContext **tap);
/* Its scan; NULL: there is no tap. */
const mr_ts_scan *mr_ts_tap_scan(const AVIOContext *tap);
/* The offset among the bytes that it reads, as its scan has them, of one that libavformat gives (AVPacket.pos). */
int64_t mr_ts_tap_place(const AVIOContext *tap, int64_t offset);
/* Pictures that are scrambled (mr_ts_scan_scrambled). NULL is allowed. */
uint64_t mr_ts_tap_scrambled(const AVIOContext *tap);
/* The video that is read; until then it is the first one. NULL is allowed. */
void mr_ts_tap_watch(AVIOContext *tap, int pid);
/* Whether the bytes ended because the video was replaced. NULL is allowed. */
bool mr_ts_tap_has_more(const AVIOContext *tap);
/* Puts a new context in the place of that one, for a demuxer that begins with the tables of the other video: their
 * packets come first, at offset 0. 0, or an AVERROR; then it is as it was. */
int mr_ts_tap_go_on(AVIOContext **tap);
