/* The plan: a pipeline after everything is decided. spec -> plan -> graph.
 *
 * mr_plan_create resolves stage types, links, devices, instance counts, formats (through each type's negotiate, in
 * topological order), queue lengths and buffer counts. It reports all errors at once and moves nothing. The plan owns
 * its memory and, through `spec`, the options and strings it points to. It is immutable once created. */
#ifndef MILLRACE_CONFIG_PLAN_H
#define MILLRACE_CONFIG_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/config/spec.h"
#include "millrace/stage.h"

/* One arrow of the graph: from an output port of one vertex to an input port of another. */
typedef struct mr_plan_edge {
    int from, from_port; /* vertex, output port */
    int to, to_port;     /* vertex, input port (index into its `inputs`) */
} mr_plan_edge;        /* it carries what the output port gives: vertices[from].outputs[from_port].set */

/* How many buffers the pool behind output 0 of one instance needs, so that links fill up before it runs dry:
 *
 *     retained (negotiated) + in_flight * batch + the sum over consumers of
 *         queue * sources of this instance
 *         + in_flight * batch of each instance of the consumer that these sources reach
 *
 * and again the same for the consumers of a consumer that may send frames on in the buffers they came in, that is,
 * one with an output of the same kind as its input.
 *
 * What is decided where the YAML says nothing: one frame a call, four frames of each source in a queue (32 of packets
 * or results, which are small; in any case one batch, and before a join as many as the batches on the way there gather), two calls in flight for
 * each worker that may be in a stage, device cpu, block, drop.
 *
 * A source or stage. Sources come first, then stages in topological order. */
typedef struct mr_plan_vertex {
    const char *id;
    const mr_stage_type *type;
    const void *options;
    const char *place;              /* "file:line:column" */
    mr_place mark;
    bool is_source;
    uint32_t source;                /* sources: 0, 1, ... */
    char device[32];                /* "cpu", "sim:0", ... */
    const char *device_reason;      /* why, where the YAML left the choice to the planner; else NULL */
    mr_entry entry;
    bool blocking;
    int threads;                    /* of libraries, for one instance */
    int entries;                    /* workers that may be in it at once; > 1 only for MR_ENTRY_STATELESS */
    int in_flight;                  /* slots of one instance */
    int batch;                      /* most frames of one call; 1 without `batch:` */
    int64_t batch_timeout_ns;
    int queue;                      /* frames of one source that each input link holds */
    mr_policy policy;               /* of its input links when full */
    mr_on_error on_error;
    int output_buffers;             /* for output 0 of one instance; see above */
    size_t input_count;
    const mr_planned_input *inputs; /* one for each input port that is used; merged links stand behind one port */
    double rate;                    /* sources: frames a second it offers; 0: as fast as possible, or unknown */
    bool paced;                     /* sources: it keeps to that rate */
    int64_t frames;                 /* sources: how many will come; 0: unknown */
    size_t output_count;
    mr_planned_output *outputs;
    mr_format *formats;             /* one for each output: what all its frames have in common */
    size_t source_count;            /* which sources' frames come here */
    const uint32_t *sources;        /* ascending */
} mr_plan_vertex;

typedef struct mr_plan {
    const mr_spec *spec;
    const char *name;
    int workers;
    size_t source_count;
    size_t vertex_count;            /* sources included */
    mr_plan_vertex *vertices;
    size_t edge_count;
    mr_plan_edge *edges;            /* by `to`, then in the order of the YAML */
    mr_arena arena;                 /* private: all of the above but the spec */
} mr_plan;

typedef struct mr_plan_params {
    int workers;                    /* 0: as the spec says, else one for each usable core */
    bool offline;
    bool deterministic;             /* no threads: nothing blocking, one entry a stage */
} mr_plan_params;

/* The plan takes `spec` over on success only. A broken spec (spec.h) is checked as far as it goes and then refused.
 * The status is the first error's of `diagnostics`. */
int mr_plan_create(mr_plan **plan, mr_spec *spec, const mr_plan_params *params, mr_diagnostics *diagnostics);
/* Both steps at once: every error of the text and of the graph is in `diagnostics`, sorted by place. */
int mr_plan_load(mr_plan **plan, const mr_spec_params *spec, const mr_plan_params *params,
                 mr_diagnostics *diagnostics);
void mr_plan_destroy(mr_plan **plan);

#endif
