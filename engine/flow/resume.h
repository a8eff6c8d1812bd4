/* Going on where an earlier run was ended: the checkpoint, and what it makes of a run.
 *
 * A checkpoint is a small JSON file: for each source how far it has got (reach.h), in the source's own numbers. It is
 * written at the start, once a second while anything has moved, and at the end: what sinks have taken is brought to the
 * disk first (mr_stage_type.sync), then a new file takes the place of the old one (written beside it, fsync, rename,
 * fsync of the folder). A frame counts as settled only while nothing has failed: what is dropped because the run is
 * being ended is not.
 *
 *     {"checkpoint": 1, "pipeline": "classify", "complete": false,
 *      "sources": {"lobby": {"of": "9f86d081884c7d65", "epoch": 0, "seq": 1041, "ended": false}}}
 *
 * `of` is a digest of the source's type and options: a source that reads something else has other numbers, and is
 * refused. A source without a reach has null for `epoch` and `seq`.
 *
 * The next run gives the frames of the current epoch anew, since decoders and other stages that remember must see them,
 * and absorbs those that are settled ("done before") before the first stage from which on nothing is remembered. What
 * was written but not yet settled comes a second time as far as the sink, which knows its own file and leaves it out:
 * so there is no record twice and none missing, without checkpoint and file ever having to agree.
 *
 * Threads: create and destroy as the graph's; begin and end as its start and wait; the questions from any. */
#ifndef MILLRACE_FLOW_RESUME_H
#define MILLRACE_FLOW_RESUME_H

#include <stdbool.h>
#include <stdint.h>

#include "millrace/frame.h"

typedef struct mr_resume mr_resume;
typedef struct mr_graph mr_graph;

/* Reads the checkpoint, if there is one, and checks that the pipeline can be continued: MR_ERROR_CONFIG where a sink
 * cannot continue what it writes, or one takes several ways of one source, whose records nothing tells apart, or where
 * no source gives the same frames again; MR_ERROR_DATA where it is the checkpoint of something else, or holds what
 * none holds; MR_ERROR_IO, also where another run has it (FILE.lock); MR_ERROR_PERMISSION, MR_ERROR_MEMORY. Instances are wired already. */
int mr_resume_create(mr_resume **resume, mr_graph *graph, const char *path);
void mr_resume_destroy(mr_resume **resume);

/* All is open, and nothing has been delivered yet: writes the first checkpoint and keeps it up to date from now on. */
int mr_resume_begin(mr_resume *resume);
/* All has ended: writes the last one. Answers, also when called again, whether all could be written. */
int mr_resume_end(mr_resume *resume);
/* The source has given all it has; others end because the run is stopped. */
void mr_resume_exhausted(mr_resume *resume, uint32_t source);

/* There was a checkpoint: the run goes on. `resume` may be NULL in these. */
bool mr_resume_continues(const mr_resume *resume);
/* And something was settled before it. */
bool mr_resume_any_settled(const mr_resume *resume);
/* Whether the source frame was settled by an earlier run. */
bool mr_resume_settled(const mr_resume *resume, const mr_identity *frame);
/* Whether all that the source gives was. */
bool mr_resume_over(const mr_resume *resume, uint32_t source);
/* The epoch in which the source goes on. */
uint32_t mr_resume_epoch(const mr_resume *resume, uint32_t source);

#endif
