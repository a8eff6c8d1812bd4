/* millrace plan: shows what a run would do, without running it. */
#include "tools/millrace/plan.h"

#include <stdio.h>

#include "engine/flow/pipeline.h"
#include "tools/millrace/overrides.h"
#include "tools/millrace/table.h"

enum { WORKERS = 256, OFFLINE, JSON, MOST_WORKERS = 1024 };

static const struct option options[] = {
    MR_OVERRIDE_OPTIONS,
    {"workers", required_argument, NULL, WORKERS},
    {"offline", no_argument, NULL, OFFLINE},
    {"json", no_argument, NULL, JSON},
    MR_USAGE_COMMON,
};

static const mr_usage usage = {
    .verb = "plan",
    .synopsis = "PIPELINE.yaml [--set KEY=VALUE]... [--input URI]... [--output FILE] [--workers N]\n"
                "                     [--offline] [--json]",
    .help = "Proves the pipeline and shows what `run` with the same options would do, to the byte: every source\n"
            "with its rate, every stage with its device, threads and batch, every link with its format and queue,\n"
            "every copy and every thread. Media are opened as far as it\n"
            "takes to know their streams, models as far as their inputs and outputs; nothing is written.\n\n"
            MR_OVERRIDE_HELP
            "  --workers N        threads that run stages; by default one for each usable core\n"
            "  --offline          opens neither media nor models: what only they tell stays open\n"
            "  --json             one JSON object: sources, stages, links, copies, processes;\n"
            "                     sizes in bytes, times in nanoseconds, null where nothing is known\n",
    .options = options,
};

typedef struct arguments {
    const char *path;
    mr_overrides overrides;
    int workers;
    bool offline, json;
} arguments;

/* Answers an exit code. */
static int take_option(arguments *to, int option) {
    long long workers;
    int code = 0;
    if (mr_overrides_take(&to->overrides, &usage, option, &code))
        return code;
    switch (option) {
    case WORKERS:
        if (!mr_parse_integer(optarg, 1, MOST_WORKERS, &workers))
            return mr_usage_error(&usage, "--workers takes a number from 1 to %d, not \"%s\"", MOST_WORKERS, optarg);
        to->workers = (int)workers;
        return 0;
    case OFFLINE:
        to->offline = true;
        return 0;
    default:
        to->json = true;
        return 0;
    }
}

/* Answers an exit code; *done where the command is over. */
static int parse(arguments *to, int argc, char **argv, bool *done) {
    int code = 0, got;
    *done = true;
    while ((got = mr_usage_next(&usage, argc, argv, &code)) != -1) {
        if (got != MR_USAGE_EXIT)
            code = take_option(to, got);
        if (got == MR_USAGE_EXIT || code)
            return code;
    }
    if (optind == argc)
        return mr_usage_error(&usage, "name a pipeline");
    if (optind + 1 < argc)
        return mr_usage_error(&usage, "one pipeline at a time: \"%s\" is left over", argv[optind + 1]);
    to->path = argv[optind];
    *done = false;
    return 0;
}

static int print_json(const mr_plan *plan) {
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    mr_json_open_map(json, NULL);
    mr_plan_put_json(json, plan);
    yajl_gen_map_close(json);
    return mr_json_finish(json, stdout);
}

static int show(const arguments *from) {
    mr_plan *plan = NULL;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {
        .types = mr_stage_types(), .path = from->path, .workers = from->workers, .offline = from->offline};
    mr_overrides_apply(&from->overrides, &params);
    int status = mr_pipeline_plan(&plan, &params, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    bool told = wrong.errors > 0;
    mr_diagnostics_fini(&wrong);
    if (!status)
        status = from->json ? print_json(plan) : mr_plan_print(plan, mr_terminal_width(stdout), stdout);
    mr_plan_destroy(&plan);
    if (status && !told)
        mr_command_failed(status);
    return mr_status_exit_code(status);
}

int mr_command_plan(int argc, char **argv) {
    arguments given = {0};
    bool done = true;
    if (mr_overrides_init(&given.overrides, argc))
        return mr_command_failed(MR_ERROR_MEMORY);
    int code = parse(&given, argc, argv, &done);
    if (!done)
        code = show(&given);
    mr_overrides_fini(&given.overrides);
    return code || done ? code : mr_flush_stdout();
}
