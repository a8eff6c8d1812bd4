/* What a pipeline is made of. Internal to the engine; programs use millrace.h, which tells of threads and
 * errors. */
#ifndef MILLRACE_PIPELINE_PIPELINE_H
#define MILLRACE_PIPELINE_PIPELINE_H

#include "engine/plan/plan.h"
#include "millrace/millrace.h"

typedef struct mr_graph mr_graph;

/* The stage types of what the planner puts into every pipeline. */
extern const mr_plan_types mr_pipeline_types;

struct mr_pipeline {
    mr_plan *plan;
    mr_graph *graph; /* NULL where it was only proven */
    bool offline;
};

/* Parameters of a program that may know an earlier or a later struct (base/sized.h). */
int mr_pipeline_params_copy(mr_pipeline_params *own, const mr_pipeline_params *given, size_t given_bytes,
                            mr_diagnostics *diagnostics);
/* The plan that a pipeline opened with these parameters would run. */
int mr_pipeline_plan(mr_plan **plan, const mr_pipeline_params *params, mr_diagnostics *diagnostics);

/* Stops the run at once where it was asked to end so long ago, and says so in the log. */
void mr_pipeline_keep_short(mr_pipeline *pipeline, int64_t most_ns);

#endif
