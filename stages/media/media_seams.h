/* Seams: places where recordings were joined, or where a transport stream lacks packets.
 *
 * A transport stream's packets are read a second time from the file, to find missing ones (ts/ts_scan.h).
 *
 * After a seam, times often restart. Like ffmpeg, this shifts them so that they continue. One thread. */
#pragma once

#include <libavformat/avformat.h>
#include <stdbool.h>
#include <stdint.h>

#include "stages/media/ts/ts_mark.h"

typedef struct mr_seams {
    int64_t found;      /* seams found in this turn */
    int64_t shift;      /* what to add to times, in the stream's time base */
    int64_t next_dts;   /* as shifted; AV_NOPTS_VALUE: not known */
    int64_t next_pts;   /* after the latest picture, likewise */
    bool lacks_pts;     /* a packet had no presentation time: `next_pts` may be too early */
    mr_ts_scan *scan;   /* NULL: not needed yet */
    int64_t scanned_from;
    mr_ts_marks marks;
    bool changes;       /* another video starts with the next packet */
} mr_seams;

/* Accepts a zeroed one, or one already in use. */
void mr_seams_begin(mr_seams *seams);
void mr_seams_fini(mr_seams *seams);
/* Checks the next packet from `stream`, read from `fd`: sets or clears AV_PKT_FLAG_CORRUPT and shifts the times.
 * Returns true if a seam comes before or inside it. */
bool mr_seams_pass(mr_seams *seams, int fd, const AVFormatContext *format, const AVStream *stream, AVPacket *packet);
/* Call if another video starts with the next packet. */
void mr_seams_note_change(mr_seams *seams);
/* Dates a key packet that has no time, if a seam comes before it. The following packet `next` shows which recording it
 * belongs to: libavformat would date it as if it continued the previous one. */
void mr_seams_date(const mr_seams *seams, const AVStream *stream, AVPacket *key, const AVPacket *next);
/* The part of mr_seams_pass that handles times, for streams that do not come from a file. True: times restart at this
 * packet. */
bool mr_seams_shift(mr_seams *seams, const AVFormatContext *format, const AVStream *stream, AVPacket *packet);
