/* Deadlines: drops frames that are late or will be. */
#pragma once

#include "engine/flow/run/run.h"

typedef struct mr_deadlines mr_deadlines;

/* Drops one instance's late frames. Needs the instance's lock. */
typedef struct mr_shedder {
    const mr_run *run;
    const mr_plan_vertex *vertex;
    uint32_t source;         /* the instance's source; MR_SOURCE_NONE: all sources at the vertex */
    bool sheds;              /* late frames are dropped; false for last stages, which deliver them */
    bool *skipping;          /* for each source here: skip packets until a key frame in time */
    int untried;             /* frames dropped only because they would be late */
    _Atomic int64_t last_ns; /* how long the last call took */
} mr_shedder;

/* Finds the stages that drop late frames, and sets run->deadlines if a source has a deadline. MR_ERROR_MEMORY. */
int mr_deadlines_create(mr_run *run);
void mr_deadlines_destroy(mr_run *run);

/* MR_ERROR_MEMORY. */
int mr_shedder_init(mr_shedder *shedder, const mr_run *run, const mr_plan_vertex *vertex, uint32_t source);
void mr_shedder_fini(mr_shedder *shedder);
/* Resets it for the slot's next source. */
void mr_shedder_renew(mr_shedder *shedder);
static inline bool mr_shedder_sheds(const mr_shedder *shedder) {
    return shedder->sheds;
}
/* Only if it sheds: why the next frame must be dropped, "late" or "gop"; NULL if it is in time. */
const char *mr_shedder_refusal(mr_shedder *shedder, const mr_frame *frame);
/* Only if it sheds: notes how long a call took. */
void mr_shedder_note_call(mr_shedder *shedder, int64_t spent_ns);
/* Whether a frame that was taken in time is late now. Never true for packets. */
bool mr_deadline_passed(const mr_frame *frame, int64_t now_ns);
