/* Each source's state in a run: whether it must leave or has ended, the first failure, and what it reports about its
 * connection. Any thread. The lock also guards the plan's vertices for sources that come and go (source_slots.h). */
#pragma once

#include "engine/flow/ledger/retired.h"
#include "engine/flow/run/run.h"

typedef struct mr_sources mr_sources;

/* `quiet`: do not log failures. */
int mr_sources_create(mr_sources **sources, const mr_plan *plan, bool quiet);
void mr_sources_destroy(mr_sources **sources);

void mr_sources_lock(mr_sources *sources);
void mr_sources_unlock(mr_sources *sources);
/* With the lock: waits for mr_sources_announce. False: the time has passed. NULL: no limit. */
bool mr_sources_await(mr_sources *sources, const struct timespec *until);
/* May be called without the lock. */
void mr_sources_announce(mr_sources *sources);

/* Notes a source's failure. If the run has no failure yet, it becomes the run's too. */
void mr_source_fail(const mr_run *run, uint32_t source, int status, const char *message);
/* The source has ended. Reports that for a source that did not, since it is not called any more. */
void mr_source_end(const mr_run *run, uint32_t source);
/* Notes a report from a source about its connection. */
void mr_source_report_state(const mr_run *run, uint32_t source, const mr_source_report *report);
/* A call into the source's type begins, at now_ns on the executor's clock, and ends. On the source's thread. */
void mr_source_begin_call(const mr_run *run, uint32_t source, int64_t now_ns);
void mr_source_end_call(const mr_run *run, uint32_t source);
/* Looks for calls that are overdue: within_ns of the last report (stage.h) has passed, or half the grace time since the
 * source was asked to end. Until such a call returns or reports, the source counts as stalled. Logs both once. Without
 * the lock. */
void mr_sources_find_hangs(const mr_run *run);
/* The source was removed: it must end, as if the run were stopping. */
void mr_source_ask_to_leave(const mr_run *run, uint32_t source);
bool mr_source_is_to_leave(const mr_run *run, uint32_t source);
/* The source has ended and left the slot. With the lock. */
void mr_source_leave(const mr_run *run, uint32_t source);

/* The source's summary so far, with its own lists and message (mr_row_fini). `arrived`: the frames come from other
 * nodes. With the lock. */
void mr_source_account(const mr_run *run, uint32_t source, bool arrived, mr_source_summary *account);
/* Starts a new account for the slot's next source, which is not there yet. With the lock. */
void mr_source_renew(const mr_run *run, uint32_t source);
/* The next source has the slot. With the lock. */
void mr_source_arrive(const mr_run *run, uint32_t source);
/* Whether the slot's source has that id and was not removed. */
bool mr_source_is_there(const mr_run *run, uint32_t source, const char *id);
