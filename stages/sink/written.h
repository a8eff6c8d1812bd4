/* The set of records that a results file already holds, for a sink that continues an earlier run.
 *
 * A record is identified by its frame's identity. One thread. All zero is empty. */
#pragma once

#include <sys/types.h>

#include "engine/data/identity_set.h"
#include "millrace/stage.h"

typedef struct mr_written {
    const mr_stage *self;
    const char *path;
    uint64_t lines;
    const char *header;  /* a table's header */
    bool quoted;         /* the next line continues inside quotes */
    bool any;            /* it has rows; the last frame's begin here: */
    off_t begin;
    mr_identity last;
    mr_identity_set frames;
} mr_written;

/* For mr_line_reader (output.h); `written` is an mr_written with `self` and `path` set. Takes a JSON line from `jsonl`,
 * one of several for a frame, or a table line from `csv`; and the end of the last two. MR_ERROR_DATA if it is not from
 * this pipeline; MR_ERROR_MEMORY. */
int mr_written_take_line(void *written, const char *line, size_t bytes, off_t at);
int mr_written_take_lines(void *written, const char *line, size_t bytes, off_t at);
int mr_written_take_row(void *written, const char *line, size_t bytes, off_t at);
int mr_written_finish_rows(void *written, off_t *end);
/* Adds one frame. MR_ERROR_MEMORY. */
int mr_written_add(mr_written *written, const mr_identity *frame);
bool mr_written_has(mr_written *written, const mr_identity *frame);
void mr_written_fini(mr_written *written);
