/* One running instance of a stage type: inputs, slots and outputs. Internal to engine/flow.
 *
 * An instance has one or more entries (tasks), each of which can be inside the stage type at the same time. They share
 * a ring of slots; each slot holds one call's inputs, outputs and event:
 *
 *     free -> gathering (inputs are collected) -> running (an entry calls the stage type)
 *          -> done (all outputs are known) -> held (outputs are pushed; the device still works on it) -> free
 *
 * Slots are claimed, pushed and freed in order. So results stay in order however many workers are inside, copies can
 * overlap computing, and no memory is reused while a device reads it.
 *
 * An entry must never wait. If it needs an input, slot, room or buffer, it returns and is woken later: a link wakes the
 * consumer or the producers, an event or pool wakes the entry that asked.
 *
 * On several devices the instance has one part for each (parts.h), with the stage type's state and pools there. A slot
 * goes to the device that holds the first frame, or else to the one that should finish first (shares.h). The entry then
 * copies the other inputs there, as the call's first work. Such a slot releases everything when its device is done;
 * only its position in the ring waits for earlier slots. So a slow device does not hold up the others.
 *
 * Threads: `lock` guards state that entries share. Entries take it only if there are several. Triggers take it
 * too; so do stops and closes if the source waits for its turn (lifecycle.c). */
#pragma once

#include <pthread.h>

#include "engine/flow/instance/abandoned.h"
#include "engine/flow/instance/again.h"
#include "engine/flow/instance/closing.h"
#include "engine/flow/instance/credit.h"
#include "engine/flow/instance/entry.h"
#include "engine/flow/instance/inlets.h"
#include "engine/flow/instance/opening.h"
#include "engine/flow/instance/outlets.h"
#include "engine/flow/instance/parts.h"
#include "engine/flow/instance/ring.h"
#include "engine/flow/instance/shares.h"
#include "engine/flow/instance/spacing.h"
#include "engine/flow/run/deadline.h"
#include "engine/flow/run/run.h"

/* Counts for one end of a cut, as in mr_cut_summary. The stage writes them; any thread may read them. */
typedef struct mr_cut_tally {
    _Atomic uint64_t frames, again, set_aside, sessions, peers, absent, stale, malformed, rejected, refused;
} mr_cut_tally;

struct mr_instance {
    mr_stage self;           /* common to all devices; has the first device but no state */
    const mr_run *run;
    const mr_plan_vertex *vertex;
    pthread_mutex_t lock;
    bool shared;             /* several entries: must take the lock */
    atomic_bool failed;      /* it cannot open, or is a sink that cannot write: inputs are dropped */
    atomic_bool complained;  /* the first error was logged */
    size_t entry_count;
    mr_entry_task *entries;
    uint32_t first_epoch;    /* for a source whose frames the program pushes */
    mr_inlets inlets;
    mr_credit credit;
    mr_ring ring;
    mr_outlets outlets;
    mr_parts parts;
    mr_shares shares;
    mr_shedder shedder;
    mr_spacing spacing;
    mr_again_filter again;
    mr_opening opening;
    mr_closing closing;
    mr_abandonment abandoned;
    pthread_mutex_t pools_lock; /* for the pools, if the instance is shared */
    mr_cut_tally cut;        /* for one end of a cut */
    struct mr_instance_trace *traced; /* NULL: not traced */
};

/* The number of pools on one device: one for each output port, then MR_OTHER_POOLS more. */
static inline size_t mr_instance_pools(const mr_instance *instance) {
    return instance->vertex->output_count + MR_OTHER_POOLS;
}

/* The most frames that one call can take. */
static inline size_t mr_instance_room(const mr_instance *instance) {
    const mr_plan_vertex *vertex = instance->vertex;
    const size_t ports = mr_inlets_count(&instance->inlets);
    const int batch = mr_plan_call_frames(vertex);
    const size_t frames = (size_t)(vertex->calls.gathers > batch ? vertex->calls.gathers : batch);
    return ports > frames ? ports : frames;
}

/* Whether frames can be delivered here: the stage has no outputs, or some output port has no consumer. */
static inline bool mr_instance_delivers(const mr_instance *instance) {
    return !instance->self.type->outputs || mr_outlets_end_frames(&instance->outlets);
}

/* Whether calls must copy inputs to the device: true if there are several devices. */
static inline bool mr_instance_brings_in(const mr_instance *instance) {
    return mr_parts_count(&instance->parts) > 1 && !instance->vertex->copy;
}
