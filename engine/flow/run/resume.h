/* Resuming an earlier run: the checkpoint, and its effect on a run.
 *
 * A checkpoint is a small JSON file with the reach (reach.h) of each source, in the source's own numbers. It is written
 * at the start, once a second if anything has moved, and at the end: sinks bring their output to the disk first
 * (mr_stage_type.sync), then a new file replaces the old one (written beside it, fsync, rename, fsync of the folder). A
 * frame counts as settled only while nothing has failed: frames that are dropped because the run is being ended do not.
 *
 *     {"checkpoint": 1, "pipeline": "classify", "complete": false,
 *      "sources": {"lobby": {"of": "9f86d081884c7d65", "epoch": 0, "seq": 1041, "ended": false}}}
 *
 * `of` is a digest of the source's type and options: a source that reads something else has other numbers, and is
 * refused. A source without a reach has null for `epoch` and `seq`.
 *
 * The next run reads the frames of the current epoch again, since decoders and other stages with state must see them,
 * and absorbs the settled ones ("done before") before the first stage from which on no stage has state. Records that
 * were written but not yet settled reach the sink a second time; the sink knows its own file and leaves them out. So no
 * record is there twice and none is missing, and checkpoint and file never have to agree.
 *
 * Threads: create and destroy as the graph's; begin and end as its start and wait; the questions from any. */
#ifndef MILLRACE_FLOW_RUN_RESUME_H
#define MILLRACE_FLOW_RUN_RESUME_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/flow/run/run.h"

typedef struct mr_resume mr_resume;

/* Reads the checkpoint, if there is one, and checks that the pipeline can be resumed. MR_ERROR_CONFIG: a sink cannot
 * continue its output, or frames of one source reach a sink several ways, so that their records cannot be told apart,
 * or no source can repeat its frames. MR_ERROR_DATA: the checkpoint belongs to something else or is malformed.
 * MR_ERROR_IO: also if another run holds it (FILE.lock). MR_ERROR_PERMISSION, MR_ERROR_MEMORY. */
int mr_resume_create(mr_resume **resume, const mr_run *run, const char *path);
void mr_resume_destroy(mr_resume **resume);

/* All is open, and nothing was delivered yet: writes the first checkpoint, and keeps it up to date from now on. `sync`
 * brings the output of sinks to the disk (mr_stage_type.sync). */
int mr_resume_begin(mr_resume *resume, int (*sync)(void *context), void *context);
/* All has ended: writes the last one. Returns, also when called again, whether all could be written. */
int mr_resume_end(mr_resume *resume);
/* The source has no more frames; sources that end because the run is stopped do not call this. */
void mr_resume_exhausted(mr_resume *resume, uint32_t source);

/* There was a checkpoint: the run continues. `resume` may be NULL in these. */
bool mr_resume_continues(const mr_resume *resume);
/* And something was settled before it. */
bool mr_resume_any_settled(const mr_resume *resume);
/* Whether the source frame was settled by an earlier run. */
bool mr_resume_settled(const mr_resume *resume, const mr_identity *frame);
/* Whether a stage leaves a frame out, since an earlier run settled it and no stage from there on has state. `resume` is
 * not NULL. */
bool mr_resume_leaves_out(const mr_resume *resume, const mr_plan_vertex *stage, const mr_frame *frame);
/* Whether all frames of the source were. */
bool mr_resume_over(const mr_resume *resume, uint32_t source);
/* The epoch in which the source continues. */
uint32_t mr_resume_epoch(const mr_resume *resume, uint32_t source);

#endif
