/* A file that is being written. Bytes that wait for disk space stay with it, and nothing is written twice. One thread.
 * All zero is closed. */
#pragma once

#include "stages/sink/full.h"
#include "stages/video/video_muxer.h"
#include "stages/sink/file_name.h"

typedef struct mr_video_file {
    int fd;                   /* 0: closed */
    char name[MR_OUTPUT_NAME]; /* without the folder */
    char path[MR_OUTPUT_PATH];
    size_t written;           /* how many of the muxer's present bytes */
    bool ending;              /* the muxer has given everything */
} mr_video_file;

/* Creates the file with this number, begun at that time (ns since 1970), under a new name. `replaces`: uses the first
 * name and empties an existing file. MR_ERROR_AGAIN: the disk is full, call again. MR_ERROR_IO, MR_ERROR_PERMISSION. */
int mr_video_file_make(mr_video_file *file, const mr_file_names *names, uint64_t number, int64_t begun_ns,
                       bool replaces, mr_full *full, const mr_stage *self);
/* Writes the muxer's bytes and makes the muxer forget them. MR_ERROR_AGAIN: the disk is full, call again. */
int mr_video_file_write(mr_video_file *file, mr_muxer *muxer, mr_full *full, const mr_stage *self);
/* Closes it. MR_ERROR_IO. */
int mr_video_file_close(mr_video_file *file);
