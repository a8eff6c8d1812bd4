/* A running stage: one instance of a stage type, its inputs, its slots, its outputs. Internal to engine/flow.
 *
 * An instance has one or more entries (tasks), each of which may be inside the stage type at once. They share a ring of
 * slots; a slot holds one call's inputs, outputs and event:
 *
 *     free -> gathering (inputs are collected) -> running (an entry calls the stage type)
 *          -> done (all outputs are known) -> held (outputs are pushed; the device still works on it) -> free
 *
 * Slots are claimed, pushed and freed in order. So results stay in order however many workers are inside, copies and
 * compute of neighbouring frames overlap, and nothing is recycled while a device reads it.
 *
 * An entry never waits. If input, slot, room or buffer is missing, it returns, and is woken when there is one: links
 * wake their consumer or their producers, events and pools the entry that asked.
 *
 * On several devices the instance has a part for each (parts.h): the stage type's state there, and pools. A slot goes
 * to the device that holds its first frame, else to the device that will finish first (shares.h); the entry brings the
 * other inputs in, as the first work of the call. Such a slot releases all it holds as soon as its own
 * device is done, and only its place in the ring waits for earlier slots: a slow device does not hold up the others.
 *
 * Threads: state that entries share is guarded by `lock`, which is taken only if there are several. */
#ifndef MILLRACE_FLOW_INSTANCE_INSTANCE_H
#define MILLRACE_FLOW_INSTANCE_INSTANCE_H

#include <pthread.h>

#include "engine/flow/instance/abandoned.h"
#include "engine/flow/instance/closing.h"
#include "engine/flow/instance/credit.h"
#include "engine/flow/instance/entry.h"
#include "engine/flow/instance/inlets.h"
#include "engine/flow/instance/opening.h"
#include "engine/flow/instance/outlets.h"
#include "engine/flow/instance/parts.h"
#include "engine/flow/instance/ring.h"
#include "engine/flow/instance/shares.h"
#include "engine/flow/run/deadline.h"
#include "engine/flow/run/run.h"

/* Counts of an end of a cut, as in mr_cut_summary: written by its stage while it works, read by any thread. */
typedef struct mr_cut_tally {
    _Atomic uint64_t frames, again, set_aside, sessions, stale, malformed, rejected, refused;
} mr_cut_tally;

struct mr_instance {
    mr_stage self;           /* on its first device, without its state: common to all devices */
    const mr_run *run;
    const mr_plan_vertex *vertex;
    pthread_mutex_t lock;
    bool shared;             /* several entries: the lock is taken */
    atomic_bool failed;      /* it cannot open, or is a sink that cannot write any more: inputs are dropped */
    atomic_bool complained;  /* its first error was logged */
    size_t entry_count;
    mr_entry_task *entries;
    uint32_t first_epoch;    /* of a source whose frames the program pushes */
    mr_inlets inlets;
    mr_credit credit;
    mr_ring ring;
    mr_outlets outlets;
    mr_parts parts;
    mr_shares shares;
    mr_shedder shedder;
    mr_opening opening;
    mr_closing closing;
    mr_abandonment abandoned;
    pthread_mutex_t pools_lock; /* of the pools, if the instance is shared */
    mr_cut_tally cut;        /* of an end of a cut */
    struct mr_instance_trace *traced; /* NULL: not traced */
};

/* Pools on a device: one for each output port, and those behind. */
static inline size_t mr_instance_pools(const mr_instance *instance) {
    return instance->vertex->output_count + MR_OTHER_POOLS;
}

/* Most frames of a call. */
static inline size_t mr_instance_room(const mr_instance *instance) {
    const mr_plan_vertex *vertex = instance->vertex;
    const size_t ports = mr_inlets_count(&instance->inlets);
    const size_t frames =
        (size_t)(vertex->calls.gathers > vertex->calls.batch ? vertex->calls.gathers : vertex->calls.batch);
    return ports > frames ? ports : frames;
}

/* Whether frames that reach it may be delivered: no stage comes behind it, or not behind all of its outputs. */
static inline bool mr_instance_delivers(const mr_instance *instance) {
    return !instance->self.type->outputs || mr_outlets_end_frames(&instance->outlets);
}

#endif
