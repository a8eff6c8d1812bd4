/* A run's source slots: positions in the plan that one source uses at a time. Records which source has which slot,
 * admits, replaces and removes sources, and keeps removed sources' accounts. millrace.h documents what a program sees.
 *
 * A slot is a source in the plan, with all instances that serve only it (turns.h opens and resets them). Its vertex may
 * change only while the slot is vacant. The lock (sources.h) guards that; every reader must take it, except instances
 * that hold one of the source's frames. Any thread. */
#pragma once

#include "engine/flow/ledger/retired.h"
#include "engine/flow/source_jobs.h"
#include "engine/flow/wiring.h"

typedef struct mr_source_slots mr_source_slots;

/* A source in a separate plan, which has proven it. */
typedef struct mr_candidate {
    mr_plan *with;
    uint32_t source;
} mr_candidate;

/* Creates slots for all sources, also if none come and go. `turns` may be NULL. */
int mr_source_slots_create(mr_source_slots **slots, const mr_run *run, const mr_wiring *wiring, mr_source_jobs *jobs);
void mr_source_slots_destroy(mr_source_slots **slots);
/* Allows sources to be admitted. */
void mr_source_slots_open(mr_source_slots *slots);

/* Whether a source with this id could be admitted now, if there is a slot; returns mr_source_admit's errors. */
int mr_source_may_come(mr_source_slots *slots, const char *id);
/* Gives the candidate a slot. If a source with the same id is leaving, the candidate waits for that slot. On success
 * takes ownership of candidate->with. MR_ERROR_USAGE (a source with the id exists), MR_ERROR_UNAVAILABLE (all slots are
 * taken), MR_ERROR_CONFIG (no slot fits), MR_ERROR_CANCELLED. */
int mr_source_admit(mr_source_slots *slots, mr_candidate *candidate);
/* Replaces the source with the same id, which must leave if it is still there. */
int mr_source_replace(mr_source_slots *slots, mr_candidate *candidate);
/* Makes the source with this id leave. MR_ERROR_USAGE: there is none. */
int mr_source_remove(mr_source_slots *slots, const char *id);
/* Waits until no source with this id is leaving. MR_ERROR_AGAIN. */
int mr_source_await_removal(mr_source_slots *slots, const char *id, int64_t timeout_ns);

/* The number of the source with this id, and the plan's pointer to the id; MR_SOURCE_NONE if there is none. */
uint32_t mr_source_find(mr_source_slots *slots, const char *id, const char **kept);
/* Whether the source is there, has not ended, and is neither leaving nor being replaced. */
bool mr_source_gives(mr_source_slots *slots, const char *id);
/* The formats proven for the slot's source. */
mr_format_set mr_source_formats(mr_source_slots *slots, uint32_t source);
/* Copies the source's option map and its file name into the arena. MR_ERROR_USAGE if there is no such source. */
int mr_source_options(mr_source_slots *slots, const char *id, mr_arena *arena, mr_yaml **node);

/* A source's account so far; false: the slot is vacant. The caller must free the row with mr_row_fini. */
bool mr_source_slot_account(mr_source_slots *slots, uint32_t source, mr_source_summary *account);
/* Whether the slot is vacant. Needs the lock in sources.h. */
bool mr_source_slot_is_vacant(const mr_source_slots *slots, uint32_t source);
/* Frames from removed sources that were not accounted for. */
uint64_t mr_source_slots_unaccounted(const mr_source_slots *slots);
/* Copies a removed source's account, oldest first; false: there are no more, or no memory. Needs the lock in sources.h
 * from the first index to the last: a source that leaves in between changes what an index means. */
bool mr_source_retired_account(const mr_source_slots *slots, size_t index, mr_source_summary *account);

/* Pushes a frame for an external source; `id` must be the plan's pointer. Takes the frame's reference only on success.
 * MR_ERROR_AGAIN: no room within the timeout. MR_ERROR_CANCELLED. */
int mr_source_push(mr_source_slots *slots, uint32_t source, const char *id, mr_frame *frame, int64_t timeout_ns);
/* Ends an external source's frames. `id` NULL: whichever source has the slot. */
void mr_source_end_pushes(mr_source_slots *slots, uint32_t source, const char *id);
