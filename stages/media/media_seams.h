/* Seams of streams: where recordings were joined, or packets of a transport stream are missing.
 *
 * The packets of a transport stream are read a second time from the file, to find those that are missing
 * (ts/ts_scan.h).
 *
 * Behind a seam times often begin anew. As ffmpeg does, they are shifted so that they go on. One thread. */
#pragma once

#include <libavformat/avformat.h>
#include <stdbool.h>
#include <stdint.h>

#include "stages/media/ts/ts_mark.h"

typedef struct mr_seams {
    int64_t found;      /* so many in this turn */
    int64_t shift;      /* to be added to times, in the stream's time base */
    int64_t next_dts;   /* as shifted; AV_NOPTS_VALUE: not known */
    int64_t next_pts;   /* behind the latest picture, likewise */
    bool lacks_pts;     /* a packet had no presentation time, so that `next_pts` may be too early */
    mr_ts_scan *scan;   /* NULL: not needed yet */
    int64_t scanned_from;
    mr_ts_marks marks;
    bool changes;       /* the next packet is the first of another video */
} mr_seams;

/* Of a zeroed one, or one that was begun before. */
void mr_seams_begin(mr_seams *seams);
void mr_seams_fini(mr_seams *seams);
/* Looks at the next packet of `stream`, which was read from `fd`: sets or clears AV_PKT_FLAG_CORRUPT, and shifts its
 * times. True if there is a seam before or within it. */
bool mr_seams_pass(mr_seams *seams, int fd, const AVFormatContext *format, const AVStream *stream, AVPacket *packet);
/* The next packet is the first of another video. */
void mr_seams_note_change(mr_seams *seams);
/* Gives a key packet without a time one of the recording that `next`, the packet behind it, is of, if there is a seam
 * before the two: libavformat dates it as if it continued the one before. */
void mr_seams_date(const mr_seams *seams, const AVStream *stream, AVPacket *key, const AVPacket *next);
/* The part of mr_seams_pass that is about times, for streams that come by other ways than a file. True: they begin anew
 * at this packet. */
bool mr_seams_shift(mr_seams *seams, const AVFormatContext *format, const AVStream *stream, AVPacket *packet);
