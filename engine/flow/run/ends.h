/* Ends of sources that wait or come and go: a source is over when the end has passed every stage that it
 * reaches. Any thread. */
#pragma once

#include "engine/flow/executor/executor.h"

typedef struct mr_ends mr_ends;

/* `task` is woken when a source's last end has passed. MR_ERROR_MEMORY. */
int mr_ends_create(mr_ends **ends, size_t source_count, mr_task *task);
void mr_ends_destroy(mr_ends **ends);
/* Call before the run: this many more ends must pass for the source. A source with none is not counted. */
void mr_ends_expect(mr_ends *ends, uint32_t source, size_t count);
/* A stage saw the source's end, or an instance that serves only this source ended. `leaves`: another source may follow.
 * `ends` may be NULL. */
void mr_ends_note(mr_ends *ends, uint32_t source, bool leaves);
/* Whether all ends have passed; whether another source may have the slot. */
bool mr_ends_have_passed(const mr_ends *ends, uint32_t source);
bool mr_ends_leave(const mr_ends *ends, uint32_t source);
/* Resets it for the slot's next source. */
void mr_ends_renew(mr_ends *ends, uint32_t source);
