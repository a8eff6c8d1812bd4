/* The inside of a pipeline. Internal to the engine; programs use millrace.h, which documents threads and errors. */
#pragma once

#include <pthread.h>

#include "engine/plan/plan_data.h"
#include "millrace/millrace.h"

typedef struct mr_graph mr_graph;

/* The stage types that the planner inserts into pipelines. */
extern const mr_plan_types mr_pipeline_types;

struct mr_pipeline {
    mr_plan *plan;
    mr_graph *graph; /* NULL if it was only proven */
    bool offline;
    mr_pipeline_params params; /* of a pipeline whose sources come and go, for plans of those that are added */
    mr_arena arena;            /* holds their texts */
    pthread_mutex_t snapshot_lock; /* of the next four fields; mr_pipeline_summarize is called with it */
    mr_summary *snapshot;          /* the last one; NULL: none yet */
    int64_t snapshot_ns;           /* when it was begun */
    uint64_t snapshot_news;        /* of the graph, before it was begun */
    bool snapshot_last;            /* after the end */
    struct mr_listed *listed;  /* listed.h; NULL: it has no list of sources, or does not run */
};

/* Copies the parameters of a program that may know an earlier or a later struct (base/sized.h). */
int mr_pipeline_params_copy(mr_pipeline_params *own, const mr_pipeline_params *given, size_t given_bytes,
                            mr_diagnostics *diagnostics);
/* Makes the plan that a pipeline opened with these parameters would run. */
int mr_pipeline_plan(mr_plan **plan, const mr_pipeline_params *params, mr_diagnostics *diagnostics);
/* The same with one source more, and all others as in the plan `known`. */
int mr_pipeline_plan_with(mr_plan **plan, const mr_pipeline_params *params, const mr_plan *known,
                          const mr_spec_added *added, mr_diagnostics *diagnostics);

/* sources.c: adds a source from the map of its options in another file, as mr_pipeline_add_source. */
int mr_pipeline_add_node(mr_pipeline *pipeline, const char *id, const mr_yaml *node, mr_diagnostics *diagnostics);
/* The same in place of the source of that id, with none of its options. */
int mr_pipeline_set_node(mr_pipeline *pipeline, const char *id, const mr_yaml *node, mr_diagnostics *diagnostics);
/* Keeps the parameters that plans of added sources need. MR_ERROR_MEMORY. */
int mr_pipeline_keep(mr_pipeline *pipeline, const mr_pipeline_params *params);
