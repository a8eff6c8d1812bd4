/* The plan: a pipeline after everything is decided. spec -> plan -> graph.
 *
 * mr_plan_create resolves stage types, links, devices, instance counts, formats (through each type's negotiate, in
 * topological order), queue lengths and buffer counts. It reports all errors at once and moves no frames. The plan owns
 * its memory and, through `spec`, the options and strings it points to. Once created it must not change, except by
 * mr_plan_discard_output, and any thread may read it. Sizes are bytes, times nanoseconds.
 *
 * Defaults if the YAML gives none. One frame per call. A queue holds four frames from each source (32 packets or
 * results, which are small), at least one batch, and before a join as many as the batches on the way there gather. Two
 * calls in flight for each worker that can be in a stage, or for each device if there are more. Device cpu; block;
 * drop.
 *
 * Buffers. The pool for one instance's output 0 is large enough for links to fill up before it runs dry:
 *
 *     retained (negotiated) + in_flight * batch + the sum over consumers of
 *         queue * sources of this instance
 *         + in_flight * batch of each instance of the consumer that these sources reach
 *
 * and again the same for consumers of a consumer that can pass frames on in their buffers, that is, one whose output
 * has the same kind as its input. For a stage that adds tensors to the results, the sum covers all later stages,
 * because every frame made from its frames keeps the results. A copy needs the same for its consumers, and stages
 * before it need hold no more than the copy's queue and slots. On several devices each pool is as large: if the others
 * fail, are disabled or are slow, one of them may have all these frames.
 *
 * Memory. A stage reads and writes its device's memory. A host stage's outputs are pinned if a copy reads them;
 * otherwise they are shared if a cut to another process on this host does. Both hold even through stages that pass
 * frames on in their buffers. External memory, from a library or the program, goes through the copy's pinned memory. A
 * stage on several devices is one instance, and each call goes to one device: the first frame's device, else the one
 * that will finish it first (flow/instance/shares.c). The call's first work uploads frames that are elsewhere into that
 * device's memory (`staging`). Only then is a frame's device known, and a batch stays whole. So there is no copy before
 * such a stage; one after it, with the same device list, brings each frame home.
 *
 * Small frames are copied together. A copy on one device takes all frames in its queue in one call, up to the largest
 * batch that its neighbours read or emit and to MR_COPY_GATHERED_BYTES. They are then contiguous in one buffer, as far
 * as there are such buffers. A call that finds none free gives every frame a separate buffer.
 *
 * Gathering. Where a call has a high fixed cost, such as reading weights, a stage on the processors takes several
 * frames that wait already. It holds up none, and gets fewer if a pool is empty, so buffers are counted as without
 * gathering. Only the scratch memory must be large enough for all. A stage that acquires buffers for its output gathers
 * only by `batch`: a call that waits for more buffers than there are would never go on.
 *
 * A device in reserve counts like an additional one, but gets no frames before another has failed. A stage with one
 * uploads inputs itself, from the host or from devices that the stage before also has.
 *
 * Device buffers and pinned ones with a known size are allocated when the pipeline starts. So too large a demand shows
 * before the first frame, and nothing is allocated there while frames pass. Plain and shared memory is allocated when
 * it is needed.
 *
 * Totals are upper bounds; an overflow is UINT64_MAX. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/device/sim/card.h"
#include "engine/plan/cut.h"
#include "engine/spec/spec.h"
#include "millrace/plan.h"
#include "millrace/stage.h"

/* A vertex's role. The planner inserts copies and cut ends; all others are the author's. */
typedef enum mr_plan_role {
    MR_ROLE_STAGE,
    MR_ROLE_SOURCE,
    MR_ROLE_COPY,
    MR_ROLE_CUT_OUT, /* the options are a mr_cut (cut.h), the same as at the other end */
    MR_ROLE_CUT_IN
} mr_plan_role;

/* Stage types for vertices that the planner inserts. */
typedef struct mr_plan_types {
    const mr_stage_type *copy, *cut_out, *cut_in;
} mr_plan_types;

/* A copy moves frames, with the tensors in the results, from one memory into another, and changes nothing else. Its id
 * is "decode->sim:0"; `place` and `mark` are those of the first stage that reads its output. There is one for each
 * output port and each device (or device list) that reads it, for any number of stages. */
typedef enum mr_copy_kind {
    MR_COPY_NONE,     /* it is not a copy */
    MR_COPY_UPLOAD,   /* host -> device; on a stream on the device it copies to */
    MR_COPY_DOWNLOAD, /* device -> pinned host memory; on a stream of the device it copies from */
    MR_COPY_PEER      /* device -> device; on a stream on the device it copies to */
} mr_copy_kind;

/* A device that the YAML, the command line or a stage names. The first is always the host's processors. */
typedef struct mr_plan_device {
    const char *name;       /* as mr_device_open accepts it: "cpu", "sim:0", "cuda:1" */
    const char *alias;      /* the name under `devices:`, if it has one; else NULL */
    mr_location mark;          /* that name's; line 0 if there is none */
    bool enabled;
    bool assumed;           /* it need not be present (mr_plan_params.assume) */
    bool used;              /* a stage or a copy computes there */
    uint64_t limit_bytes;   /* most that pools may use there, under `devices:`; 0: no limit */
    uint64_t memory_bytes;  /* its memory, as reported or assumed; 0: not known */
    int capability;         /* CUDA device that is present: 90 is 9.0; 0: not known */
    const mr_card *card;    /* the card that it is, or is like, as far as figures are known; NULL: not known */
    mr_view_bytes memory;   /* upper bound on its memory for pools, weights and tables. First device: on host memory,
                               pinned and shared memory included */
    const char *lower;      /* the YAML key that can save most of this memory; NULL: none can */
    mr_view_bytes libraries; /* CUDA devices: upper bound on the memory that libraries use there beside them (models,
                                decoder surfaces) */
} mr_plan_device;

/* An entry in `nodes`: one process, or several that do the same. */
typedef struct mr_plan_node {
    const char *id;
    mr_location mark;          /* the id's */
    int replicas;
    int64_t busy_poll_ns;
    const char *listen;     /* the first endpoint that the first process binds; NULL: it has no consumers */
    const char *address;    /* the same for peers: the address */
    const char *key, *public_key; /* files; NULL: none */
    size_t source_count, stage_count; /* of the author's */
    mr_view_bytes host, pinned, shared; /* upper bounds for one process's pools */
    mr_view_bytes queues;   /* beside them: the most memory that ZeroMQ needs for the cuts, see planner/plan_memory.c */
    const mr_view_bytes *devices; /* the same for each device in the plan, by index; the first has the sum of those */
} mr_plan_node;

/* A link between nodes: the settings, and the vertices at both ends. */
typedef struct mr_plan_cut {
    const mr_cut *cut;      /* as this process sees it; in a plan for all nodes, as the first producer */
    int from, to;           /* nodes */
    int out, in;            /* vertices */
} mr_plan_cut;

/* A source, stage, copy or cut end. */
/* What happens to frames that cannot be taken or processed. */
typedef struct mr_planned_handling {
    int queue;                      /* frames from one source that each input link holds */
    int gathered;                   /* frames from one source that batches can hold on one way here, this stage's
                                       included */
    int kept;                       /* a stage that gathers objects: how many of a source's that came over cuts wait for
                                       their frames' outcome */
    mr_policy policy;               /* for full input links */
    mr_on_error on_error;
} mr_planned_handling;

/* What its stage type needs, as negotiated, and the buffers that follow from that. */
typedef struct mr_planned_needs {
    size_t stream_bytes[2];         /* per CUDA device, for one entry */
    int64_t library_bytes;          /* per CUDA device, for one instance */
    mr_planned_work work;           /* on a GPU */
    int retained;                   /* buffers that an instance keeps for itself */
    int output_buffers;             /* for one instance's output 0 (Buffers, above) */
    int least_buffers;              /* with that many the pipeline still makes progress: one call in each stage, and
                                       in each queue no more than that call needs */
    int likely_buffers;             /* the number expected to be in use (planner/sizes.c) */
    int result_frames;              /* for one instance: frames that hold results which it has made */
    uint32_t shows;                 /* payloads that may leave the pipeline here (mr_negotiation.shows) */
    bool blind;                     /* reads no payload */
} mr_planned_needs;

typedef struct mr_plan_vertex {
    const char *id;
    const mr_stage_type *type;
    const void *options;
    const char *place;              /* "file:line:column" */
    mr_location mark;
    mr_plan_role role;
    uint32_t source;                /* sources: 0, 1, ... */
    mr_view_devices devices;        /* indexes in plan->devices */
    mr_view_remarks remarks;
    mr_copy_kind copy;
    int node;                       /* the node that runs it, in plan->nodes; 0 if there are none */
    mr_view_calls calls;
    mr_planned_handling handling;
    mr_planned_needs needs;
    size_t input_count;
    const mr_planned_input *inputs; /* one for each used input port; merged links share one port */
    const mr_format_set *takes;     /* one for each input: the formats that it, and everything that the frames continue
                                       to, can accept; NULL if the planner inserted the vertex */
    mr_view_offer offer;            /* sources */
    size_t output_count;
    mr_planned_output *outputs;
    mr_format *formats;             /* one for each output: the properties that all frames share */
    mr_view_pool *pools;            /* one for each output: buffers for frames, or for the tensors added to them */
    mr_view_memory memory;
    size_t source_count;            /* the sources whose frames arrive here */
    const uint32_t *sources;        /* ascending */
} mr_plan_vertex;

typedef struct mr_plan {
    const mr_spec *spec;
    const char *name;
    int workers;
    int jobs;                       /* how many waiting sources are open at a time; 0: none wait */
    int64_t busy_poll_ns;           /* how long an idle one looks for work before it sleeps */
    int64_t grace_ns;               /* how long a run can take after a request to stop, all nodes together */
    size_t source_count;
    size_t vertex_count;            /* sources included */
    mr_plan_vertex *vertices;       /* sources first, then the others in topological order */
    size_t edge_count;
    mr_view_link *edges;            /* by `to`, then in YAML order; `to_port` is an index into vertex `to`'s inputs */
    size_t device_count;
    mr_plan_device *devices;        /* the host's processors, those in `devices:`, assumed ones, others that stages
                                       name */
    size_t row_count;
    const mr_view_row *rows;        /* the memory account: all nodes, node by node, then by kind */
    mr_view_bytes host, pinned, shared; /* upper bounds for pools; each kind is counted apart */
    mr_view_bytes queues;           /* and for ZeroMQ's memory beside them */
    size_t node_count;              /* 0: one process runs all, even if the author wrote nodes (mr_plan_params.cuts) */
    mr_plan_node *nodes;
    int node;                       /* the node that this plan is for: only vertices on that node run. -1: all, and the
                                       plan cannot run; 0 if there are none */
    int replica;                    /* which process on that node: 0, 1, ... */
    size_t cut_count;
    mr_plan_cut *cuts;              /* in graph order */
    bool assumed;                   /* it is for hardware that need not be present, and cannot be run */
    const mr_view_expected *expected; /* the expected rates; NULL: no device is like a card */
    mr_arena arena;                 /* private: everything above but the spec */
} mr_plan;

/* Whether sources come and go (sources: {max: N}): the run continues without any until it must end. */
static inline bool mr_plan_changes(const mr_plan *plan) {
    return plan->spec && plan->spec->most_sources > 0;
}

/* Whether the vertex runs in this process. */
static inline bool mr_plan_is_here(const mr_plan *plan, const mr_plan_vertex *vertex) {
    return vertex->node == plan->node;
}

/* The cut that the vertex is an end of; NULL: none. */
static inline const mr_cut *mr_plan_cut_of(const mr_plan_vertex *vertex) {
    return vertex->role == MR_ROLE_CUT_OUT || vertex->role == MR_ROLE_CUT_IN ? vertex->options : NULL;
}

typedef struct mr_plan_params {
    const mr_plan_types *inserted;  /* live as long as the plan */
    bool cuts;                      /* `nodes` in the YAML counts; else one process runs everything */
    const char *node;               /* with cuts: the node to plan for; NULL: all */
    int replica;                    /* which process: 0, 1, ... */
    int process, processes;         /* instead of node and replica: this process's number among all, counted node by
                                       node, and how many there are; 0: not given */
    size_t host_count;              /* each process's machine, counted likewise: the address for those that listen at
                                       tcp://0.0.0.0:PORT; 0: not known */
    const char *const *hosts;
    const char *runtime;            /* folder for node sockets without an endpoint; NULL: $MILLRACE_RUNTIME, else one
                                       made for the pipeline */
    int workers;                    /* 0: as in the spec, else one for each usable core */
    int jobs;                       /* 0: as in the spec, else by planner/jobs.c */
    int64_t grace_ns;               /* 0: ten seconds */
    const struct mr_plan *known;    /* a plan with known sources: one whose id is here too, but not `added`, gives what
                                       it gives there and is not opened. NULL: all are opened */
    const char *added;
    bool offline;
    bool connect;              /* to streams, to ask what they contain */
    bool force;                     /* mr_negotiation.force */
    bool resumes;                   /* the run has a checkpoint, and may continue */
    bool deterministic;             /* no threads: nothing blocking, one entry a stage */
    size_t assume_count;            /* plan for hardware that need not be present: "cuda:8x80GiB", "sim:2",
                                       "cuda:2xH100", "cuda:1xH100x40GiB" */
    const char *const *assume;
    size_t cost_count;              /* not 0: `device: auto` balances by these */
    const mr_measured_cost *costs;
} mr_plan_params;

/* How many devices have the vertex's state and pools: its devices, followed by the one in reserve. */
static inline size_t mr_plan_parts(const mr_plan_vertex *vertex) {
    return vertex->devices.count + vertex->devices.has_reserve;
}
static inline int mr_plan_part(const mr_plan_vertex *vertex, size_t part) {
    return part < vertex->devices.count ? vertex->devices.at[part] : vertex->devices.reserve;
}

/* The number of sources that reach the vertex and are open at a time. */
size_t mr_plan_at_once(const mr_plan *plan, const mr_plan_vertex *vertex);
/* How many sources in the plan wait. */
size_t mr_plan_waiting(const mr_plan *plan);

/* Whether both compute on the same devices, named in the same order. */
bool mr_plan_same_devices(const mr_plan_vertex *a, const mr_plan_vertex *b);
/* Whether calls of the vertex wait until a batch is full; copies take the frames that have arrived. */
static inline bool mr_plan_waits_for_batch(const mr_plan_vertex *vertex) {
    return vertex->calls.batch > 1 && !vertex->copy;
}
enum { MR_PLAN_MOST_BUFFERS = 1 << 28 /* per pool */ };
/* Counts of frames and buffers stop there; the planner refuses pools that reach it. */
static inline int mr_plan_cap(int64_t count) {
    return (int)(count < MR_PLAN_MOST_BUFFERS ? count : MR_PLAN_MOST_BUFFERS);
}
/* How many frames of one source fill a batch, with those that only pass. */
static inline int mr_plan_batch_frames(const mr_plan_vertex *vertex) {
    const int64_t batch = vertex->calls.batch;
    return mr_plan_cap(batch > 1 && vertex->calls.spacing > 1 ? batch * vertex->calls.spacing : batch);
}
/* The most frames in a call that waits for a batch, with those that only pass. It then is full before there is no more
 * room, at least with no more sources than frames in a batch: each source gives up to spacing - 1 frames that pass
 * before the next one that counts. */
static inline int mr_plan_call_frames(const mr_plan_vertex *vertex) {
    const int64_t batch = vertex->calls.batch;
    const int64_t sources = vertex->source_count < (size_t)batch ? (int64_t)vertex->source_count : batch;
    return mr_plan_cap(batch > 1 && vertex->calls.spacing > 1 ? (batch - 1 + sources) * vertex->calls.spacing : batch);
}
/* For a stage on several devices: calls that each device may finish before one that began earlier on a slower
 * device. */
enum { MR_PLAN_REORDERED = 8 };

/* Sources that are added while the pipeline runs. The plan reserves slots for them: source vertices that one source
 * uses at a time. A slot keeps its links, the planned formats and the planned memory.
 *
 * mr_plan_fits: whether a slot could have the source from another plan, which was made with this one as `known`. Its
 * type and stages must be the same, and its formats among the slot's. mr_plan_proves: whether all stages in that plan
 * get, give and hold no more than in this one; else MR_ERROR_CONFIG, and the message names the one that does.
 * mr_plan_seat gives a slot the source. The source's options must live as long as that plan's spec; its id, place
 * and note must live longer. Only while no instance of the slot is open. */
bool mr_plan_fits(const mr_plan *plan, uint32_t place, const mr_plan *with, uint32_t source);
int mr_plan_proves(const mr_plan *plan, uint32_t place, const mr_plan *with, uint32_t source);
void mr_plan_seat(mr_plan *plan, uint32_t slot, const mr_plan_vertex *source, const char *id, const char *place,
                  const char *note);

void mr_plan_destroy(mr_plan **plan);

/* Discards what the stages write; must be called before the plan is used. Files become /dev/null. Folders become
 * folders below `folder` named by stage id, which are created. MR_ERROR_IO or MR_ERROR_MEMORY. */
int mr_plan_discard_output(mr_plan *plan, const char *folder);

/* Whether stages of that type can be on devices other than the host's processors. */
bool mr_plan_works_on_devices(const mr_stage_type *type);
/* Marks the vertex and all vertices that its frames pass before it, on any node. `before` must have room for all
 * vertices. */
void mr_plan_mark_before(const mr_plan *plan, int vertex, bool *before);
/* The least factor by which readers of the vertex's output 0 shrink such a picture, on each axis. 1 if a reader uses
 * the whole picture (mr_stage_type.shrinks), or is on another node. */
double mr_plan_shrink(const mr_plan *plan, int vertex, const mr_format *picture);
/* Whether frames reach the vertex over a reliable cut, even through other vertices. */
bool mr_plan_is_reliable(const mr_plan *plan, int vertex);
