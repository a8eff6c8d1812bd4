/* Creates a sink's next file (file_name.h), locked and marked as own (keep.h). One thread. */
#pragma once

#include "stages/sink/file_name.h"
#include "stages/sink/full.h"

typedef struct mr_named_file {
    bool replaces;             /* the file uses the first name and empties an existing file; otherwise it gets a new
                                  name */
    int fd;                    /* 0: not open */
    char name[MR_OUTPUT_NAME]; /* without the folder */
    char path[MR_OUTPUT_PATH];
} mr_named_file;

/* Creates the file with this number, begun at that time (ns since 1970). Other programs can see by the lock (flock)
 * that it is being written. MR_ERROR_AGAIN: the disk is full, call again. MR_ERROR_IO, MR_ERROR_PERMISSION. */
int mr_named_file_make(mr_named_file *file, const mr_file_names *names, uint64_t number, int64_t begun_ns,
                       mr_full *full, const mr_stage *self);
