/* The running graph: a plan's instances, connected by links, on one executor. It has ended when every instance has seen
 * each source end.
 *
 * start.h starts it. Create, start and destroy it from one thread, in this order; other calls may come from any
 * thread. */
#pragma once

#include "engine/flow/run/run.h"
#include "engine/flow/source_slots.h"
#include "engine/flow/source_jobs.h"
#include "engine/flow/wiring.h"

/* What a run can be asked to do besides the plan. */
typedef struct mr_graph_params {
    uint64_t seed;       /* 0: threads; otherwise deterministic */
    bool profiled;       /* measure each stage's processor time */
    bool quiet_sources;  /* do not log source failures */
    bool check_stages;   /* stop the run if a stage changes its inputs */
    const char *trace;   /* path; NULL: no trace */
    const char *resume;  /* path; NULL: no checkpoint */
} mr_graph_params;

typedef struct mr_graph {
    mr_run run;
    mr_wiring *wiring;
    mr_source_jobs *jobs;              /* for sources that wait; NULL: none does */
    mr_source_slots *slots;
    mr_work_trace *trace;         /* for all devices; set before the start; NULL: not traced */
    void *trace_context;
    double followed;              /* the share of frames; set before the start */
    char *trace_path, *resume_path;
    _Atomic bool started;         /* there are threads to wake */
} mr_graph;

int mr_graph_create(mr_graph **graph, const mr_plan *plan, const mr_graph_params *params);
void mr_graph_destroy(mr_graph **graph);
/* MR_ERROR_AGAIN while it runs; then the first failure. */
int mr_graph_wait(mr_graph *graph, int64_t timeout_ns);
/* See mr_pipeline_trigger. */
int mr_graph_trigger(mr_graph *graph, const char *id);
/* See mr_pipeline_enable_device. */
int mr_graph_enable_device(mr_graph *graph, const mr_device *device, bool enabled);
