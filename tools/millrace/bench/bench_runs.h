/* What `millrace bench` measures: each function makes a pipeline from null stages in memory, runs it and sums it up. */
#pragma once

#include "millrace/millrace.h"

typedef struct mr_bench_params {
    long long frames, stages, sources, seconds, workers; /* 0: the measurement's default */
} mr_bench_params;

/* `frames` frames through `stages` null stages in a row, several times over; the values are medians. */
typedef struct mr_bench_null {
    long long frames, stages, workers;
    int runs;
    double wall_ns, cpu_ns; /* for one frame and hop; a hop is one frame through one stage */
} mr_bench_null;
int mr_bench_run_null(const mr_bench_params *params, mr_bench_null *result);

/* `sources` sources of 30 frames a second for `seconds`, through two null stages and a sink that reads the clock. */
typedef struct mr_bench_paced {
    long long sources, seconds;
    uint64_t frames;
    uint64_t late;           /* frames that arrived more than one frame (33.3 ms) after they were due */
    double cpu_per_second;   /* CPU-seconds in each second */
    double worst_ms;         /* the latest frame's delay */
    double peak_mib;
} mr_bench_paced;
int mr_bench_run_paced(const mr_bench_params *params, mr_bench_paced *result);

/* `frames` pictures through preprocess into jsonl, from when a tenth of them was done to the end. */
typedef struct mr_bench_soak {
    uint64_t frames;
    double growth_mib;       /* resident memory */
    double allocations;      /* by millrace itself, per frame */
    double resident_mib;     /* at the end */
} mr_bench_soak;
int mr_bench_run_soak(const mr_bench_params *params, mr_bench_soak *result);
