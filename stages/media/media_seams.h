/* Seams of streams: where recordings were joined, or packets of a transport stream are missing.
 *
 * Transport streams number the packets of each stream from 0 to 15. libavformat calls a picture corrupt whenever these
 * numbers jump while it is read, also if the jump comes behind its last byte, as between two recordings that were
 * joined. Here the file is read once more around such a picture: it lacks bytes only if the jump is within it.
 *
 * Behind a seam times often begin anew. As ffmpeg does, they are shifted so that they go on. One thread. */
#ifndef MILLRACE_STAGES_MEDIA_MEDIA_SEAMS_H
#define MILLRACE_STAGES_MEDIA_MEDIA_SEAMS_H

#include <libavformat/avformat.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mr_seams {
    int64_t found;      /* so many in this turn */
    int64_t shift;      /* to be added to times, in the stream's time base */
    int64_t next_dts;   /* as shifted; AV_NOPTS_VALUE: not known */
    int64_t packets;    /* in this turn */
    int64_t last;       /* number of the packet at which the last seam was found; below 0: none was */
    int64_t broken_at;  /* offset of the last jump that was found in the file */
    int suspects;       /* so many packets more are examined */
} mr_seams;

void mr_seams_begin(mr_seams *seams);
/* Looks at the next packet of `stream`, which was read from `fd`: clears AV_PKT_FLAG_CORRUPT if nothing of it is
 * missing, and shifts its times. True if there is a seam before or within it that was not found before. */
bool mr_seams_pass(mr_seams *seams, int fd, const AVFormatContext *format, const AVStream *stream, AVPacket *packet);
/* The part of mr_seams_pass that is about times, for streams that come by other ways than a file. True: they begin anew
 * at this packet. */
bool mr_seams_shift(mr_seams *seams, const AVFormatContext *format, const AVStream *stream, AVPacket *packet);

#endif
