/* The ends of sources that wait for their turn or come and go: a source is over once its end has passed all stages that
 * it reaches. Any thread. */
#ifndef MILLRACE_FLOW_RUN_ENDS_H
#define MILLRACE_FLOW_RUN_ENDS_H

#include "engine/flow/executor/executor.h"

typedef struct mr_ends mr_ends;

/* `task` is woken when the last end of a source has passed. MR_ERROR_MEMORY. */
int mr_ends_create(mr_ends **ends, size_t source_count, mr_task *task);
void mr_ends_destroy(mr_ends **ends);
/* Before the run: the source will pass that many ends more. Sources without any are not counted. */
void mr_ends_expect(mr_ends *ends, uint32_t source, size_t count);
/* A stage has seen the end of that source, or one that works for it alone has ended. `leaves`: for this source only.
 * `ends` may be NULL. */
void mr_ends_note(mr_ends *ends, uint32_t source, bool leaves);
/* Whether all have passed; and whether its source slot may have another source. */
bool mr_ends_have_passed(const mr_ends *ends, uint32_t source);
bool mr_ends_leave(const mr_ends *ends, uint32_t source);
/* For the next source of the slot. */
void mr_ends_renew(mr_ends *ends, uint32_t source);

#endif
