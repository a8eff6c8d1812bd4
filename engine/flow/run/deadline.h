/* Deadlines: drops frames that are late, or will be. */
#ifndef MILLRACE_FLOW_RUN_DEADLINE_H
#define MILLRACE_FLOW_RUN_DEADLINE_H

#include "engine/flow/run/run.h"

typedef struct mr_deadlines mr_deadlines;

/* Sheds late frames for one instance. Under the instance's lock. */
typedef struct mr_shedder {
    const mr_run *run;
    const mr_plan_vertex *vertex;
    uint32_t source;         /* of the instance; MR_SOURCE_NONE: all of the vertex */
    bool sheds;              /* late frames are dropped; false for last stages, which deliver them */
    bool *skipping;          /* for each source here: packets are passed over until a key frame in time */
    int untried;             /* frames dropped because they would be late, though they are not yet */
    _Atomic int64_t last_ns; /* of the last call */
} mr_shedder;

/* Sets run->deadlines if a source has a deadline: finds the stages that drop late frames. MR_ERROR_MEMORY. */
int mr_deadlines_create(mr_run *run);
void mr_deadlines_destroy(mr_run *run);

/* MR_ERROR_MEMORY. */
int mr_shedder_init(mr_shedder *shedder, const mr_run *run, const mr_plan_vertex *vertex, uint32_t source);
void mr_shedder_fini(mr_shedder *shedder);
/* For the next source of the slot. */
void mr_shedder_renew(mr_shedder *shedder);
static inline bool mr_shedder_sheds(const mr_shedder *shedder) {
    return shedder->sheds;
}
/* If it sheds: the reason not to begin work on the next frame, "late" or "gop"; NULL if it is in time. */
const char *mr_shedder_refusal(mr_shedder *shedder, const mr_frame *frame);
/* If it sheds: notes the duration of a call. */
void mr_shedder_note_call(mr_shedder *shedder, int64_t spent_ns);
/* Whether a frame that was in time when it was taken is late now. Never true of packets. */
bool mr_deadline_passed(const mr_frame *frame, int64_t now_ns);

#endif
