/* millrace bench: measures the engine itself. The scripts in tools/bench compare other programs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "millrace/devices.h"
#include "tools/millrace/bench/bench_runs.h"
#include "tools/millrace/bench/ops_report.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/verbs.h"

typedef struct request {
    mr_bench_params params;
    mr_ops_request ops;
    bool as_json;
} request;

static int check_device(void *to, char *text) {
    return mr_device_check_name(text);
}

static const mr_usage_option words[] = {
    MR_WORD("null", NULL,
            "what a frame costs on its way through a stage that does nothing: 1,000,000 frames through 8 null stages "
            "on one worker, the median of 5 runs"),
    MR_WORD("paced", NULL,
            "1,000 sources with 30 frames a second for 5 seconds through two null stages: CPU time and how many frames "
            "came late"),
    MR_WORD("soak", NULL,
            "100,000 pictures through preprocess and jsonl: growth of memory and allocations per frame"),
    MR_WORD("ops", NULL,
            "every operation on every device. The limits of the device come first (moving memory, multiplying "
            "matrices, copies from and to pinned memory, a launch). Then each kernel, copy, network and codec follows "
            "with the share of the measured time that its bytes, or the arithmetic of a network, take at least"),
    {.name = NULL},
};

static const mr_usage_option options[] = {
    MR_OPTION_NUMBER("frames", "N", request, params.frames, 1, 1000000000, "null, soak: how many frames"),
    MR_OPTION_NUMBER("stages", "N", request, params.stages, 1, 500, "null: how many stages in a row"),
    MR_OPTION_NUMBER("sources", "N", request, params.sources, 1, 10000, "paced: how many sources"),
    MR_OPTION_NUMBER("seconds", "N", request, params.seconds, 1, 3600,
                     "paced: how long; ops: how long for each operation, a quarter of a second by default"),
    MR_OPTION_NUMBER("workers", "N", request, params.workers, 1, 1024, "null, paced, soak: threads that run stages"),
    MR_OPTION("device", "NAME", request, ops.devices,
              "ops: cpu, cuda:N or sim:N (with simulated times). The default is the processors and every GPU that can "
              "be used", .take = check_device),
    MR_OPTION("model", "FILE", request, ops.models, "ops: a network to measure, an ONNX file"),
    MR_OPTION("only", "PATTERN", request, ops.only,
              "ops: only limits and operations with a matching name; * stands for any text, ? for any character"),
    MR_OPTION("json", NULL, request, as_json, "the figures as one JSON object"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"null --workers 1", "paced --sources 200 --json",
                                       "ops --only 'preprocess-*'",
                                       "ops --device cpu --device 'sim:0?like=h100' --json", NULL};

static const mr_usage usage = {
    .verb = "bench",
    .synopsis = "null|paced|soak|ops",
    .help = "Measures the engine itself.",
    .words = words,
    .options = options,
    .examples = examples,
};

/* Prints each figure, for people and as JSON. */
typedef struct figure {
    const char *key, *unit;
    double value;
} figure;

static int print(const char *name, const figure *figures, size_t count, bool as_json) {
    if (!as_json) {
        printf("bench %s\n", name);
        for (size_t i = 0; i < count; i++)
            printf("  %-24s %12.*f %s\n", figures[i].key, figures[i].value == floor(figures[i].value) ? 0 : 4,
                   figures[i].value, figures[i].unit);
        return mr_flush_stdout();
    }
    yajl_gen json = mr_json_create(false);
    if (!json)
        return mr_command_failed(MR_ERROR_MEMORY);
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "bench", name);
        for (size_t i = 0; i < count; i++)
            mr_json_number(json, figures[i].key, figures[i].value);
    }
    int status = mr_json_finish(json, stdout);
    return status ? mr_command_failed(status) : 0;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The arguments. */
static int bench_null(request *asked) {
    mr_bench_null got;
    int status = mr_bench_run_null(&asked->params, &got);
    if (status)
        return mr_command_failed(status);
    const figure figures[] = {
        {"frames", "", (double)got.frames},
        {"stages", "", (double)got.stages},
        {"workers", "", (double)got.workers},
        {"wall_ns_per_hop", "ns a frame and stage", got.wall_ns},
        {"cpu_ns_per_hop", "ns a frame and stage", got.cpu_ns},
    };
    return print("null", figures, COUNT(figures), asked->as_json);
}

static int bench_paced(request *asked) {
    mr_bench_paced got;
    int status = mr_bench_run_paced(&asked->params, &got);
    if (status)
        return mr_command_failed(status);
    const figure figures[] = {
        {"sources", "", (double)got.sources},
        {"seconds", "s", (double)got.seconds},
        {"frames", "", (double)got.frames},
        {"cpu_s_per_s", "CPU-seconds a second", got.cpu_per_second},
        {"late_frames", "more than 33.3 ms late", (double)got.late},
        {"worst_ms", "ms late at most", got.worst_ms},
        {"peak_mib", "MiB", got.peak_mib},
    };
    return print("paced", figures, COUNT(figures), asked->as_json);
}

static int bench_soak(request *asked) {
    mr_bench_soak got;
    int status = mr_bench_run_soak(&asked->params, &got);
    if (status)
        return mr_command_failed(status);
    const figure figures[] = {
        {"frames", "", (double)got.frames},
        {"resident_mib", "MiB at the end", got.resident_mib},
        {"growth_mib", "MiB since a tenth was done", got.growth_mib},
        {"allocations_per_frame", "blocks of millrace's own", got.allocations},
    };
    return print("soak", figures, COUNT(figures), asked->as_json);
}

static int bench_ops(request *asked) {
    return mr_bench_ops(&usage, &asked->ops, asked->params.seconds, asked->as_json);
}

static const struct {
    const char *name;
    int (*run)(request *asked);
} benches[] = {{"null", bench_null}, {"paced", bench_paced}, {"soak", bench_soak}, {"ops", bench_ops}};

static int unknown(const char *name) {
    mr_nearest nearest = {.wanted = name};
    char hint[128];
    for (size_t i = 0; i < COUNT(benches); i++)
        mr_nearest_offer(&nearest, benches[i].name);
    return mr_usage_error(&usage, "unknown benchmark \"%s\"; %s", name,
                          mr_nearest_hint(&nearest, hint, sizeof hint, "there are null, paced, soak and ops"));
}

static int run_named(request *asked, const char *name) {
    for (size_t i = 0; i < COUNT(benches); i++)
        if (strcmp(name, benches[i].name) == 0)
            return benches[i].run(asked);
    return unknown(name);
}

static int run_verb(int argc, char **argv) {
    int code = 0;
    request asked = {0};
    if (mr_usage_take(&usage, argc, argv, &asked, &code))
        code = optind + 1 == argc ? run_named(&asked, argv[optind])
                                  : mr_usage_error(&usage, "name one benchmark: null, paced, soak or ops");
    mr_words_fini(&asked.ops.devices);
    mr_words_fini(&asked.ops.models);
    return code;
}

const mr_verb mr_bench_verb = {&usage, "measure the engine itself, and every operation", run_verb};
