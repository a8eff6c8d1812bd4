/* Runs pipelines with the stage types in flow_stages.h, from text to summary. The pipeline file is called p.yaml. */
#pragma once

#include "tests/support/flow_stages.h"
#include "tests/support/sanitized.h"

/* How a pipeline file begins; and with one source, `a`, that has this many frames, up to its stages. */
#define FLOW "version: 1\npipeline: p\n"
#define FLOW_A(frames) FLOW "sources: {a: {type: count, frames: " #frames "}}\nstages:\n"

/* How many seeds to try. A seeded run has one thread, in which the thread sanitizer finds nothing. */
#define FLOW_SEEDS(count) UNDER_TSAN(2, count)

/* Opens a pipeline, which must be valid, and forgets frames collected before. `seed` is as in mr_pipeline_params: 0
 * uses threads. */
mr_pipeline *flow_open(const char *text, uint64_t seed, int workers);

/* The same; `own`, which ends with NULL, are types of the suite. Millrace's types can also be used then. */
mr_pipeline *flow_open_with(const mr_stage_type *const *own, const char *text, uint64_t seed, int workers);

/* Waits until a started pipeline has ended well. The ledger must balance with nothing in flight. The caller must
 * destroy the summary before the pipeline. */
mr_summary *flow_end(mr_pipeline *pipeline);
/* Starts it first. */
mr_summary *flow_run(mr_pipeline *pipeline);
/* Destroys both. */
void flow_close(mr_pipeline **pipeline, mr_summary **summary);

/* Checks that all `frames` arrived in order after `stages` that each add one, except those lost to device errors. */
void flow_expect(const mr_summary *summary, uint64_t frames, uint64_t stages);

/* Calls run(text, seed, workers, context) for the cpu and for a simulated accelerator, whose name replaces %s (%1$s) in
 * `format`: with seeds 1 to `seeds`, and without a seed for each worker count. */
typedef void flow_run_function(const char *text, uint64_t seed, int workers, void *context);
void flow_everywhere(const char *format, uint64_t seeds, flow_run_function *run, void *context);

/* A test that does so; its body has `text`, `seed` and `workers`. */
#define FLOW_EVERYWHERE(name, seeds, format)                                                                          \
    static void run_##name(const char *text, uint64_t seed, int workers, void *context);                              \
    TEST(name) {                                                                                                      \
        flow_everywhere(format, seeds, run_##name, NULL);                                                             \
    }                                                                                                                 \
    static void run_##name(const char *text, uint64_t seed, int workers, void *context __attribute__((unused)))

/* What a run must give. A count of frames must be exact, FLOW_SOME (at least one) or FLOW_ANY. */
#define FLOW_SOME UINT64_MAX
#define FLOW_ANY (UINT64_MAX - 1)
typedef struct flow_outcome {
    int status;
    uint64_t in; /* 0: not checked */
    uint64_t delivered, dropped, absorbed;
    uint64_t collected;         /* frames in `collection`; 0: those delivered */
    int adds;                   /* each frame's value is the number plus this; 0: not checked */
    bool unordered;             /* a source's frames need not be in order */
    const char *stage, *reason; /* the ledger's first line; NULL: any */
    void (*check)(const mr_summary *summary); /* may be NULL */
} flow_outcome;
/* Runs it once, and checks that the ledger balances and that the outcome is this. */
void flow_check(const char *text, uint64_t seed, int workers, const flow_outcome *wanted);
/* The same for seeds 1 to `seeds` and for each worker count; and for all those on both devices of flow_everywhere. */
void flow_check_all(const char *text, uint64_t seeds, const flow_outcome *wanted);
void flow_check_everywhere(const char *format, uint64_t seeds, const flow_outcome *wanted);
/* The source or stage with this id, which must exist. */
const mr_source_summary *flow_source(const mr_summary *summary, const char *id);
const mr_stage_summary *flow_stage(const mr_summary *summary, const char *id);
