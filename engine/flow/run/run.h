/* What the parts of a running graph share. graph.h creates it before the first instance; nothing in it changes between
 * start and end. Whatever changes belongs to the modules that it points to; each has a lock or atomics. */
#pragma once

#include "engine/base/names.h"
#include "engine/data/store.h"
#include "engine/flow/executor/executor.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/run/run_id.h"
#include "engine/plan/plan_data.h"

typedef struct mr_run {
    const mr_plan *plan;
    uint64_t seed;                    /* 0: threads; otherwise deterministic */
    bool profiled;                    /* measure each stage's processor time */
    bool reads_checked;               /* a device checks what the host reads */
    struct mr_intact *intact;         /* intact.h: whether stages leave their inputs as they are; NULL: not checked */
    mr_executor *executor;
    mr_store *store;
    mr_ledger *ledger;
    mr_device *_Atomic *devices;      /* as in the plan; NULL: not used, or not open yet (summaries look) */
    mr_names *names;                  /* words from other nodes; NULL: there are no cuts */
    struct mr_control *control;       /* control.h: stops */
    struct mr_ending *ending;         /* ending.h: what is being opened, failures, and the end */
    struct mr_sources *sources;       /* sources.h: source failures and reports */
    struct mr_source_counts *counts;  /* source_counts.h: source frames */
    struct mr_ends *ends;             /* ends.h: source ends still to pass; NULL: no source waits */
    struct mr_deliveries *deliveries; /* deliveries.h */
    struct mr_deadlines *deadlines;   /* deadline.h; NULL: no source has a deadline */
    struct mr_run_states *states;     /* run_states.h: whether the run begins or continues */
    struct mr_resume *resume;         /* resume.h; NULL: no checkpoint */
    struct mr_tracing *tracing;       /* tracing.h; NULL: not traced */
    struct mr_spans *spans;           /* follow.h; NULL: no frame is followed */
    struct mr_taps *taps;             /* taps.h: looks at frames that pass */
    struct mr_services *services;     /* services.h: what sinks report about the services that they deliver to */
    mr_run_id id;                     /* of a run that begins with this process */
    uint64_t incarnation;             /* of this process: when it began, in nanoseconds */
} mr_run;
