/* Shows mr_ts_scan the bytes that libavformat reads: a separate AVIO context in front of another one. Where another
 * video replaces this one (ts_tables.h), the bytes end, and another demuxer must continue. */
#pragma once

#include <libavformat/avio.h>

#include "stages/media/ts/ts_scan.h"

/* Opens a context that reads from `from` (the caller keeps it) and feeds the bytes to a scan. Returns 0, or an
 * AVERROR. */
int mr_ts_tap_open(AVIOContext **tap, AVIOContext *from);
/* Closes it and sets it to NULL; NULL is allowed. */
void mr_ts_tap_close(AVIOContext **tap);
/* The tap's scan; NULL: there is no tap. */
const mr_ts_scan *mr_ts_tap_scan(const AVIOContext *tap);
/* Converts libavformat's offset (AVPacket.pos) to the scan's offset. */
int64_t mr_ts_tap_place(const AVIOContext *tap, int64_t offset);
/* How many pictures are scrambled (mr_ts_scan_scrambled). NULL is allowed. */
uint64_t mr_ts_tap_scrambled(const AVIOContext *tap);
/* Chooses the video; until then it is the first one. NULL is allowed. */
void mr_ts_tap_watch(AVIOContext *tap, int pid);
/* Whether the bytes ended because the video was replaced. NULL is allowed. */
bool mr_ts_tap_has_more(const AVIOContext *tap);
/* Replaces the context by a new one, for a demuxer that starts with the other video's tables: their packets come first,
 * at offset 0. Returns 0, or an AVERROR: nothing has then changed. */
int mr_ts_tap_go_on(AVIOContext **tap);
