/* Profiles a pipeline: runs it for a few seconds, with sinks that write nowhere, and computes costs.
 *
 * Costs are differences between two summaries of the running pipeline. The first is taken when a frame has been
 * delivered, so that loading and the first queue fill do not count. The second is taken when the time is up and a few
 * frames have come through, or when the pipeline has ended.
 *
 * A stage's processor time has two parts. One is the engine threads' time inside it, by their clocks. The other is a
 * share of the time of library and device threads: the process's time minus the engine threads' and the caller's. It is
 * divided among the stages that have such threads, in proportion to the time spent inside them, because their callers
 * wait for those threads. */
#pragma once

#include "engine/base/json.h"
#include "millrace/millrace.h"
#include "millrace/plan.h"

/* The cost of a vertex in the plan. */
typedef struct mr_stage_cost {
    uint64_t frames;    /* inputs; for a source, outputs */
    double cpu_ns;      /* processor time per frame */
    double inside_ns;   /* time inside the stage per frame, waiting included; a batch is divided among the frames */
    double device_ns;   /* device time per frame, all devices together; 0: only processors */
    double cpu_share;   /* fraction of the process's processor time, 0 to 1 */
    double utilisation; /* fraction of its threads' capacity, 0 to 1 */
    double inside;      /* fraction of the time, 0 to 1, that threads were inside it, waiting for a core included */
    bool few;           /* fewer threads may be inside it than there are cores and workers */
} mr_stage_cost;

typedef enum mr_bottleneck {
    MR_BOTTLENECK_SOURCES,    /* source clocks set the rate, and all stages keep up */
    MR_BOTTLENECK_PROCESSORS, /* all cores are busy; `stage` uses them most */
    MR_BOTTLENECK_STAGE,      /* `stage`'s threads are busy while cores are free */
    MR_BOTTLENECK_DEVICE,     /* a device, other than the processors, is busy; `stage` uses it most */
    MR_BOTTLENECK_WORKERS,    /* all workers are busy, and there are fewer workers than cores */
    MR_BOTTLENECK_OTHERS,     /* threads wait for cores that other processes use */
    MR_BOTTLENECK_UNCLEAR     /* nothing is busy all the time; `stage` is busier than the others */
} mr_bottleneck;

/* A change that would make it faster. */
enum { MR_MOST_CURES = 4, MR_CURE_TEXT = 96, MR_CURE_WHY = 192, MR_CURE_BATCH = 8 };
typedef struct mr_cure {
    const char *stage;      /* the stage that has the key; NULL: a pipeline key */
    char set[MR_CURE_TEXT]; /* as YAML: "in_flight: 4" */
    char why[MR_CURE_WHY];
    double rate;            /* frames a second to expect then; 0: not known */
} mr_cure;

typedef struct mr_profile {
    double seconds;     /* between the two summaries */
    double first_s;     /* from the start to the first delivered frame; 0: none was */
    bool ended;         /* the pipeline ended by itself */
    uint64_t frames;    /* source frames that were settled between the summaries */
    uint64_t dropped;   /* of these */
    double cores;       /* processors, on average */
    double waiting;     /* threads that waited for a core that another thread or process used, on average */
    double rate;        /* frames a second: a run's expected rate */
    double most_rate;   /* the rate with the cores to itself if sources had more frames; at least `rate` */
    double run_s;       /* how long a run will take; 0: not known, or endless */
    mr_bottleneck bottleneck;
    const char *stage;
    size_t cure_count;
    mr_cure cures[MR_MOST_CURES];
    uint64_t peak_bytes, buffer_bytes; /* the process's, resident; within it pools (host and pinned memory) */
    mr_stage_cost *costs; /* by vertex */
    size_t deadlines;     /* sources that have one */
    mr_diagnostics late;  /* warnings: those that cannot be met */
} mr_profile;

/* Runs a pipeline that was opened with mr_pipeline_params.profile and is not started. It has ended afterwards. */
int mr_profile_measure(mr_profile *profile, mr_pipeline *pipeline, const mr_plan_view *plan, double seconds);
void mr_profile_fini(mr_profile *profile);

/* cures.c: finds the limit and cures. `keeps_up`: sources keep to a clock, and almost no frame was dropped. */
void mr_profile_find_bottleneck(mr_profile *profile, const mr_plan_view *plan, bool keeps_up);
void mr_profile_find_cures(mr_profile *profile, const mr_plan_view *plan);

/* profile_text.c: tables for people, and an object's member "profile". */
int mr_profile_print(const mr_profile *profile, const mr_plan_view *plan, int width, FILE *stream);
void mr_profile_put_json(yajl_gen json, const mr_profile *profile, const mr_plan_view *plan);
