/* The source slots of a run: positions of the plan that one source uses at a time. Says which source has which slot,
 * admits, replaces and removes sources, and keeps the accounts of those that were removed. millrace.h documents what a
 * program sees of it.
 *
 * A slot is a source of the plan with all instances that work for it alone (turns.h opens and resets them). Its plan's
 * vertex is changed only while no source has it; the lock (sources.h) guards that, and all readers but instances that
 * have a frame of the source take it. Any thread. */
#ifndef MILLRACE_FLOW_SOURCE_SLOTS_H
#define MILLRACE_FLOW_SOURCE_SLOTS_H

#include "engine/flow/ledger/retired.h"
#include "engine/flow/turns.h"
#include "engine/flow/wiring.h"

typedef struct mr_source_slots mr_source_slots;

/* A source of a plan of its own, which has proven it. */
typedef struct mr_candidate {
    mr_plan *with;
    uint32_t source;
} mr_candidate;

/* For all sources, also of a run in which none come and go. `turns` may be NULL. */
int mr_source_slots_create(mr_source_slots **slots, const mr_run *run, const mr_wiring *wiring, mr_turns *turns);
void mr_source_slots_destroy(mr_source_slots **slots);
/* Sources may be admitted from now on. */
void mr_source_slots_open(mr_source_slots *slots);

/* Whether a source of that id could come now, if there is a slot for it: as mr_source_admit. */
int mr_source_may_come(mr_source_slots *slots, const char *id);
/* Gives the candidate a slot, or, if a source of its id is leaving, the slot of that one. On success takes
 * candidate->with over. MR_ERROR_USAGE (that id is there, or all slots are taken), MR_ERROR_CONFIG (no slot fits),
 * MR_ERROR_CANCELLED. */
int mr_source_admit(mr_source_slots *slots, mr_candidate *candidate);
/* The same in place of the source of that id, which leaves if it is there. */
int mr_source_replace(mr_source_slots *slots, mr_candidate *candidate);
/* Lets the source of that id leave. MR_ERROR_USAGE: there is none. */
int mr_source_remove(mr_source_slots *slots, const char *id);
/* Waits until no source of that id is leaving. MR_ERROR_AGAIN. */
int mr_source_await_removal(mr_source_slots *slots, const char *id, int64_t timeout_ns);

/* The number of the source of that id, and the pointer that the plan has for the id; MR_SOURCE_NONE if it is not
 * there. */
uint32_t mr_source_find(mr_source_slots *slots, const char *id, const char **kept);
/* Whether it is there, has not ended, and is neither leaving nor being replaced. */
bool mr_source_gives(mr_source_slots *slots, const char *id);
/* The formats that were proven of the source that has the slot. */
mr_format_set mr_source_formats(mr_source_slots *slots, uint32_t source);
/* Copies the map of its options into the arena, and of its places the file's name. MR_ERROR_USAGE if it is not
 * there. */
int mr_source_options(mr_source_slots *slots, const char *id, mr_arena *arena, mr_yaml **node);

/* What became of a source so far; false: no source has the slot. The row owns its lists and its message
 * (mr_row_fini). */
bool mr_source_slot_account(mr_source_slots *slots, uint32_t source, mr_source_summary *account);
/* No source has the slot. With the lock of sources.h. */
bool mr_source_slot_is_vacant(const mr_source_slots *slots, uint32_t source);
/* Frames of sources that were removed, and that were not accounted for. */
uint64_t mr_source_slots_unaccounted(const mr_source_slots *slots);
/* Copies the account of a source that was removed, the first of them first; false: there are no more, or no memory. */
bool mr_source_retired_account(mr_source_slots *slots, size_t index, mr_source_summary *account);

/* A frame of an external source, which has that id (the plan's pointer); takes the frame's reference on success only.
 * MR_ERROR_AGAIN: no room after that time. MR_ERROR_CANCELLED. */
int mr_source_push(mr_source_slots *slots, uint32_t source, const char *id, mr_frame *frame, int64_t timeout_ns);
/* No more will come from it. `id` NULL: whichever source has the slot. */
void mr_source_end_pushes(mr_source_slots *slots, uint32_t source, const char *id);

#endif
