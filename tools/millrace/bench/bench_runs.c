#include "tools/millrace/bench/bench_runs.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNS = 5, RATE = 30, MOST_SOURCES = 10000, TYPES = 64 };

/* ---- a sink that reads the clock ------------------------------------------------------------------------------- */

/* There can be only one run at a time. A source's frame 0 leaves when the clock starts; each later frame is due at that
 * time + pts. */
static struct {
    int64_t start_ns[MOST_SOURCES];
    _Atomic int64_t worst_ns;
    _Atomic uint64_t late;
} punctuality;

static int watch_clock(mr_stage *self, mr_io *io) {
    const mr_frame *frame = mr_io_input(io);
    int64_t *start_ns = &punctuality.start_ns[frame->identity.source];
    if (frame->identity.seq == 0)
        *start_ns = frame->born_ns;
    int64_t late_ns = mr_io_now_ns(io) - *start_ns - frame->pts_ns;
    if (late_ns > punctuality.worst_ns)
        punctuality.worst_ns = late_ns;
    if (late_ns > 1000000000 / RATE)
        punctuality.late++;
    return MR_DONE;
}

static const mr_port clock_inputs[] = {{.name = "in"}, {0}};
static const mr_stage_type clock_type = {
    .name = "punctuality",
    .summary = "counts late frames",
    .inputs = clock_inputs,
    .entry = MR_ENTRY_SHARED,
    .process = watch_clock,
};

/* millrace's stage types, and the benchmark's. */
static const mr_stage_type *const *all_types(void) {
    static const mr_stage_type *types[TYPES + 2];
    size_t count = 0;
    for (const mr_stage_type *const *type = mr_stage_types(); *type && count < TYPES; type++)
        types[count++] = *type;
    types[count] = &clock_type;
    return types;
}

/* ---- pipelines ------------------------------------------------------------------------------------------------- */

/* A growing YAML text. */
typedef struct script {
    char *text;
    size_t bytes;
    FILE *stream;
} script;

static int begin(script *yaml, const char *name) {
    *yaml = (script){0};
    yaml->stream = open_memstream(&yaml->text, &yaml->bytes);
    if (!yaml->stream)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a pipeline");
    fprintf(yaml->stream, "version: 1\npipeline: %s\nsources:\n", name);
    return MR_OK;
}

/* Opens and starts the script's pipeline, and frees the script. */
static int start(script *yaml, long long workers, mr_pipeline **pipeline) {
    *pipeline = NULL;
    fclose(yaml->stream);
    mr_diagnostics wrong = {0};
    const mr_pipeline_params params = {
        .types = all_types(), .path = "bench", .text = yaml->text, .workers = (int)workers};
    int status = mr_pipeline_open(pipeline, &params, &wrong);
    if (status)
        mr_diagnostics_print(&wrong, stderr);
    if (status && wrong.errors)
        mr_fail(status, "the pipeline of the benchmark is wrong");
    mr_diagnostics_fini(&wrong);
    free(yaml->text);
    if (!status)
        status = mr_pipeline_start(*pipeline);
    if (status)
        mr_pipeline_destroy(pipeline);
    return status;
}

/* Waits for the end and destroys the pipeline; fills in *wall_s, *cpu_s and *frames. */
static int finish(mr_pipeline **pipeline, double *wall_s, double *cpu_s, uint64_t *frames, uint64_t *peak_bytes) {
    mr_summary *summary = NULL;
    int status = mr_pipeline_wait(*pipeline, -1);
    if (!status)
        status = mr_pipeline_summarize(*pipeline, &summary);
    if (!status) {
        *wall_s = summary->wall_s;
        *cpu_s = summary->cpu_s;
        *frames = summary->delivered;
        *peak_bytes = summary->peak_bytes;
        mr_summary_destroy(&summary);
    }
    mr_pipeline_destroy(pipeline);
    return status;
}

static int ascending(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/* ---- null ------------------------------------------------------------------------------------------------------ */

static int run_chain(const mr_bench_null *asked, double *wall_s, double *cpu_s) {
    script yaml;
    mr_pipeline *pipeline;
    uint64_t frames, peak_bytes;
    int status = begin(&yaml, "bench-null");
    if (status)
        return status;
    fprintf(yaml.stream, "  s: {type: \"null\", frames: %lld}\nstages:\n", asked->frames);
    fprintf(yaml.stream, "  n0: {type: \"null\", input: s}\n");
    for (long long i = 1; i < asked->stages; i++)
        fprintf(yaml.stream, "  n%lld: {type: \"null\", input: n%lld}\n", i, i - 1);
    status = start(&yaml, asked->workers, &pipeline);
    return status ? status : finish(&pipeline, wall_s, cpu_s, &frames, &peak_bytes);
}

int mr_bench_run_null(const mr_bench_params *params, mr_bench_null *result) {
    double wall_s[RUNS], cpu_s[RUNS];
    *result = (mr_bench_null){
        .frames = params->frames ? params->frames : 1000000,
        .stages = params->stages ? params->stages : 8,
        .workers = params->workers ? params->workers : 1,
        .runs = RUNS,
    };
    for (int i = 0; i < RUNS; i++) {
        int status = run_chain(result, &wall_s[i], &cpu_s[i]);
        if (status)
            return status;
    }
    qsort(wall_s, RUNS, sizeof wall_s[0], ascending);
    qsort(cpu_s, RUNS, sizeof cpu_s[0], ascending);
    double hops = (double)result->frames * (double)result->stages;
    result->wall_ns = wall_s[RUNS / 2] * 1e9 / hops;
    result->cpu_ns = cpu_s[RUNS / 2] * 1e9 / hops;
    return MR_OK;
}

/* ---- paced ----------------------------------------------------------------------------------------------------- */

int mr_bench_run_paced(const mr_bench_params *params, mr_bench_paced *result) {
    script yaml;
    mr_pipeline *pipeline;
    *result = (mr_bench_paced){
        .sources = params->sources ? params->sources : 1000,
        .seconds = params->seconds ? params->seconds : 5,
    };
    memset(&punctuality, 0, sizeof punctuality);
    int status = begin(&yaml, "bench-paced");
    if (status)
        return status;
    for (long long i = 0; i < result->sources; i++)
        fprintf(yaml.stream, "  s%lld: {type: \"null\", rate: %dfps, frames: %lld}\n", i, RATE,
                RATE * result->seconds);
    fprintf(yaml.stream, "stages:\n  a: {type: \"null\", input: sources.*}\n  b: {type: \"null\", input: a}\n"
                         "  sink: {type: punctuality, input: b}\n");
    double wall_s, cpu_s;
    uint64_t peak_bytes;
    status = start(&yaml, params->workers, &pipeline);
    if (!status)
        status = finish(&pipeline, &wall_s, &cpu_s, &result->frames, &peak_bytes);
    if (status)
        return status;
    result->cpu_per_second = cpu_s / wall_s;
    result->late = punctuality.late;
    result->worst_ms = (double)punctuality.worst_ns * 1e-6;
    result->peak_mib = (double)peak_bytes / (1024 * 1024);
    return MR_OK;
}

/* ---- soak ------------------------------------------------------------------------------------------------------ */

static double resident_mib(void) {
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%*s %lld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1024 * 1024);
}

typedef struct sample {
    uint64_t frames, allocations;
    double resident;
} sample;

static int take_sample(mr_pipeline *pipeline, sample *taken) {
    mr_summary *summary = NULL;
    int status = mr_pipeline_summarize(pipeline, &summary);
    if (status)
        return status;
    *taken = (sample){summary->delivered, summary->allocations, resident_mib()};
    mr_summary_destroy(&summary);
    return MR_OK;
}

/* Takes the first sample after a tenth of the frames: every buffer must have been allocated by then. */
static int watch(mr_pipeline *pipeline, uint64_t frames, sample *first, sample *last) {
    int status, failed = MR_OK;
    while ((status = mr_pipeline_wait(pipeline, 10000000)) == MR_ERROR_AGAIN && !failed)
        if (first->frames < frames / 10)
            failed = take_sample(pipeline, first);
    if (!failed)
        failed = take_sample(pipeline, last);
    return status ? status : failed;
}

int mr_bench_run_soak(const mr_bench_params *params, mr_bench_soak *result) {
    script yaml;
    mr_pipeline *pipeline;
    long long frames = params->frames ? params->frames : 100000;
    *result = (mr_bench_soak){0};
    int status = begin(&yaml, "bench-soak");
    if (status)
        return status;
    fprintf(yaml.stream,
            "  s: {type: \"null\", frames: %lld, format: I420 320x240}\n"
            "stages:\n  preprocess: {input: s, size: 64x64}\n"
            "  sink: {type: jsonl, input: preprocess, path: /dev/null}\n",
            frames);
    status = start(&yaml, params->workers, &pipeline);
    if (status)
        return status;
    sample first = {0}, last = {0};
    status = watch(pipeline, (uint64_t)frames, &first, &last);
    mr_pipeline_destroy(&pipeline);
    if (status)
        return status;
    /* A summary allocates too, but only a handful of blocks, and few summaries are taken between the samples. */
    result->frames = last.frames;
    result->growth_mib = last.resident - first.resident;
    result->resident_mib = last.resident;
    if (last.frames > first.frames)
        result->allocations = (double)(last.allocations - first.allocations) / (double)(last.frames - first.frames);
    return MR_OK;
}
