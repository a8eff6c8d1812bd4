/* The inside of a pipeline. Internal to the engine; programs use millrace.h, which documents threads and errors. */
#ifndef MILLRACE_PIPELINE_PIPELINE_H
#define MILLRACE_PIPELINE_PIPELINE_H

#include "engine/plan/plan.h"
#include "millrace/millrace.h"

typedef struct mr_graph mr_graph;

/* The stage types that the planner inserts into pipelines. */
extern const mr_plan_types mr_pipeline_types;

struct mr_pipeline {
    mr_plan *plan;
    mr_graph *graph; /* NULL if it was only proven */
    bool offline;
};

/* Copies the parameters of a program that may know an earlier or a later struct (base/sized.h). */
int mr_pipeline_params_copy(mr_pipeline_params *own, const mr_pipeline_params *given, size_t given_bytes,
                            mr_diagnostics *diagnostics);
/* Makes the plan that a pipeline opened with these parameters would run. */
int mr_pipeline_plan(mr_plan **plan, const mr_pipeline_params *params, mr_diagnostics *diagnostics);

#endif
