/* How each source of a run fares: whether it is to leave or has ended, its first failure, and what it reports of its
 * connection. Any thread. The lock also guards the plan's vertices of sources that come and go (source_slots.h). */
#ifndef MILLRACE_FLOW_RUN_SOURCES_H
#define MILLRACE_FLOW_RUN_SOURCES_H

#include "engine/flow/ledger/retired.h"
#include "engine/flow/run/run.h"

typedef struct mr_sources mr_sources;

/* `quiet`: failures are not written to the log. */
int mr_sources_create(mr_sources **sources, const mr_plan *plan, bool quiet);
void mr_sources_destroy(mr_sources **sources);

void mr_sources_lock(mr_sources *sources);
void mr_sources_unlock(mr_sources *sources);
/* With the lock: waits until mr_sources_announce; false: that time has passed. NULL: without end. */
bool mr_sources_await(mr_sources *sources, const struct timespec *until);
/* Also without the lock. */
void mr_sources_announce(mr_sources *sources);

/* The source's first failure is also that of the run, if it has none. */
void mr_source_fail(const mr_run *run, uint32_t source, int status, const char *message);
/* The source has ended. If it did not report so, since it is not called any more, that is done here. */
void mr_source_end(const mr_run *run, uint32_t source);
/* What a source reports of its connection. */
void mr_source_report_state(const mr_run *run, uint32_t source, const mr_source_report *report);
/* The source was removed: it is to end, as if the run were stopping. */
void mr_source_ask_to_leave(const mr_run *run, uint32_t source);
bool mr_source_is_to_leave(const mr_run *run, uint32_t source);
/* It has ended and left its slot. With the lock. */
void mr_source_leave(const mr_run *run, uint32_t source);

/* Its summary so far, which owns its lists and its message (mr_row_fini). `arrived`: its frames come from other nodes.
 * With the lock. */
void mr_source_account(const mr_run *run, uint32_t source, bool arrived, mr_source_summary *account);
/* The slot begins a new account, for its next source. With the lock. */
void mr_source_renew(const mr_run *run, uint32_t source);

#endif
