/* The set of records that a file of results holds already: for a sink that continues an earlier run.
 *
 * A record is known by the identity of its frame. One thread. All zero is empty. */
#pragma once

#include <sys/types.h>

#include "engine/data/identity_set.h"
#include "millrace/stage.h"

typedef struct mr_written {
    const mr_stage *self;
    const char *path;
    uint64_t lines;
    const char *header;  /* of a table */
    bool quoted;         /* its next line goes on within quotes */
    bool any;            /* it has rows; those of the last frame begin here: */
    off_t begin;
    mr_identity last;
    mr_identity_set frames;
} mr_written;

/* For an mr_line_reader (output.h), with an mr_written whose `self` and `path` are set: one line of JSON as `jsonl`
 * writes it; or one of a table as `csv` does, and its end. MR_ERROR_DATA if it is not of this pipeline;
 * MR_ERROR_MEMORY. */
int mr_written_take_line(void *written, const char *line, size_t bytes, off_t at);
int mr_written_take_row(void *written, const char *line, size_t bytes, off_t at);
int mr_written_finish_rows(void *written, off_t *end);
/* Adds one frame. MR_ERROR_MEMORY. */
int mr_written_add(mr_written *written, const mr_identity *frame);
bool mr_written_has(mr_written *written, const mr_identity *frame);
void mr_written_fini(mr_written *written);
