/* A pipeline's internals, for the engine only. Programs use millrace.h, which documents threads and errors. */
#pragma once

#include <pthread.h>

#include "engine/plan/plan_data.h"
#include "millrace/millrace.h"

typedef struct mr_graph mr_graph;

/* Stage types that the planner can insert. */
extern const mr_plan_types mr_pipeline_types;

struct mr_pipeline {
    mr_plan *plan;
    mr_graph *graph; /* NULL if it was only planned */
    bool offline;
    mr_pipeline_params params; /* for plans with added sources; only if sources come and go */
    mr_arena arena;            /* holds the parameters' texts */
    mr_diagnostics warnings;   /* those at opening, which later plans repeat */
    pthread_mutex_t snapshot_lock; /* for the next four fields; needed to call mr_pipeline_summarize */
    mr_summary *snapshot;          /* the latest; NULL: none yet */
    int64_t snapshot_ns;           /* when it was started */
    uint64_t snapshot_news;        /* the graph's change count before it was started */
    bool snapshot_last;            /* it was made after the end */
    struct mr_listed *listed;  /* listed.h; NULL: there is no list, or the pipeline does not run */
};

/* Copies parameters from a program that may have been compiled with an older or newer struct (base/sized.h). */
int mr_pipeline_params_copy(mr_pipeline_params *own, const mr_pipeline_params *given, size_t given_bytes,
                            mr_diagnostics *diagnostics);
/* Makes the plan that a pipeline with these parameters would run. */
int mr_pipeline_plan(mr_plan **plan, const mr_pipeline_params *params, mr_diagnostics *diagnostics);
/* The same with one more source; all others are as in the plan `known`. */
int mr_pipeline_plan_with(mr_plan **plan, const mr_pipeline_params *params, const mr_plan *known,
                          const mr_spec_added *added, mr_diagnostics *diagnostics);

/* source_changes.c: adds a source from an option map in another file, like mr_pipeline_add_source. */
int mr_pipeline_add_node(mr_pipeline *pipeline, const char *id, const mr_yaml *node, mr_diagnostics *diagnostics);
/* The same, but replaces the source with this id and all its options. */
int mr_pipeline_set_node(mr_pipeline *pipeline, const char *id, const mr_yaml *node, mr_diagnostics *diagnostics);
/* Keeps the parameters needed to plan added sources, and the warnings that the caller has got. MR_ERROR_MEMORY. */
int mr_pipeline_keep(mr_pipeline *pipeline, const mr_pipeline_params *params, const mr_diagnostics *diagnostics);
