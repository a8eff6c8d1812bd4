/* Which records a file of results holds already: for a sink that goes on where an earlier run was ended.
 *
 * A record is known by the identity of its frame. One thread. All zero is empty. */
#ifndef MILLRACE_STAGES_WRITTEN_H
#define MILLRACE_STAGES_WRITTEN_H

#include "engine/data/identity_set.h"
#include "millrace/stage.h"

typedef struct mr_written {
    const mr_stage *self;
    const char *path;
    uint64_t lines;
    mr_identity_set frames;
} mr_written;

/* Takes one line of JSON as `jsonl` writes it; an mr_line_function, with an mr_written whose `self` and `path` are set.
 * MR_ERROR_DATA where it is none of this pipeline; MR_ERROR_MEMORY. */
int mr_written_take_line(void *written, const char *line, size_t bytes);
/* Adds one frame. MR_ERROR_MEMORY. */
int mr_written_add(mr_written *written, const mr_identity *frame);
bool mr_written_has(mr_written *written, const mr_identity *frame);
void mr_written_fini(mr_written *written);

#endif
