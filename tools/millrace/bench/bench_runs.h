/* The measurements for `millrace bench`. Each function makes a pipeline from null stages in memory, runs it and
 * summarises it. */
#pragma once

#include "millrace/millrace.h"

typedef struct mr_bench_params {
    long long frames, stages, sources, seconds, workers; /* 0: the measurement's default */
} mr_bench_params;

/* Sends `frames` frames through a chain of `stages` null stages, several times; the values are medians. */
typedef struct mr_bench_null {
    long long frames, stages, workers;
    int runs;
    double wall_ns, cpu_ns; /* per frame and hop; a hop is one frame through one stage */
} mr_bench_null;
int mr_bench_run_null(const mr_bench_params *params, mr_bench_null *result);

/* Runs `sources` sources with 30 frames a second for `seconds`, through two null stages and a sink that reads the
 * clock. */
typedef struct mr_bench_paced {
    long long sources, seconds;
    uint64_t frames;
    uint64_t late;           /* frames that arrived more than one frame time (33.3 ms) late */
    double cpu_per_second;   /* CPU seconds per second */
    double worst_ms;         /* the largest delay */
    double peak_mib;
} mr_bench_paced;
int mr_bench_run_paced(const mr_bench_params *params, mr_bench_paced *result);

/* Sends `frames` pictures through preprocess into jsonl. Measures from a tenth of them to the end. */
typedef struct mr_bench_soak {
    uint64_t frames;
    double growth_mib;       /* resident memory */
    double allocations;      /* by millrace's code, per frame */
    double resident_mib;     /* at the end */
} mr_bench_soak;
int mr_bench_run_soak(const mr_bench_params *params, mr_bench_soak *result);
