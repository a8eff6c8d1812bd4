/* Packets of one source into files: one, or one after the other, each from a key frame on. One thread. */
#pragma once

#include "stages/video/video_file.h"
#include "stages/video/video_hls.h"
#include "stages/sink/keep.h"
#include "stages/video/video_options.h"

/* All zero is closed. */
typedef struct mr_video_files {
    const mr_video_options *given;
    mr_container container;
    char pattern[MR_OUTPUT_NAME]; /* pattern for file names */
    mr_keep keep;
    mr_full full;
    mr_hls_files hls;
    bool begun;               /* it is known whether the run begins, and which files are there */
    bool replaces;            /* the next file may replace an existing one */
    uint64_t number;          /* next file's number */
    mr_muxer *muxer;          /* NULL: none */
    mr_video_file file;
    mr_media *media;          /* the muxer's media */
    uint32_t epoch;
    mr_hls_entry entry;       /* the open file's */
    int64_t first_ns, latest_ns; /* presentation times in the open file; MR_NO_TIME: none yet */
    int64_t end_ns;           /* its pictures' end; for a finished file, including the last picture */
    int64_t pictures;         /* that have a time */
    bool changed;             /* the last file ended because the stream is another one */
    int64_t spread_ns;        /* monotonic clock: when the changes would end if each took a second */
    bool taken;               /* this call's input is in the muxer */
    bool broken;              /* the next file does not continue the previous one */
    bool unlisted;            /* the playlist has no room yet */
    bool refused;             /* a stream that no file can hold, which was reported */
} mr_video_files;

int mr_video_files_open(mr_video_files *files, mr_stage *self);
/* As process and flush. */
int mr_video_files_take(mr_video_files *files, mr_stage *self, mr_io *io);
int mr_video_files_flush(mr_video_files *files, mr_stage *self, mr_io *io);
void mr_video_files_close(mr_video_files *files, mr_stage *self);
