/* The running graph: every instance of a plan, wired with links, on one executor. plan -> graph.
 *
 * start.h makes, starts and ends it; run.h takes reports from its instances. It has ended when every instance has seen
 * the end of all its sources. */
#ifndef MILLRACE_FLOW_GRAPH_H
#define MILLRACE_FLOW_GRAPH_H

#include "engine/base/names.h"
#include "engine/data/store.h"
#include "engine/flow/executor/executor.h"
#include "engine/flow/instance/instance.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/ledger/tally.h"
#include "engine/observe/audit_log.h"
#include "engine/plan/plan_data.h"
#include "millrace/millrace.h"

/* The place of a source, of which some may have one source after the other (seats.h). */
typedef enum mr_source_phase {
    MR_SOURCE_HERE,           /* it is there, or will begin */
    MR_SOURCE_LEAVING,        /* it was removed, and frames of it may be on their way */
    MR_SOURCE_OVER,           /* it has ended by itself; another may have its place */
    MR_SOURCE_VACANT
} mr_source_phase;

typedef struct mr_source_state {
    mr_instance *instance;
    _Atomic bool leaving;     /* it is to end, as if the run were stopping */
    _Atomic uint32_t last_epoch; /* the largest so far */
    uint32_t first_epoch;     /* what its own epochs are added to; written while no source is there */
    _Atomic int64_t expected; /* frames announced */
    _Atomic uint64_t seams;   /* interruptions that its frames reported */
    _Atomic uint64_t unread;  /* frames that were announced and did not come */
    mr_task room;             /* external sources: wakes a program that waits to push if there is room */
    int status;               /* first failure; this and the rest is under the graph's lock */
    char *message;
    bool ended;
    mr_source_report report;  /* of those that connect; this and the next field are under report_lock */
    mr_audit_states audited;  /* its phases in the audit log */
    bool pushed_end;          /* external: the program ended the source */
    mr_source_phase phase;
    struct mr_newcomer *next; /* the source that is to have the place next; NULL: none waits */
    mr_spec *spec;            /* holds its options; NULL: they are the plan's */
    bool gives_own;           /* the next field holds; else the plan's */
    mr_format_set gives;      /* proven of the source that has the place */
    mr_tally tally;           /* frames that are delivered count without a lock */
} mr_source_state;

/* Whether sources come and go (sources: {max: N}): the run goes on without any until it is asked to end. */
static inline bool mr_plan_changes(const mr_plan *plan) {
    return plan->spec && plan->spec->most_sources > 0;
}

typedef struct mr_run_states mr_run_states;

typedef struct mr_subscription {
    mr_frame_function *function;
    void *context;
} mr_subscription;

/* The time from a frame's begin at a vertex to its begin at the last stage behind that drops late frames, by the
 * shorter of the last two calls of each. */
typedef struct mr_need {
    _Atomic int64_t ns;
    size_t count;
    int *behind; /* vertices that take frames from here and drop late ones */
} mr_need;

struct mr_graph {
    const mr_plan *plan;
    mr_executor *executor;
    mr_store *store;
    mr_ledger *ledger;
    mr_names *names;                /* words of other nodes; NULL: none can come. Set under the lock */
    size_t instance_count, instance_room;
    mr_instance **instances;        /* in the order of the plan's vertices */
    mr_link ***inlets;              /* [vertex's first inlet + port][source]: the link that takes that source's
                                       frames */
    size_t *first_inlet;            /* by vertex */
    mr_need *needs;                 /* by vertex; NULL if no source has a deadline */
    mr_route **routes;              /* [vertex][output port] */
    mr_source_state *sources;
    mr_subscription *subscriptions; /* by vertex */
    mr_device **devices;            /* as in the plan; NULL: not used */
    bool reads_checked;             /* one of them checks what the host reads */

    pthread_mutex_t report_lock;    /* of what sources report, also as they are closed, with their instance's lock */
    pthread_mutex_t lock;           /* guards the fields below */
    pthread_cond_t changed;
    size_t running;                 /* instances that have not ended, and holds (mr_graph_hold) */
    bool started;
    size_t opening;                 /* instances that their own threads have yet to open */
    int open_status;                /* of the first instance that failed to open */
    char open_message[512];
    int status;                     /* first failure */
    char message[512];
    int64_t started_ns;
    double started_cpu_s;
    uint64_t started_allocations;
    int64_t ended_ns;               /* 0: not yet */
    double ended_cpu_s;

    /* Of delivered frames, which take no lock. */
    _Atomic int tally_vertex;       /* the sink whose deliveries are tallied; -1: not yet seen */
    _Atomic int64_t first_ns;       /* delivery of the first frame; 0: not yet */
    mr_histogram latency;           /* from source to sink; all threads add */

    _Atomic uint64_t news;       /* changes that a reader of summaries expects to see at once: of a source's state or
                                    place, of a device, a stop */
    _Atomic uint64_t reopenings; /* files that were moved are to be opened anew */
    _Atomic bool stopping, cancelled;
    _Atomic int64_t stop_ns; /* when the stop was requested, on the real clock */
    struct mr_run_states *run_states; /* resume.h */
    uint64_t seed;
    struct mr_turns *turns;         /* of sources that wait; NULL: none does */
    struct mr_departed *departed;   /* sources that were removed (departed.h); NULL: none can be. Under the lock */
    mr_names *ids;                  /* of sources that come and go; NULL: none do */
    mr_names_share ids_share;
    mr_work_trace *trace;           /* of all devices; set before the start; NULL: not traced */
    void *trace_context;
    bool profiled;                  /* processor time of each stage is measured */
    bool quiet_sources;             /* a source's failure is not written to the log */
    char *resume_path;              /* NULL: no checkpoint is read or written */
    struct mr_resume *resume;       /* NULL if there is no path; resume.h */
    char *trace_path;               /* NULL: no trace */
    struct mr_tracing *tracing;     /* NULL if there is no path; tracing.h */
};

#endif
