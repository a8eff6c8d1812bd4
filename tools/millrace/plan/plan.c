/* millrace plan: shows a run's plan, without running it. */
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/http/listener.h"
#include "tools/millrace/plan/plan_parts.h"
#include "tools/millrace/plan/plan_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/temp_folder.h"
#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/cli/overrides.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/models/scaling.h"
#include "tools/millrace/plan/profile.h"
#include "tools/millrace/run/signals.h"

static const double default_seconds = 5, least_seconds = 0.1, most_seconds = 86400;

typedef struct arguments {
    const char *path, *node;
    mr_overrides overrides;
    double seconds; /* how long to profile; 0: not at all */
    bool offline, json, deny;
} arguments;

static int take_seconds(void *to, char *text) {
    double *seconds = to;
    *seconds = default_seconds;
    if (!text || mr_parse_number(text, least_seconds, most_seconds, seconds))
        return MR_OK;
    return mr_fail(MR_ERROR_USAGE, "takes seconds from %g to %g, not \"%s\"", least_seconds, most_seconds,
                   text);
}

static const mr_usage_option options[] = {
    MR_OVERRIDE_OPTIONS,
    MR_OVERRIDE_ALLOWING_PLUGINS,
    MR_OVERRIDE_ASSUMPTIONS,
    MR_OVERRIDE_PLACING,
    MR_OVERRIDE_THREADS,
    MR_OPTION("node", "NAME", arguments, node, "shows only this one of the pipeline's nodes"),
    MR_OPTION("offline", NULL, arguments, offline,
              "opens no media and no models, and connects to no stream. Their formats stay unknown"),
    MR_OPTION_TAKE("profile", "[SECONDS]", arguments, seconds, take_seconds,
                   "runs the pipeline for SECONDS (5 by default), or to its end, without writing output. It adds "
                   "measurements: the cost of each stage, the memory of libraries, the bottleneck, changes that may "
                   "help, and the frame rate to expect from a run. Processor time of library threads is divided among "
                   "the stages that use them, in proportion to the time spent in these stages"),
    MR_COMPLAINTS_OPTIONS,
    MR_OPTION("json", NULL, arguments, json,
              "one JSON object: sources, stages, links, copies, processes, devices, memory, expected, profile. Sizes "
              "are in bytes, times in nanoseconds or seconds as their names show, rates in frames a second, shares "
              "from 0 to 1. An unknown value is null"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {
    "pipeline.yaml --workers 2",
    "pipeline.yaml --input lobby.mp4 --profile 30 --json > costs.json",
    "pipeline.yaml --assume cuda:2x24GiB --set stages.features.device=auto",
    "pipeline.yaml --assume cuda:1xH100 --set stages.preprocess.device=cuda:0", NULL};

static const mr_usage usage = {
    .verb = "plan",
    .synopsis = "PIPELINE.yaml",
    .help = "Proves the pipeline and shows what `run` with the same options would do: each source with its rate, each "
            "stage with its device, threads and batch, each link with its format and queue, each copy, each thread, "
            "and for each pool of memory the most and the likely number of bytes.\n"
            "For cards with known figures (--assume cuda:1xH100, or sim:0?like=h100) it adds the frame rate that a "
            "model of the card predicts, and what limits it.\n"
            "Media are opened only to find their streams, models only to find their inputs and outputs. Nothing is "
            "written.",
    .options = options,
    .examples = examples,
};

static bool parse(arguments *to, int argc, char **argv, int *code) {
    if (!mr_usage_take(&usage, argc, argv, to, code) ||
        !(to->path = mr_usage_pipeline(&usage, argc, argv, code)))
        return false;
    if (to->seconds > 0 && (to->offline || to->overrides.assume.count))
        *code = mr_usage_error(&usage, "--profile runs the pipeline, which excludes %s",
                               to->offline ? "--offline" : "--assume");
    else if (to->seconds > 0 && to->node)
        *code = mr_usage_error(&usage, "--profile runs all stages in one process: remove --node");
    return !*code;
}

static int print_json(const mr_plan_view *plan, const mr_profile *profile, const mr_plan_view *measured) {
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_plan_put_json(json, plan);
        if (profile)
            mr_profile_put_json(json, profile, measured);
    }
    return mr_json_finish(json, stdout);
}

/* `profile` may be NULL; it comes with the plan that was measured. */
static int print(const arguments *from, const mr_plan_view *plan, const mr_profile *profile,
                 const mr_plan_view *measured) {
    int width = mr_terminal_width(stdout);
    if (from->json)
        return print_json(plan, profile, measured);
    int status = mr_plan_print(plan, width, stdout);
    if (!profile)
        mr_print_wrapped(width, stdout, "libraries and models take more: --profile measures how much");
    else if (!status)
        status = mr_profile_print(profile, measured, width, stdout);
    if (!status && profile && plan != measured)
        mr_print_wrapped(width, stdout, "all of this was measured in one process: cuts take time and memory beside it, "
                                        "and each process has its own threads");
    return status;
}

static mr_pipeline_params params_of(const arguments *from) {
    mr_pipeline_params params = {
        .path = from->path, .offline = from->offline, .connect = from->seconds <= 0,
        .node = from->node};
    /* The profiled pipeline runs in this process. */
    params.cuts = from->seconds <= 0;
    mr_overrides_apply(&from->overrides, &params);
    return params;
}

/* ---- the plan alone -------------------------------------------------------------------------------------------- */

static int show(const arguments *from) {
    const mr_plan_view *plan = NULL;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = params_of(from);
    int status = mr_plan_view_open(&plan, &params, &wrong);
    status = status ? status : mr_scaling_check(plan, &wrong);
    status = mr_complaints_tell(&wrong, status, from->deny);
    mr_diagnostics_fini(&wrong);
    int code = mr_status_exit_code(status);
    if (!status) {
        status = from->offline ? MR_OK : mr_http_check_files(mr_plan_view_http(plan));
        status = status ? status : print(from, plan, NULL, NULL);
        code = status ? mr_command_failed(status) : code;
    }
    mr_plan_view_close(&plan);
    return code;
}

/* ---- with a profile -------------------------------------------------------------------------------------------- */

static int measure(const arguments *from, mr_pipeline *pipeline, const mr_plan_view *plan, mr_profile *profile) {
    int status = mr_plan_refuse_external(plan);
    if (status)
        return status;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "millrace: profiling for %g s\n", from->seconds);
    mr_signals_watch(pipeline);
    status = mr_profile_measure(profile, pipeline, plan, from->seconds);
    mr_signals_watch(NULL);
    return status == MR_ERROR_CANCELLED ? mr_fail(status, "interrupted: nothing was measured") : status;
}

/* The plan for several processes, for a pipeline that was measured in one. The single process's plan has already
 * printed all diagnostics. NULL: there are no nodes. */
static int plan_nodes(const arguments *from, const mr_plan_view *measured, const mr_plan_view **plan) {
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = params_of(from);
    params.cuts = true;
    *plan = NULL;
    if (measured->written_nodes == 0)
        return MR_OK;
    int status = mr_plan_view_open(plan, &params, &wrong);
    if (status)
        mr_complaints_tell(&wrong, status, from->deny);
    mr_diagnostics_fini(&wrong);
    return status;
}

static int measure_and_print(const arguments *from, mr_pipeline *pipeline, const mr_plan_view *plan,
                             const mr_plan_view *nodes) {
    mr_profile profile = {0};
    int status = measure(from, pipeline, plan, &profile);
    status = status ? status : print(from, nodes ? nodes : plan, &profile, plan);
    int code = status ? mr_command_failed(status)
                      : mr_status_exit_code(mr_complaints_tell(&profile.late, MR_OK, from->deny));
    mr_profile_fini(&profile);
    return code;
}

static int profile_in(const arguments *from, const char *folder) {
    mr_pipeline *pipeline = NULL;
    const mr_plan_view *plan = NULL, *nodes = NULL;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = params_of(from);
    params.profile = folder;
    int status = mr_pipeline_open(&pipeline, &params, &wrong);
    status = status ? status : mr_scaling_check_pipeline(pipeline, &wrong);
    status = mr_complaints_tell(&wrong, status, from->deny);
    mr_diagnostics_fini(&wrong);
    status = status ? status : mr_pipeline_view(pipeline, &plan);
    status = status ? status : plan_nodes(from, plan, &nodes);
    int code = status ? mr_status_exit_code(status) : measure_and_print(from, pipeline, plan, nodes);
    mr_plan_view_close(&nodes);
    mr_plan_view_close(&plan);
    mr_pipeline_destroy(&pipeline);
    return code;
}

/* Stages that write into folders get a temporary one, which is removed afterwards. */
static int profile_aside(const arguments *from) {
    mr_temp_folder temp;
    int status = mr_temp_folder_make(&temp, NULL);
    if (status)
        return mr_command_failed(status);
    int code = profile_in(from, temp.folder);
    mr_temp_folder_remove(&temp);
    return code;
}

static int profile(const arguments *from) {
    if (mr_signals_begin(0))
        return mr_command_failed(MR_ERROR_INTERNAL);
    int code = profile_aside(from);
    mr_signals_end();
    return mr_signals_code(code);
}

static int run_verb(int argc, char **argv) {
    arguments given = {.overrides.no_plugins = true};
    int code = 0;
    const bool goes_on = parse(&given, argc, argv, &code);
    if (goes_on)
        code = given.seconds > 0 ? profile(&given) : show(&given);
    mr_overrides_fini(&given.overrides);
    return code || !goes_on ? code : mr_flush_stdout();
}

const mr_verb mr_plan_verb = {&usage, "show all that a run would do: stages, links, copies, memory, threads", run_verb};
