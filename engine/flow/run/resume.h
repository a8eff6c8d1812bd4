/* Resumes an earlier run: the checkpoint, and how it affects a run.
 *
 * A checkpoint is a small JSON file with each source's reach (reach.h), in the source's own numbers. It is written at
 * the start, once a second after any change, and at the end. Sinks must first write all output to disk
 * (mr_stage_type.sync); then a new file replaces the old one (write to a temporary file, fsync, rename, fsync the
 * folder). A frame counts as settled only while nothing has failed: frames dropped because the run is ending do not
 * count.
 *
 *     {"checkpoint": 1, "pipeline": "classify", "complete": false,
 *      "run": "5f0c9a3be1d27846",
 *      "sources": {"lobby": {"of": "9f86d081884c7d65", "epoch": 0, "seq": 1041, "ended": false}}}
 *
 * `of` is a digest over the source's type and options: a source that reads something else numbers frames differently,
 * and is refused. A source without a reach has null for `epoch` and `seq`.
 *
 * The next run reads the current epoch's frames again, since decoders and other stages with state must see them. It
 * absorbs settled frames ("done before") at the first stage after which no stage has state. Records written but not yet
 * settled reach the sink a second time; the sink knows its file and must leave them out. So no record is duplicated or
 * missing, and checkpoint and file need not agree.
 *
 * Threads: create and destroy like the graph; begin with the graph's start and end with its wait; any thread may ask
 * questions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/flow/run/run.h"

typedef struct mr_resume mr_resume;

/* Reads the checkpoint, if there is one, and checks that the pipeline can be resumed. MR_ERROR_CONFIG: a sink cannot
 * continue its output; or one source's frames reach a sink on several paths, so that their records cannot be
 * distinguished; or no source can repeat frames. MR_ERROR_DATA: the checkpoint is malformed or for something else.
 * MR_ERROR_IO: also if another run holds it (FILE.lock). MR_ERROR_PERMISSION, MR_ERROR_MEMORY. */
int mr_resume_create(mr_resume **resume, const mr_run *run, const char *path);
void mr_resume_destroy(mr_resume **resume);

/* Call it when everything is open and nothing was delivered: writes the first checkpoint and then keeps it up to date.
 * `sync` must write the sinks' output to disk (mr_stage_type.sync). */
int mr_resume_begin(mr_resume *resume, int (*sync)(void *context), void *context);
/* Call it when the run has ended: writes the last checkpoint. Returns whether all could be written, also if called
 * again. */
int mr_resume_end(mr_resume *resume);
/* The source has no more frames. A source that ends because the run is stopped must not call this. */
void mr_resume_exhausted(mr_resume *resume, uint32_t source);

/* Whether there was a checkpoint, so that the run continues. In these functions `resume` may be NULL. */
bool mr_resume_continues(const mr_resume *resume);
/* Whether the checkpoint settles any frame. */
bool mr_resume_any_settled(const mr_resume *resume);
/* Whether an earlier run settled this source frame. */
bool mr_resume_settled(const mr_resume *resume, const mr_identity *frame);
/* Whether a stage must leave a frame out: an earlier run settled it, and neither this stage nor a later one has state.
 * `resume` must not be NULL. */
bool mr_resume_leaves_out(const mr_resume *resume, const mr_plan_vertex *stage, const mr_frame *frame);
/* Whether an earlier run settled all of the source's frames. */
bool mr_resume_over(const mr_resume *resume, uint32_t source);
/* The run's id (run_id.h): that of the run that this one continues, if it does. NULL: no checkpoint has it. */
const char *mr_resume_run(const mr_resume *resume);
/* The epoch in which the source must continue. */
uint32_t mr_resume_epoch(const mr_resume *resume, uint32_t source);
