/* The plan: a pipeline after everything is decided. spec -> plan -> graph.
 *
 * mr_plan_create resolves stage types, links, devices, instance counts, formats (through each type's negotiate, in
 * topological order), queue lengths and buffer counts. It reports all errors at once and moves no frames. The plan owns
 * its memory and, through `spec`, the options and strings it points to. It is immutable once created, except for
 * mr_plan_discard_output, and may then be read by any thread. Sizes are bytes, times nanoseconds.
 *
 * Defaults if the YAML gives none: one frame a call; four frames of each source in a queue (32 of packets or results,
 * which are small; in any case one batch, and before a join as many as the batches on the way there gather); two calls
 * in flight for each worker that may be in a stage, or for each of its devices if there are more of those; device cpu;
 * block; drop.
 *
 * Buffers. The pool behind output 0 of one instance is large enough for links to fill up before it runs dry:
 *
 *     retained (negotiated) + in_flight * batch + the sum over consumers of
 *         queue * sources of this instance
 *         + in_flight * batch of each instance of the consumer that these sources reach
 *
 * and again the same for the consumers of a consumer that may pass frames on in their buffers, that is, one with an
 * output of the same kind as its input; for a stage that adds tensors to the results, of all that follow, because
 * results go on with every frame made of theirs. A copy needs the same for its consumers, and stages before it hold no
 * more than its queue and its slots. On several devices the pool of each is as large: while the others fail, are
 * disabled or are slow, all of these frames may be on one of them.
 *
 * Memory. A stage reads and writes memory of its device; outputs of host stages are pinned if a copy reads them,
 * otherwise shared if a cut to another process of this host does, even through stages that pass frames on in their
 * buffers; the same holds for pinned memory. External memory of a library or the program goes through pinned memory of
 * the copy. Several devices: one instance, each of whose calls goes to one of them: to the device of its first frame,
 * else to the one that will finish it first (flow/placement.c). The call uploads frames that are elsewhere into that
 * device's memory itself, as its first work (`staging`): only then is the device of a frame known, and a batch stays
 * whole. So there is no copy before such a stage; one behind it, with the same list of devices, brings each frame home
 * from its device.
 *
 * Small frames are copied together: a copy on one device takes as many in one call as are in its queue, up to the batch
 * of the stages that read or emit them and to MR_COPY_GATHERED_BYTES. They are then contiguous in one buffer, as far as
 * there are such buffers; a call that finds none free gives every frame a buffer of its own.
 *
 * Gathering. Where a call costs much that does not depend on its frames, such as reading weights, a stage on the
 * processors takes several of the frames that wait already. It holds up none, and if a pool is empty it gets fewer, so
 * buffers are counted as without; only its scratch memory is for all of them.
 *
 * A device in reserve is like one more of several, but gets no frames before another has failed; a stage with one
 * uploads its inputs itself, from the host or from devices that the stage before has too.
 *
 * Buffers in memory of devices, and pinned ones, are allocated when the pipeline starts if their size is known: too
 * large a demand shows before the first frame, and nothing is allocated there while frames pass. Plain and shared
 * memory is allocated when it is needed.
 *
 * Totals are upper bounds; an overflow is UINT64_MAX. */
#ifndef MILLRACE_PLAN_PLAN_DATA_H
#define MILLRACE_PLAN_PLAN_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/device/sim/card.h"
#include "engine/plan/cut.h"
#include "engine/spec/spec.h"
#include "millrace/plan.h"
#include "millrace/stage.h"

/* The role of a vertex. Copies and ends of cuts are inserted by the planner; all others are the author's. */
typedef enum mr_plan_role {
    MR_ROLE_STAGE,
    MR_ROLE_SOURCE,
    MR_ROLE_COPY,
    MR_ROLE_CUT_OUT, /* its options are a mr_cut (cut.h), the same as of the other end */
    MR_ROLE_CUT_IN
} mr_plan_role;

/* The stage types of vertices that the planner inserts. */
typedef struct mr_plan_types {
    const mr_stage_type *copy, *cut_out, *cut_in;
} mr_plan_types;

/* A copy moves frames, with the tensors among their results, from one memory into another, and changes nothing else.
 * Its id is "decode->sim:0", and its `place` and `mark` are those of the first stage that reads its output. There is
 * one for each output port and device (or list of devices) that reads it, for any number of stages. */
typedef enum mr_copy_kind {
    MR_COPY_NONE,     /* it is not a copy */
    MR_COPY_UPLOAD,   /* host -> device; works on a stream of the device it copies to */
    MR_COPY_DOWNLOAD, /* device -> pinned host memory; on a stream of the device it copies from */
    MR_COPY_PEER      /* device -> device; on a stream of the device it copies to */
} mr_copy_kind;

/* A device that the YAML, the command line or a stage names. The first is always the host's processors. */
typedef struct mr_plan_device {
    const char *name;       /* as mr_device_open accepts it: "cpu", "sim:0", "cuda:1" */
    const char *alias;      /* its name under `devices:`, if it has one; else NULL */
    mr_place mark;          /* of that name; line 0 if there is none */
    bool enabled;
    bool assumed;           /* it need not be present (mr_plan_params.assume) */
    bool used;              /* a stage or a copy computes there */
    uint64_t limit_bytes;   /* most that pools may use there, under `devices:`; 0: no limit */
    uint64_t memory_bytes;  /* its memory, as it reports or as is assumed; 0: not known */
    int capability;         /* of a CUDA device that is present, 90: 9.0; 0: not known */
    const mr_card *card;    /* the card that it is, or is like, as far as its figures are known; NULL: not known */
    mr_view_bytes memory;   /* upper bound of its own memory used by pools, weights and tables; of the first device:
                               of host memory, pinned and shared memory included */
    const char *lower;      /* the key of the YAML that saves most of its memory; NULL: none does */
    mr_view_bytes libraries; /* CUDA devices: upper bound of libraries' memory there beside them (models, surfaces of
                                decoders) */
} mr_plan_device;

/* An entry of `nodes`: one process, or several that do the same. */
typedef struct mr_plan_node {
    const char *id;
    mr_place mark;          /* of its id */
    int replicas;
    int64_t busy_poll_ns;
    const char *listen;     /* the first endpoint that its first process binds; NULL: it has no consumers */
    const char *address;    /* the address of the same for its peers */
    const char *key, *public_key; /* files; NULL: none */
    size_t source_count, stage_count; /* of the author's */
    mr_view_bytes host, pinned, shared; /* upper bounds of the pools of one of its processes */
    mr_view_bytes queues;   /* beside them: the most memory of ZeroMQ for its cuts, see planner/plan_memory.c */
    const mr_view_bytes *devices; /* the same of each of the plan's devices, by index; of the first: all of those */
} mr_plan_node;

/* A link between nodes: its settings, and the vertices at its ends. */
typedef struct mr_plan_cut {
    const mr_cut *cut;      /* as this process sees it; of a plan of all nodes, as the first producer */
    int from, to;           /* nodes */
    int out, in;            /* vertices */
} mr_plan_cut;

/* A source, stage, copy or end of a cut. */
/* What becomes of frames that cannot be taken or processed. */
typedef struct mr_planned_handling {
    int queue;                      /* frames of one source that each input link holds */
    int gathered;                   /* frames of one source that batches may hold on one way here, its own included */
    mr_policy policy;               /* of its input links when full */
    mr_on_error on_error;
} mr_planned_handling;

/* What its stage type needs, as negotiated, and the buffers that follow from it. */
typedef struct mr_planned_needs {
    size_t stream_bytes[2];         /* of each CUDA device, for one entry */
    int64_t library_bytes;          /* of each CUDA device, for one instance */
    mr_planned_work work;           /* on a GPU */
    int retained;                   /* buffers that an instance keeps for itself */
    int output_buffers;             /* for output 0 of one instance (Buffers, above) */
    int least_buffers;              /* with that many the pipeline still makes progress: one call in each stage, and
                                       in each queue no more than that call needs */
    int likely_buffers;             /* the number expected to be in use (planner/sizes.c) */
} mr_planned_needs;

typedef struct mr_plan_vertex {
    const char *id;
    const mr_stage_type *type;
    const void *options;
    const char *place;              /* "file:line:column" */
    mr_place mark;
    mr_plan_role role;
    uint32_t source;                /* sources: 0, 1, ... */
    mr_view_devices devices;        /* indexes of plan->devices */
    mr_view_remarks remarks;
    mr_copy_kind copy;
    int node;                       /* the node that runs it, in plan->nodes; 0 if there are none */
    mr_view_calls calls;
    mr_planned_handling handling;
    mr_planned_needs needs;
    size_t input_count;
    const mr_planned_input *inputs; /* one for each input port that is used; merged links stand behind one port */
    const mr_format_set *takes;     /* one for each of them: the formats that it, and all that its frames go on to,
                                       can accept; NULL if the planner has inserted the vertex */
    mr_view_offer offer;            /* sources */
    size_t output_count;
    mr_planned_output *outputs;
    mr_format *formats;             /* one for each output: the properties that all its frames share */
    mr_view_pool *pools;            /* one for each output: buffers of its frames, or of the tensors it adds to them */
    mr_view_memory memory;
    size_t source_count;            /* the sources whose frames arrive here */
    const uint32_t *sources;        /* ascending */
} mr_plan_vertex;

typedef struct mr_plan {
    const mr_spec *spec;
    const char *name;
    int workers;
    int jobs;                       /* number of waiting sources that are open at a time; 0: none wait */
    int64_t busy_poll_ns;           /* how long an idle one looks for work before it sleeps */
    int64_t grace_ns;               /* how long a run may take after a request to stop, all its nodes together */
    size_t source_count;
    size_t vertex_count;            /* sources included */
    mr_plan_vertex *vertices;       /* sources first, then the others in topological order */
    size_t edge_count;
    mr_view_link *edges;            /* by `to`, then in the order of the YAML; `to_port` is an index into the inputs of
                                       vertex `to` */
    size_t device_count;
    mr_plan_device *devices;        /* the host's processors, those of `devices:`, assumed ones, others that stages
                                       name */
    size_t row_count;
    const mr_view_row *rows;        /* the account of memory: of all nodes, node by node, then by kind */
    mr_view_bytes host, pinned, shared; /* upper bounds of pools; each kind is counted apart */
    mr_view_bytes queues;           /* and of ZeroMQ's memory beside them */
    size_t node_count;              /* 0: one process runs all, even if the author wrote nodes (mr_plan_params.cuts) */
    mr_plan_node *nodes;
    int node;                       /* the one that this is the plan of: only vertices of that node are run. -1: of
                                       all of them, and it cannot be run; 0 if there are none */
    int replica;                    /* which of that node's processes: 0, 1, ... */
    size_t cut_count;
    mr_plan_cut *cuts;              /* in the order of the graph */
    bool assumed;                   /* it is for hardware that need not be present, and cannot be run */
    const mr_view_expected *expected; /* the expected rates; NULL: no device is like a card */
    mr_arena arena;                 /* private: all of the above but the spec */
} mr_plan;

/* Whether sources come and go (sources: {max: N}): the run goes on without any until it is asked to end. */
static inline bool mr_plan_changes(const mr_plan *plan) {
    return plan->spec && plan->spec->most_sources > 0;
}

/* Whether the vertex runs in this process. */
static inline bool mr_plan_is_here(const mr_plan *plan, const mr_plan_vertex *vertex) {
    return vertex->node == plan->node;
}

/* The cut of which the vertex is an end; NULL: none. */
static inline const mr_cut *mr_plan_cut_of(const mr_plan_vertex *vertex) {
    return vertex->role == MR_ROLE_CUT_OUT || vertex->role == MR_ROLE_CUT_IN ? vertex->options : NULL;
}

typedef struct mr_plan_params {
    const mr_plan_types *inserted;  /* live as long as the plan */
    bool cuts;                      /* `nodes` of the YAML holds; else one process runs all */
    const char *node;               /* with cuts: the node to plan for; NULL: all of them */
    int replica;                    /* which of its processes: 0, 1, ... */
    int process, processes;         /* in place of node and replica: the number of this process among all, counted
                                       node by node, and how many there are; 0: not given */
    size_t host_count;              /* machines of all processes, counted likewise: the address of those that listen
                                       at tcp://0.0.0.0:PORT; 0: not known */
    const char *const *hosts;
    const char *runtime;            /* folder for sockets of nodes without an endpoint of their own; NULL: that of
                                       $MILLRACE_RUNTIME, else one of the pipeline's own */
    int workers;                    /* 0: as in the spec, else one for each usable core */
    int jobs;                       /* 0: as in the spec, else by planner/jobs.c */
    int64_t grace_ns;               /* 0: ten seconds */
    const struct mr_plan *known;    /* sources of that plan that have the id of one here, but `added`, give what they
                                       give there, and are not opened. NULL: all are */
    const char *added;
    bool offline;
    bool connect;              /* to streams, for what they tell of themselves */
    bool force;                     /* mr_negotiation.force */
    bool deterministic;             /* no threads: nothing blocking, one entry a stage */
    size_t assume_count;            /* plan for hardware that need not be present: "cuda:8x80GiB", "sim:2",
                                       "cuda:2xH100", "cuda:1xH100x40GiB" */
    const char *const *assume;
    size_t cost_count;              /* not 0: `device: auto` balances by these */
    const mr_measured_cost *costs;
} mr_plan_params;

/* The devices on which the vertex has state and pools: its own, and behind them the one in reserve. */
static inline size_t mr_plan_parts(const mr_plan_vertex *vertex) {
    return vertex->devices.count + vertex->devices.has_reserve;
}
static inline int mr_plan_part(const mr_plan_vertex *vertex, size_t part) {
    return part < vertex->devices.count ? vertex->devices.at[part] : vertex->devices.reserve;
}

/* The number of sources that reach the vertex and are open at a time. */
size_t mr_plan_at_once(const mr_plan *plan, const mr_plan_vertex *vertex);
/* The number of the plan's sources that wait for their turn. */
size_t mr_plan_waiting(const mr_plan *plan);

/* Whether both compute on the same devices, named in the same order. */
bool mr_plan_same_devices(const mr_plan_vertex *a, const mr_plan_vertex *b);
/* Whether calls of the vertex wait until a batch is full; copies take the frames that have arrived. */
static inline bool mr_plan_waits_for_batch(const mr_plan_vertex *vertex) {
    return vertex->calls.batch > 1 && !vertex->copy;
}
/* For a stage on several devices: calls that each device may finish before one that began earlier on a slower
 * device. */
enum { MR_PLAN_REORDERED = 8 };

/* Sources that are added while the pipeline runs. The plan reserves places for them: vertices of sources, of which each
 * may have one source after the other. A place keeps its links, the formats that were planned, and its room.
 *
 * mr_plan_fits tells whether a place could have the source of another plan, which was made with this one as `known`:
 * its type and stages are the same, and its formats are among those of the place. mr_plan_proves, whether all stages of
 * that plan get, give and hold no more than in this one; else MR_ERROR_CONFIG, and the message says which does.
 * mr_plan_seat lets a place have the source; its options live as long as that plan's spec, its id and
 * note longer. Only while no
 * instance of the place is open. */
bool mr_plan_fits(const mr_plan *plan, uint32_t place, const mr_plan *with, uint32_t source);
int mr_plan_proves(const mr_plan *plan, uint32_t place, const mr_plan *with, uint32_t source);
void mr_plan_seat(mr_plan *plan, uint32_t place, const mr_plan_vertex *source, const char *id,
                  const char *note);

void mr_plan_destroy(mr_plan **plan);

/* Before the plan is used: discards the output of its stages. Files become /dev/null, folders become folders of the
 * stages' ids below `folder`, which are created. MR_ERROR_IO or MR_ERROR_MEMORY. */
int mr_plan_discard_output(mr_plan *plan, const char *folder);

/* Whether stages of that type can be on devices other than the host's processors. */
bool mr_plan_works_on_devices(const mr_stage_type *type);
/* Marks the vertex and all vertices that its frames pass before it, on any node; `before` has room for all vertices. */
void mr_plan_mark_before(const mr_plan *plan, int vertex, bool *before);
/* The least factor by which readers of output 0 of the vertex shrink such a picture, on each axis; 1 if one of them
 * reads it whole (mr_stage_type.shrinks), or is not on its node. */
double mr_plan_shrink(const mr_plan *plan, int vertex, const mr_format *picture);
/* Whether frames reach the vertex over a reliable cut, even through other vertices. */
bool mr_plan_is_reliable(const mr_plan *plan, int vertex);

#endif
