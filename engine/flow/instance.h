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
 * On several devices the instance has a part for each: the stage type's state there, and pools. A slot goes to the
 * device that holds its first frame, else to the device that will finish first (placement.c); the entry brings the
 * other inputs in, as the first work of the call. Such a slot releases all it holds as soon as its own device is done,
 * and only its place in the ring waits for earlier slots: a slow device does not hold up the others.
 *
 * Threads: state that entries share is guarded by `lock`, which is taken only if there are several. */
#ifndef MILLRACE_FLOW_INSTANCE_H
#define MILLRACE_FLOW_INSTANCE_H

#include <pthread.h>

#include "engine/data/pool.h"
#include "engine/flow/executor/executor.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/link/link.h"
#include "engine/observe/histogram.h"
#include "engine/plan/plan.h"

typedef struct mr_graph mr_graph;
typedef struct mr_instance mr_instance;

/* Counts of an end of a cut, as in mr_cut_summary: written by its stage while it works, read by any thread. */
typedef struct mr_cut_tally {
    _Atomic uint64_t frames, again, set_aside, sessions, stale, malformed, rejected, refused;
} mr_cut_tally;

/* One item to push to every consumer of a port. */
typedef struct mr_output {
    uint32_t port;
    uint32_t next; /* consumer that gets it next */
    bool made;     /* by this call: its payload is ready when the call's device work is done */
    mr_item item;
} mr_output;

typedef enum mr_slot_state { MR_SLOT_FREE, MR_SLOT_RUNNING, MR_SLOT_DONE, MR_SLOT_HELD } mr_slot_state;

typedef struct mr_slot {
    mr_slot_state state;
    bool processed;        /* the stage type has consumed the inputs */
    int64_t begun_ns;      /* begin of the call, if calls are counted to a device or may be late */
    bool counted;          /* among the calls of its part */
    bool staged;           /* some of the inputs were brought in by work of this call */
    bool lost;             /* one of its marks says that an unknown number of frames is lost */
    size_t part;           /* number of the part that does the work */
    size_t frame_count;
    mr_frame **frames;     /* inputs: a batch, or one for each port; NULL once forwarded */
    uint32_t *sources;     /* of each */
    int64_t *entered_ns;   /* when each entered the queue */
    bool *settled;         /* dropped, absorbed or forwarded */
    size_t mark_count, mark_room, mark_next;
    mr_item *marks;        /* that came with or before the inputs; passed on behind their outputs */
    size_t output_count, output_room, output_next;
    mr_output *outputs;
    size_t held_count, held_room;
    mr_buffer **held;      /* scratch buffers that device work may still use */
    size_t result_count, result_room;
    mr_result **results;   /* that device work may still write to, even if the call failed and its frame was dropped */
    size_t kept_count, kept_room;
    mr_frame **kept;       /* frames that device work may still write to, even if a full queue dropped them */
    mr_event *event;       /* of the device work; NULL: none */
    mr_event_wait wait;    /* of an entry, for the event */
    struct mr_entry_task *awaits_turn; /* its entry, to be woken when all earlier calls are done; NULL: it does not wait */
} mr_slot;

enum { MR_STRETCH = 8, MR_BURST = 16, MR_POOLS = 8, MR_MAX_PORTS = MR_SPEC_MAX_PORTS };
/* Pools behind those of the output ports. */
enum { MR_SCRATCH_POOL, MR_STAGING_POOL, MR_PINNED_POOL, MR_RESULTS_POOL, MR_BATCHES_POOL, MR_BLOCK_POOL,
       MR_OTHER_POOLS };

struct mr_io {
    mr_instance *instance;
    struct mr_entry_task *entry;
    mr_slot *slot;
    mr_stream *stream; /* of the work that is being submitted */
    int64_t now_ns;
};

/* Counts of an entry. Read by any thread; written by the entry. */
typedef struct mr_meter {
    _Atomic uint64_t in, out;
    _Atomic uint64_t times; /* calls */
    _Atomic int64_t busy_ns;
    _Atomic uint64_t most_frames; /* of one call */
    _Atomic int64_t cpu_ns;       /* if the run is profiled: of this entry's thread, inside the stage */
    unsigned calls, stride;       /* one call of `stride` is measured, and stands for the others */
    unsigned stretch, unclocked;  /* short calls that are timed as one; calls since the clock was read */
    unsigned entered;             /* frames that those calls consumed, and when each had entered the queue */
    int64_t entered_ns[MR_STRETCH];
    mr_histogram latency;
} mr_meter;

/* One entry: a task that may be inside the stage type. */
typedef struct mr_entry_task {
    mr_instance *instance;
    mr_task task;
    mr_io io;
    mr_slot *slot;       /* unfinished: process must be called again */
    mr_event_wait *waits;     /* for inputs: one place for each source of a join, else one; then one for inputs that are
                                 brought in */
    size_t wait_count;
    mr_pool_wait *pool_waits; /* for buffers: one for each pool of the instance, then one for those of the stage type */
    struct mr_call_trace *traced; /* NULL: not traced */
    mr_stream **streams; /* one for each part */
    mr_stream **staging; /* likewise, if there are several parts: brings inputs in */
    mr_meter meter;
} mr_entry_task;

typedef struct mr_port_pools {
    mr_pool *pool[MR_POOLS]; /* of different buffer sizes, most recently used first */
} mr_port_pools;

/* The destinations of an output port: for each consumer, the link that takes a source's frames (NULL: takes none). */
typedef struct mr_route {
    size_t consumer_count;
    mr_link *const **links; /* [consumer][source] */
} mr_route;

/* Memory that a device may use as long as its streams exist: the one or the other. */
typedef struct mr_abandoned {
    mr_buffer *buffer;
    mr_result *result;
} mr_abandoned;

/* An instance's state on one of its devices. Counts are written under the instance's lock. */
typedef struct mr_part {
    mr_stage self;
    bool opened;          /* open was called, so close must be */
    bool on_host;         /* its device is the host's processors: a call's outputs are ready when it returns */
    atomic_bool failed;   /* its device failed: others take over, as long as there are any */
    atomic_bool disabled; /* gets no calls: the device was disabled */
    _Atomic uint64_t frames; /* that went to it */
    _Atomic uint64_t given, done; /* calls */
    _Atomic int64_t cost_ns; /* of a call on its device, by the last calls; 0: not known */
    _Atomic int64_t busy_ns; /* while its device worked, or waited for other work there */
    _Atomic int64_t done_ns; /* of copies: end of the last one */
    atomic_uint passed;   /* calls in a row that went elsewhere while it had none */
    mr_port_pools *pools; /* one for each output port, then the others above */
} mr_part;

/* ---- the parts of an instance ------------------------------------------------------------------------------------ */

/* Frames and marks on their way into slots (intake.h). */
typedef struct mr_intake {
    size_t port_count;
    mr_link **ports;         /* input links, one a port */
    mr_item inbox[MR_BURST]; /* popped, not yet in a slot */
    size_t inbox_first, inbox_count, burst;
    uint32_t *credit; /* by source: frames taken whose outputs are not all pushed (credit.h); NULL: not counted */
    bool held_up;            /* the last look at the queue found frames without room behind this stage */
    size_t join_turn;        /* of several ports: the source that is tried first */
    bool *away_reported;         /* likewise, by source: every port is away (gap.h), and the stages behind know */
    int64_t batch_due_ns;    /* when the batch that is gathered leaves; INT64_MAX: not set */
    size_t ends_left;        /* sources that have not ended here */
    bool ended;
    bool sheds;              /* late frames are dropped; false for last stages, which deliver them */
    bool passes_settled;     /* frames that an earlier run settled (resume.h) are processed again, since this stage, or
                                one behind, keeps state */
    bool *skipping;          /* for each source here: packets are passed over until a key frame in time */
    int untried;             /* frames dropped because they would be late, though they are not yet */
    _Atomic int64_t last_ns; /* of the last call */
    uint32_t first_epoch;    /* of a source whose frames the program pushes */
} mr_intake;

/* The ring of slots, and the routes of their outputs (slots.h, outputs.h). */
typedef struct mr_slot_ring {
    size_t in_flight;        /* slots that may hold anything at once: the plan sizes pools for this number */
    size_t slot_count;       /* at least as many; a power of two */
    mr_slot *slots;
    uint64_t freed, pushed, claimed; /* slots, ever; freed <= pushed <= claimed */
    uint64_t released;       /* slots, ever, that hold nothing any more; at least those that are freed */
    bool stuck;              /* an output found no room */
    bool reported;           /* its end was reported to the graph */
    bool marks_gaps;         /* a join or a reordering cut comes behind: frames that go no further leave a gap */
    bool hands_on;           /* one stage on the same device takes all outputs: their work may be one */
    mr_route *routes;        /* one an output port; owned by the graph */
} mr_slot_ring;

/* Its devices, and the choice among them for the next call (placement.h). */
typedef struct mr_placement {
    size_t part_count;
    size_t working;          /* parts without the one in reserve, which is the last */
    mr_part *parts;
    uint64_t spread;         /* frames that calls had room for so far */
    uint64_t turn;           /* number of the frames in a row that go to one part, from 1; 0: none yet */
    size_t turn_part;        /* number of that part */
    size_t follower_count;
    mr_instance **followers; /* instances behind on the same devices, which take frames from here without a copy */
} mr_placement;

/* Memory beside the pools of its devices: a device may use it as long as its streams exist. */
typedef struct mr_abandonment {
    pthread_mutex_t lock;    /* also of the pools */
    size_t count, room;
    mr_abandoned *items;
} mr_abandonment;

/* Its opening (lifecycle.h). */
typedef struct mr_opening {
    bool waits;              /* its source waits for its turn (turns.h), and it opens with the source */
    atomic_bool begun;       /* likewise: it may open itself */
    bool opens_itself;       /* by its own thread, when that first runs */
    bool tried;              /* its thread has tried to */
    atomic_bool ready;       /* it may run: it is open, and was let go. Until then wakes have no effect */
} mr_opening;

struct mr_instance {
    mr_stage self;           /* of its first part, without its state: common to all parts */
    mr_graph *graph;
    const mr_plan_vertex *vertex;
    pthread_mutex_t lock;
    bool shared;             /* several entries: the lock is taken */
    atomic_bool failed;      /* it cannot open, or is a sink that cannot write any more: inputs are dropped */
    atomic_bool complained;  /* its first error was logged */
    size_t entry_count;
    mr_entry_task *entries;
    _Atomic int64_t wake_ns; /* sources: the time at which process asked to be called again */
    mr_slot_ring ring;
    mr_intake intake;
    mr_placement placement;
    mr_opening opening;
    mr_abandonment abandoned;
    mr_cut_tally cut;        /* of an end of a cut */
    struct mr_instance_trace *traced; /* NULL: not traced */
};

static inline mr_part *mr_slot_part(const mr_instance *instance, const mr_slot *slot) {
    return &instance->placement.parts[slot->part];
}

/* Pools of a part: one for each output port, and those behind. */
static inline size_t mr_instance_pools(const mr_instance *instance) {
    return instance->vertex->output_count + MR_OTHER_POOLS;
}

static inline mr_slot *mr_instance_slot(mr_instance *instance, uint64_t number) {
    return &instance->ring.slots[number & (instance->ring.slot_count - 1)];
}

/* Adds a frame to the slot's inputs, of which it has room for a batch or one for each port. */
static inline void mr_slot_add_frame(mr_slot *slot, const mr_item *item) {
    slot->frames[slot->frame_count] = item->frame;
    slot->sources[slot->frame_count] = item->source;
    slot->entered_ns[slot->frame_count] = item->entered_ns;
    slot->settled[slot->frame_count++] = false;
}

/* Whether frames that reach it may be delivered: no stage comes behind it, or not behind all of its outputs. */
static inline bool mr_instance_delivers(const mr_instance *instance) {
    for (size_t port = 0; port < instance->vertex->output_count; port++)
        if (instance->ring.routes[port].consumer_count == 0)
            return true;
    return !instance->self.type->outputs;
}

/* Hooks of the engine's own stage types (mr_stage_type.hooks) beside those of any stage: the ends of cuts see marks,
 * and links. Each may be NULL. */
typedef struct mr_stage_hooks {
    /* Passes a mark on, in its place among the frames. MR_ERROR_AGAIN: call again with the same mark when the
     * instance's first entry is woken. The instance has one entry. */
    int (*mark)(mr_stage *self, const mr_item *mark);
    /* Whether `coming` frames of the source are taken already and there is room for one more; if not, the instance's
     * first entry will be woken when there may be. Under its lock, if it has one. */
    bool (*has_room)(mr_stage *self, uint32_t source, uint32_t coming);
    /* The entry's run is over: no more frames come before it is woken again. */
    void (*idle)(mr_stage *self);
    /* The instance will not be opened, and its sources will not be ended by others. Any thread. */
    void (*never_opened)(mr_instance *instance);
} mr_stage_hooks;

#endif
