/* A run: what the parts of a running graph share. graph.h makes it before the first of its instances, and nothing in it
 * changes from the start to the end. What changes belongs to the modules that it points to, each with a lock or atomics
 * of its own. */
#ifndef MILLRACE_FLOW_RUN_RUN_H
#define MILLRACE_FLOW_RUN_RUN_H

#include "engine/base/names.h"
#include "engine/data/store.h"
#include "engine/flow/executor/executor.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/plan/plan_data.h"

typedef struct mr_run {
    const mr_plan *plan;
    uint64_t seed;                    /* 0: threads; else deterministic */
    bool profiled;                    /* processor time of each stage is measured */
    bool reads_checked;               /* a device checks what the host reads */
    mr_executor *executor;
    mr_store *store;
    mr_ledger *ledger;
    mr_device **devices;              /* as in the plan; NULL: not used */
    mr_names *names;                  /* words of other nodes; NULL: there are no cuts */
    struct mr_control *control;       /* control.h: stops */
    struct mr_ending *ending;         /* ending.h: the first failure, and the end */
    struct mr_openings *openings;     /* openings.h: instances that are being opened */
    struct mr_sources *sources;       /* sources.h: failures and reports of sources */
    struct mr_source_counts *counts;  /* source_counts.h: frames of sources */
    struct mr_ends *ends;             /* ends.h: ends of sources that are to pass; NULL: no source waits */
    struct mr_deliveries *deliveries; /* deliveries.h */
    struct mr_deadlines *deadlines;   /* deadline.h; NULL: no source has a deadline */
    struct mr_run_states *states;     /* run_states.h: whether the run begins or continues */
    struct mr_resume *resume;         /* resume.h; NULL: no checkpoint is read or written */
    struct mr_tracing *tracing;       /* tracing.h; NULL: not traced */
} mr_run;

#endif
