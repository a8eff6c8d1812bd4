/* Writes one source's packets to files: one, or several in sequence, each starting with a key frame. One thread. */
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
    bool begun;               /* it is known whether the run begins, and which files exist */
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
    bool changed;             /* the last file ended because the stream changed */
    int64_t spread_ns;        /* monotonic clock: when the changes would end if each took a second */
    bool taken;               /* this call's input is in the muxer */
    bool broken;              /* the next file does not continue the previous one */
    bool unlisted;            /* there is no room for the playlist yet */
    bool refused;             /* no file can hold the stream; reported */
} mr_video_files;

/* For names that stay the same: MR_ERROR_CONFIG if the source's file exists and may not be replaced. */
int mr_video_files_check(const mr_video_options *given, const char *source);
int mr_video_files_open(mr_video_files *files, mr_stage *self);
/* As process and flush. */
int mr_video_files_take(mr_video_files *files, mr_stage *self, mr_io *io);
int mr_video_files_flush(mr_video_files *files, mr_stage *self, mr_io *io);
void mr_video_files_close(mr_video_files *files, mr_stage *self);
