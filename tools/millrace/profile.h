/* Profiling: a pipeline runs for a few seconds, its sinks writing nowhere, and what that has cost is worked out.
 *
 * Costs are taken between two looks at the running pipeline: the first when a frame has been delivered, so that
 * loading and the first fill of the queues do not count, the second when the time is up, though not before a few
 * frames have come through, or the pipeline has ended.
 *
 * Processor time of a stage is what the engine's threads spent inside it, by their own clocks, and its share of what
 * threads of libraries and devices spent: all of that is the process's time less that of the engine's threads and the
 * caller's. It is shared out among the stages that have such threads, in proportion to the time spent inside them,
 * since their callers wait for those threads. */
#ifndef MILLRACE_TOOLS_PROFILE_H
#define MILLRACE_TOOLS_PROFILE_H

#include "engine/base/json.h"
#include "engine/config/plan.h"
#include "millrace/millrace.h"

/* What a vertex of the plan has cost. */
typedef struct mr_stage_cost {
    uint64_t frames;    /* that it took; of a source, gave */
    double cpu_ns;      /* processor time a frame */
    double inside_ns;   /* time a frame inside the stage, waiting included; a batch counts in parts */
    double device_ns;   /* time a frame of its devices, all together; 0: it has none but the processors */
    double cpu_share;   /* of the processor time of the process, 0 to 1 */
    double utilisation; /* of what its threads can do, 0 to 1 */
} mr_stage_cost;

typedef enum mr_bottleneck {
    MR_BOTTLENECK_SOURCES,    /* they give no more, by the clock, and all keeps up */
    MR_BOTTLENECK_PROCESSORS, /* all cores are busy; `stage` uses them most */
    MR_BOTTLENECK_STAGE       /* the threads of `stage` are busy while cores are free */
} mr_bottleneck;

typedef struct mr_profile {
    double seconds;     /* between the two looks */
    double first_s;     /* from the start to the first delivered frame; 0: none was */
    bool ended;         /* the pipeline came to its end */
    uint64_t frames;    /* source frames of which is known what became of them, between the looks */
    uint64_t dropped;   /* of them */
    double cores;       /* of processors, on average */
    double rate;        /* frames a second: what a run is expected to do */
    double most_rate;   /* what it could do with the cores to itself if sources gave more; at least `rate` */
    double run_s;       /* how long a run is expected to take; 0: not known, or without end */
    mr_bottleneck bottleneck;
    const char *stage;
    uint64_t peak_bytes, buffer_bytes; /* of the process, resident; of it pools (host and pinned memory) */
    mr_stage_cost *costs; /* by vertex */
    size_t deadlines;     /* sources that have one */
    mr_diagnostics late;  /* warnings: those that cannot be met */
} mr_profile;

/* Runs it. `pipeline` was opened with mr_pipeline_params.profile and is not started; it has ended afterwards. */
int mr_profile_measure(mr_profile *profile, mr_pipeline *pipeline, double seconds);
void mr_profile_fini(mr_profile *profile);

/* profile_text.c: tables for people, and the member "profile" of an object. */
int mr_profile_print(const mr_profile *profile, const mr_plan *plan, int width, FILE *stream);
void mr_profile_put_json(yajl_gen json, const mr_profile *profile, const mr_plan *plan);

#endif
