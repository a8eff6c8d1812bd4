/* A running stage: one instance of a stage type, its inputs, its slots, its outputs. Internal to engine/flow.
 *
 * An instance has one or more entries (tasks), each of which may be inside the stage type at once. They share a ring
 * of slots; a slot holds one call's inputs, outputs and event:
 *
 *     free -> gathering (inputs are collected) -> running (an entry calls the stage type)
 *          -> done (all outputs are known) -> held (outputs are pushed; the device still works on it) -> free
 *
 * Slots are claimed, pushed and freed in order, which gives three things at once: results stay in order however many
 * workers are inside, copies and compute of neighbouring frames overlap, and nothing is recycled while a device reads
 * it.
 *
 * An entry never waits. Without input, slot, room or buffer it returns, and whoever supplies that wakes it: a link
 * its consumer or its producers, an event or a pool whoever asked for it.
 *
 * On several devices each has a part of the instance: the stage type's state there, and pools. A slot goes to the
 * device where its first frame lies, else to the one that will be done with it first (shares.c); what lies elsewhere
 * its entry brings in, as the first work of the call. There a slot lets go of all it holds as soon as its own device is
 * done, and only its place in the ring waits for those before it: a slow device does not hold up the others.
 *
 * Threads: what is shared by entries is guarded by `lock`, which is taken only where there are several. */
#ifndef MILLRACE_FLOW_INSTANCE_H
#define MILLRACE_FLOW_INSTANCE_H

#include <pthread.h>

#include "engine/data/pool.h"
#include "engine/flow/executor/executor.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/link.h"
#include "engine/observe/histogram.h"
#include "engine/plan/plan.h"

typedef struct mr_graph mr_graph;
typedef struct mr_instance mr_instance;

/* What an end of a cut has done, as mr_cut_summary has it: its stage says so as it works, and any thread may read it. */
typedef struct mr_cut_tally {
    _Atomic uint64_t frames, again, set_aside, sessions, stale, malformed, rejected, refused;
} mr_cut_tally;

/* One thing to be pushed, to every consumer of a port. */
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
    int64_t begun_ns;      /* when it was given them; of calls that are counted to a device, or may be late */
    bool counted;          /* among the calls of its part */
    bool staged;           /* some of the inputs were brought in by work of this call */
    bool lost;             /* among its marks is one that says that more is gone than is known one by one */
    size_t part;           /* the device that does the work */
    size_t frame_count;
    mr_frame **frames;     /* inputs: a batch, or one for each port; NULL once forwarded */
    int64_t *entered_ns;   /* when each entered the queue */
    bool *settled;         /* dropped, absorbed or forwarded */
    size_t mark_count, mark_room, mark_next;
    mr_item *marks;        /* that came with or before the inputs; passed on behind their outputs */
    size_t output_count, output_room, output_next;
    mr_output *outputs;
    size_t held_count, held_room;
    mr_buffer **held;      /* scratch buffers that device work may still use */
    size_t result_count, result_room;
    mr_result **results;   /* that device work may still write to, though the frame was dropped when the call failed */
    size_t kept_count, kept_room;
    mr_frame **kept;       /* frames that device work may still write to, though a full queue may have dropped them */
    mr_event *event;       /* of the device work; NULL: none */
    mr_event_wait wait;    /* of an entry, for the event */
} mr_slot;

enum { MR_STRETCH = 8, MR_BURST = 16, MR_POOLS = 8, MR_MAX_PORTS = MR_SPEC_MAX_PORTS };
/* Pools behind those of the output ports. */
enum { MR_SCRATCH_POOL, MR_STAGING_POOL, MR_PINNED_POOL, MR_RESULTS_POOL, MR_BATCHES_POOL, MR_BLOCK_POOL,
       MR_OTHER_POOLS };

struct mr_io {
    mr_instance *instance;
    struct mr_entry_task *entry;
    mr_slot *slot;
    mr_stream *stream; /* of the work that is being given */
    int64_t now_ns;
};

/* One entry: a task that may be inside the stage type. */
typedef struct mr_entry_task {
    mr_instance *instance;
    mr_task task;
    mr_io io;
    mr_slot *slot;       /* unfinished: process is to be called again */
    mr_event_wait *waits;     /* for inputs: one place for each source of a join, else one, then one for what is brought
                                 in */
    size_t wait_count;
    mr_pool_wait *pool_waits; /* for buffers: one for each pool of the instance, then one for those of the stage type */
    struct mr_call_trace *traced; /* NULL: nobody traces */
    mr_stream **streams; /* one for each part */
    mr_stream **staging; /* likewise, where there are several: on it inputs are brought in */
    _Atomic uint64_t in, out;
    _Atomic uint64_t times; /* it was called */
    _Atomic int64_t busy_ns;
    _Atomic uint64_t most_frames; /* of one call */
    _Atomic int64_t cpu_ns;       /* where the run is profiled: of this entry's thread, inside the stage */
    unsigned calls, stride;       /* one call of `stride` is measured; the others are taken to be like it */
    unsigned stretch, unclocked;  /* so many short calls are timed as one; so many were made since the clock was read */
    unsigned entered;             /* frames that those consumed, and when each had entered the queue */
    int64_t entered_ns[MR_STRETCH];
    mr_histogram latency;
} mr_entry_task;

typedef struct mr_port_pools {
    mr_pool *pool[MR_POOLS]; /* of different buffer sizes, most recently used first */
} mr_port_pools;

/* Where an output port leads: for each consumer, the link that takes a source's frames (NULL: takes none). */
typedef struct mr_route {
    size_t consumer_count;
    mr_link *const **links; /* [consumer][source] */
} mr_route;

/* Memory that a device may use for as long as its streams are there: the one or the other. */
typedef struct mr_abandoned {
    mr_buffer *buffer;
    mr_result *result;
} mr_abandoned;

/* What an instance has on one of its devices. What is counted is written under the instance's lock. */
typedef struct mr_part {
    mr_stage self;
    bool opened;          /* open was called, so close is to be */
    bool on_host;         /* its device is the host's processors: what a call gives is ready when it returns */
    atomic_bool failed;   /* its device did: others take over, as long as there are any */
    atomic_bool disabled; /* no calls go to it: somebody wants the device for something else */
    _Atomic uint64_t frames; /* that went to it */
    _Atomic uint64_t given, done; /* calls */
    _Atomic int64_t cost_ns; /* that its device takes for a call, by the last ones; 0: not known */
    _Atomic int64_t busy_ns; /* in which its device worked, or waited for what else is to be done there */
    _Atomic int64_t done_ns; /* of copies: when the last one was */
    atomic_uint passed;   /* calls in a row that went elsewhere while it had none */
    mr_port_pools *pools; /* one an output port, then the others above */
} mr_part;

struct mr_instance {
    mr_stage self;           /* of its first part, without its state: what all have in common */
    size_t part_count;
    size_t working;          /* parts but the one in reserve, which is the last */
    mr_part *parts;
    uint64_t spread;         /* frames that calls had room for so far */
    uint64_t turn;           /* number of the frames in a row that go to one part, from 1; 0: none yet */
    size_t turn_part;        /* which one */
    size_t follower_count;
    mr_instance **followers; /* instances behind, on the same devices, that what comes from here stays there for */
    mr_graph *graph;
    const mr_plan_vertex *vertex;
    pthread_mutex_t lock;
    bool shared;             /* several entries: the lock is taken */
    bool tells_gone;         /* a join comes behind, or what restores order: what goes no further leaves a mark */
    bool hands_on;           /* one stage on the same device takes all that it gives: their work may be one */
    bool sheds;              /* frames that are late are dropped; not where nothing comes behind: there they are
                                delivered */
    bool passes_settled;     /* what an earlier run has settled (resume.h) is worked on once more, since it, or what
                                comes behind, remembers */
    bool *skipping;          /* for each source here: packets are passed over until a key frame in time */
    int untried;             /* frames dropped since they would be late, though they are not yet */
    _Atomic int64_t last_ns; /* that the last call took */
    bool waits;              /* its source is opened when its turn comes (turns.h), and it with that */
    atomic_bool begun;       /* likewise: it may open itself */
    bool opens_itself;       /* by its own thread, when that first runs */
    bool tried;              /* it has done so */
    atomic_bool ready;       /* it may run: it is open, and has been let go. Until then wakes are for nothing */
    atomic_bool failed;      /* it cannot open, or is a sink that cannot write any more: what comes is dropped */
    atomic_bool complained;  /* its first error was logged */

    size_t port_count;
    mr_link **ports;         /* input links, one a port */
    mr_item inbox[MR_BURST]; /* popped, not yet in a slot */
    size_t inbox_first, inbox_count, burst;
    size_t join_turn;        /* of several ports: the source that is looked at first */
    bool *away_told;         /* likewise, by source: every port is away, and those behind have been told */
    int64_t batch_due_ns;    /* when the batch that is gathered leaves; INT64_MAX: not set */
    size_t ends_left;        /* sources that have not ended here */
    bool ended;

    size_t in_flight;        /* slots that may hold anything at once: the pools are planned for so many */
    size_t slot_count;       /* at least as many; a power of two */
    mr_slot *slots;
    uint32_t first_epoch;              /* of a source whose frames are pushed by the program */
    uint64_t freed, pushed, claimed; /* slots, ever; freed <= pushed <= claimed */
    uint64_t released;       /* slots, ever, that hold nothing any more; at least those that are freed */
    bool stuck;              /* an output found no room */
    struct mr_instance_trace *traced; /* NULL: nobody traces */
    bool reported;           /* its end was reported to the graph */

    mr_route *routes;        /* one an output port; owned by the graph */
    pthread_mutex_t pool_lock;
    size_t abandoned_count, abandoned_room;
    mr_abandoned *abandoned; /* under pool_lock */
    size_t entry_count;
    mr_entry_task *entries;
    _Atomic int64_t wake_ns; /* sources: when process asked to be called again */
    mr_cut_tally cut;        /* of an end of a cut */
};

static inline mr_part *mr_slot_part(const mr_instance *instance, const mr_slot *slot) {
    return &instance->parts[slot->part];
}

/* Pools of a part: one for each output port, and those behind. */
static inline size_t mr_instance_pools(const mr_instance *instance) {
    return instance->vertex->output_count + MR_OTHER_POOLS;
}

static inline mr_slot *mr_instance_slot(mr_instance *instance, uint64_t number) {
    return &instance->slots[number & (instance->slot_count - 1)];
}

/* Adds a frame to the slot's inputs, of which it has room for a batch or one for each port. */
static inline void mr_slot_add_frame(mr_slot *slot, const mr_item *item) {
    slot->frames[slot->frame_count] = item->frame;
    slot->entered_ns[slot->frame_count] = item->entered_ns;
    slot->settled[slot->frame_count++] = false;
}

int mr_instance_create(mr_instance **instance, mr_graph *graph, const mr_plan_vertex *vertex, uint32_t source);
/* Waits for its devices' work and closes their streams. All instances come to this before the first is destroyed: a
 * device may still be telling one that another's work is done. */
void mr_instance_finish(mr_instance *instance);
/* Calls the stage type's close. The executor must have stopped. */
void mr_instance_destroy(mr_instance **instance);
/* Tells it its devices, which are open. */
void mr_instance_set_devices(mr_instance *instance);
/* Makes its streams on its devices and calls the stage type's open for each. */
int mr_instance_open(mr_instance *instance);
/* Whether frames that reach it may be delivered: nothing comes behind it, or not behind all of its outputs. */
bool mr_instance_delivers(const mr_instance *instance);
/* Lets it run from now on, and wakes it: whatever came before found nobody. Any thread. */
void mr_instance_let_go(mr_instance *instance);
/* What is open is ready to run; its task is woken by others. */
void mr_instance_set_ready(mr_instance *instance);
/* Tells the stage type, if it is open, that the run is being stopped. Any thread. */
void mr_instance_tell_stop(mr_instance *instance);
/* Of an instance of a source that waits, which has ended here and elsewhere: ends its thread, gives its buffers back
 * and, if it is the source itself, closes it. Not from its own thread. */
void mr_instance_put_away(mr_instance *instance);
/* The task of an entry: does what can be done now. */
void mr_instance_run(void *entry);
/* Wakes an entry: something has changed. Any thread. */
void mr_instance_wake(void *instance);
/* Wakes all: also those that wait with a call that is not over. */
void mr_instance_wake_all(mr_instance *instance);
/* mr_slot_next_output where there is no room yet. */
mr_output *mr_slot_grow_outputs(mr_instance *instance, mr_slot *slot, mr_frame *frame);
/* The place of the next output of a call, to be filled in by the caller. Where there is no memory for it, `frame`
 * (may be NULL) is dropped in the stage's name and the answer is NULL. */
static inline mr_output *mr_slot_next_output(mr_instance *instance, mr_slot *slot, mr_frame *frame) {
    bool room = slot->output_count < slot->output_room;
    return room ? &slot->outputs[slot->output_count++] : mr_slot_grow_outputs(instance, slot, frame);
}
/* Adds a mark for one output port. */
int mr_slot_add_mark_output(mr_instance *instance, mr_slot *slot, uint32_t port, const mr_item *mark);
/* Keeps a reference to the frame until the slot's device work is done. MR_ERROR_MEMORY. */
int mr_slot_keep(mr_slot *slot, mr_frame *frame);
int mr_slot_keep_result(mr_slot *slot, mr_result *result);
int mr_slot_add_mark(mr_slot *slot, const mr_item *mark);
/* Leaves that mark on all outputs where something behind wants to know. */
void mr_instance_tell_gone(mr_instance *instance, mr_slot *slot, const mr_item *gone);
/* Notes what becomes of a frame that goes no further, and leaves a gone mark for joins behind. */
void mr_instance_settle(mr_instance *instance, mr_slot *slot, const mr_frame *frame, mr_note note, const char *stage,
                        const char *reason);

/* Whether the frame was settled by an earlier run, and is to go no further. */
bool mr_instance_leaves_out(const mr_instance *instance, const mr_frame *frame);
/* deadline.c, for instances that shed: why no work is to be begun on a frame that is next, "late" or "gop"; NULL where
 * it is in time. */
const char *mr_deadline_refusal(mr_instance *instance, const mr_frame *frame, const mr_task *task);
/* deadline.c: whether a frame that was in time when it was taken is late now. Never true of packets. */
bool mr_deadline_passed(const mr_frame *frame, int64_t now_ns);
/* inputs.c: collects the next call's inputs in `slot`. True where it is complete; else something was asked to wake the
 * entry. */
bool mr_instance_gather(mr_instance *instance, mr_slot *slot, mr_entry_task *entry);
/* join.c: the same for stages with several ports: one frame of each, matched by identity. */
bool mr_instance_join(mr_instance *instance, mr_slot *slot, mr_entry_task *entry);
/* mr_input_ready of what has an event. */
int mr_input_await(const mr_slot *slot, const mr_frame *frame, mr_entry_task *entry, size_t place);
/* Readiness of an input for a call of that slot's device: 1 it may be used, 0 not yet (the entry will be woken, and
 * waits in that place of its `waits`), negative: its producer's device work failed. */
static inline int mr_input_ready(const mr_slot *slot, const mr_frame *frame, mr_entry_task *entry, size_t place) {
    return frame->ready ? mr_input_await(slot, frame, entry, place) : 1;
}

/* outputs.c: pushes what finished slots hold, in order, and frees slots whose device work is done. Called with the
 * lock. */
void mr_instance_retire(mr_instance *instance, mr_entry_task *entry);
/* Drops the slot's references and makes it free. */
void mr_slot_reset(mr_slot *slot);

/* seal.c: ends a call that answered so, and whose first output is that one. The answer, or what went wrong at the
 * end. */
int mr_instance_seal(mr_entry_task *entry, mr_slot *slot, size_t first, int answer);
/* What the ledger says of frames that such a failure has dropped. */
const char *mr_failure_reason(const mr_instance *instance, const mr_slot *slot, int status);
/* Once its streams are gone. */
void mr_instance_release_abandoned(mr_instance *instance);

/* io.c: takes input `index` of port 0 from the call, which nothing more is done with: its reference, and what becomes
 * of it, are the caller's. */
mr_frame *mr_io_take(mr_io *io, size_t index);
/* io.c: has the entry woken when the pool has `count` buffers; it waits in that place of its `pool_waits`.
 * MR_ERROR_AGAIN, or MR_ERROR_CANCELLED where the run is stopped at once. */
int mr_io_park(mr_io *io, mr_pool *pool, int count, size_t place);
/* pools.c: a buffer of a pool, by output port or behind them. Where there is none the answer of mr_io_park. */
int mr_io_take_buffer(mr_io *io, size_t which, size_t bytes, mr_buffer **buffer);
/* The same, but the entry is not woken. */
int mr_io_try_buffer(mr_io *io, size_t which, size_t bytes, mr_buffer **buffer);
/* Makes the buffers that are planned for that part ahead. MR_ERROR_MEMORY, and how much is missing. */
int mr_instance_fill_pools(mr_instance *instance, size_t part);
/* How many buffers with what came out of port 0 are in use on that part's device. */
uint64_t mr_instance_lying(mr_instance *instance, const mr_part *part);
/* A buffer for what is brought in. */
int mr_io_staging(mr_io *io, size_t bytes, mr_buffer **buffer);

/* Whether calls bring their inputs in themselves: where there are several devices. */
static inline bool mr_instance_brings_in(const mr_instance *instance) {
    return instance->part_count > 1 && !instance->vertex->copy;
}
/* staging.c: brings the call's inputs into the memory of its device, in such an instance. MR_ERROR_AGAIN: call again
 * when woken. */
int mr_io_bring_in(mr_io *io);

/* shares.c, for instances with several parts but copies, which go where a frame lies: who does what.
 *
 * Frames go to the part that, by what its last ones have cost, will be done with them first; to one that has its fill
 * only when all have. One that is so slow that the others would have to wait for the order to be restored gets none,
 * but for a try now and then. So each device does as much as it can, whatever it is capable of at the time. */

/* The part that a call works on whose first frame that is. With the lock. */
size_t mr_instance_choose_part(mr_instance *instance, const mr_frame *frame);
/* The part that takes over from that one: itself, unless its device has failed or is disabled, and others are there. */
size_t mr_instance_part_now(mr_instance *instance, size_t part);
/* Whether calls are counted: not those of the host alone, which are done when they return. */
static inline bool mr_instance_shares(const mr_instance *instance) {
    return instance->part_count > 1 || !instance->parts[0].on_host;
}
/* Of calls that are counted: one begins, or another part takes it over before it has begun; its work is done. */
void mr_share_begin(mr_instance *instance, mr_slot *slot, int64_t now_ns);
void mr_share_move(mr_instance *instance, mr_slot *slot, size_t part);
void mr_share_end(mr_instance *instance, mr_slot *slot, int64_t now_ns);
/* The device of the slot's part has failed: the next calls go elsewhere, if there is anywhere. */
void mr_instance_device_failed(mr_instance *instance, const mr_slot *slot);
/* Whether calls could go on without that device; true where none go there. */
bool mr_instance_can_spare(const mr_instance *instance, const mr_device *device);
/* Lets calls go to that device, where they may have failed before, or no more. Any thread. */
void mr_instance_enable(mr_instance *instance, const mr_device *device, bool enabled);

#endif
