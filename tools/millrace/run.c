/* millrace run: runs one pipeline to its end. */
#include <stdio.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/flow/pipeline.h"
#include "stages/output.h"
#include "tools/millrace/complaints.h"
#include "tools/millrace/control.h"
#include "tools/millrace/overrides.h"
#include "tools/millrace/plan.h"
#include "tools/millrace/progress.h"
#include "tools/millrace/run_audit.h"
#include "tools/millrace/signals.h"
#include "tools/millrace/summary.h"

enum { WORKERS = 256, TRACE, AUDIT, RESUME, CONTROL, LOG, QUIET, JSON, MOST_WORKERS = 1024 };
/* How often the progress line is renewed. */
static const int64_t refresh_ns = 200000000;

static const struct option options[] = {
    MR_OVERRIDE_OPTIONS,
    MR_OVERRIDE_PLACING,
    MR_COMPLAINTS_OPTIONS,
    {"workers", required_argument, NULL, WORKERS},
    {"trace", required_argument, NULL, TRACE},
    {"audit", required_argument, NULL, AUDIT},
    {"resume", required_argument, NULL, RESUME},
    {"control", required_argument, NULL, CONTROL},
    {"log", required_argument, NULL, LOG},
    {"quiet", no_argument, NULL, QUIET},
    {"json", no_argument, NULL, JSON},
    MR_USAGE_COMMON,
};

static const mr_usage usage = {
    .verb = "run",
    .synopsis = "PIPELINE.yaml [--set KEY=VALUE]... [--input URI]... [--output FILE] [--workers N]\n"
                "                    [--costs FILE] [--trace FILE] [--resume FILE] [--audit FILE] [--log LEVEL]\n"
                "                    [--control PATH] [--quiet] [--json] [--deny-warnings]",
    .help = "Proves the pipeline, runs it to its end and accounts for every frame. On a terminal it shows its\n"
            "progress and a summary; in a pipe it prints only results, and after a failure the ledger.\n\n"
            MR_OVERRIDE_HELP
            MR_OVERRIDE_PLACING_HELP
            MR_COMPLAINTS_HELP
            "  --workers N        threads that run stages; by default one for each usable core\n"
            "  --trace FILE       writes what each thread and device did when, for ui.perfetto.dev or\n"
            "                     chrome://tracing\n"
            "  --resume FILE      keeps a checkpoint in FILE, and goes on from it where it is there: after a crash\n"
            "                     no record is written twice and none is missing\n"
            "  --audit FILE       appends to a log, as lines of JSON, what ran, who connected or was refused, and what\n"
            "                     was changed\n"
            "  --control PATH     where `millrace ctl` reaches this run: a socket in a folder of one's own; \"off\" is\n"
            "                     nowhere. By default $XDG_RUNTIME_DIR/millrace/PID.sock, where there is that folder\n"
            "  --log LEVEL        error, warning (the default), info or debug\n"
            "  --quiet            no progress and no summary\n"
            "  --json             prints the summary as one JSON object on standard output, or on standard\n"
            "                     error where results go to standard output\n\n"
            "SIGUSR1 prints the summary so far on standard error. SIGINT (Ctrl-C) and SIGTERM end the sources and\n"
            "deliver what is in flight, with exit code 0; the second one exits at once. Of several failures the\n"
            "exit code is the first one's.\n",
    .options = options,
};

typedef struct arguments {
    const char *path, *trace, *audit, *resume, *control;
    mr_overrides overrides;
    int workers;
    bool quiet, json, deny;
} arguments;

/* ---- the command line ------------------------------------------------------------------------------------------ */

/* Answers an exit code. */
static int take_option(arguments *to, int option) {
    long long workers;
    mr_log_level level;
    int code = 0;
    if (mr_overrides_take(&to->overrides, &usage, option, &code))
        return code;
    switch (option) {
    case WORKERS:
        if (!mr_parse_integer(optarg, 1, MOST_WORKERS, &workers))
            return mr_usage_error(&usage, "--workers takes a number from 1 to %d, not \"%s\"", MOST_WORKERS, optarg);
        to->workers = (int)workers;
        return 0;
    case TRACE:
        to->trace = optarg;
        return 0;
    case RESUME:
        to->resume = optarg;
        return 0;
    case AUDIT:
        to->audit = optarg;
        return 0;
    case CONTROL:
        to->control = optarg;
        return 0;
    case LOG:
        if (mr_log_parse_level(optarg, &level))
            return mr_usage_error(&usage, "%s", mr_message());
        mr_log_set_level(level);
        return 0;
    case MR_COMPLAINTS_DENY:
        to->deny = true;
        return 0;
    case QUIET:
        to->quiet = true;
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

/* ---- the run --------------------------------------------------------------------------------------------------- */

static int open_pipeline(mr_pipeline **pipeline, const arguments *from) {
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.types = mr_stage_types(), .path = from->path, .workers = from->workers,
                                 .trace = from->trace, .resume = from->resume};
    mr_overrides_apply(&from->overrides, &params);
    int status = mr_pipeline_open(pipeline, &params, &wrong);
    status = mr_complaints_tell(&wrong, status, from->deny);
    mr_diagnostics_fini(&wrong);
    if (status)
        mr_pipeline_destroy(pipeline);
    return status;
}

/* Lines on the same terminal as the results would only get in their way. */
static bool wants_progress(const arguments *from) {
    bool results_on_terminal = mr_output_takes_stdout() && isatty(STDOUT_FILENO);
    return !from->quiet && isatty(STDERR_FILENO) && !results_on_terminal;
}

static int await_end(mr_pipeline *pipeline, bool show) {
    if (!show)
        return mr_pipeline_wait(pipeline, -1);
    mr_progress progress;
    mr_progress_begin(&progress);
    int status;
    while ((status = mr_pipeline_wait(pipeline, refresh_ns)) == MR_ERROR_AGAIN) {
        mr_summary *summary = NULL;
        if (mr_pipeline_summarize(pipeline, &summary))
            continue;
        mr_progress_show(&progress, summary);
        mr_summary_destroy(&summary);
    }
    mr_progress_end(&progress);
    return status;
}

/* In a pipe only results are printed; but a failure is never left without its ledger. Answers a status of its own. */
static int report(mr_pipeline *pipeline, const arguments *from, int status) {
    mr_summary *summary = NULL;
    int failed = mr_pipeline_summarize(pipeline, &summary);
    mr_run_audit_end(failed ? NULL : summary, status);
    if (failed)
        return failed;
    if (!from->quiet && !from->json && (status || isatty(STDERR_FILENO)))
        mr_summary_print(summary, stderr);
    if (from->json)
        failed = mr_summary_print_json(summary, true, status, mr_output_takes_stdout() ? stderr : stdout);
    mr_summary_destroy(&summary);
    return failed;
}

static int run(const arguments *from) {
    mr_pipeline *pipeline = NULL;
    int status = open_pipeline(&pipeline, from);
    if (status)
        return mr_status_exit_code(status);
    status = mr_plan_refuse_external(pipeline->plan);
    if (!status)
        status = mr_run_audit_open(from->audit);
    if (!status)
        mr_run_audit_begin(pipeline, from->path);
    if (!status)
        status = mr_pipeline_start(pipeline);
    if (status) {
        mr_run_audit_end(NULL, status);
        int code = mr_command_failed(status);
        mr_pipeline_destroy(&pipeline);
        return code;
    }
    mr_signals_watch(pipeline);
    status = await_end(pipeline, wants_progress(from));
    int failed = report(pipeline, from, status);
    mr_signals_watch(NULL);
    if (failed)
        mr_command_failed(failed);
    mr_pipeline_destroy(&pipeline);
    return mr_status_exit_code(status ? status : failed);
}

int mr_command_run(int argc, char **argv) {
    arguments given = {0};
    bool done = true;
    if (mr_overrides_init(&given.overrides, argc))
        return mr_command_failed(MR_ERROR_MEMORY);
    int code = parse(&given, argc, argv, &done), status = MR_OK;
    if (!done)
        status = mr_control_open(given.control);
    if (!done && !status)
        status = mr_signals_begin();
    if (status) {
        code = mr_command_failed(status);
    } else if (!done) {
        code = run(&given);
        mr_signals_end();
    }
    mr_control_close();
    mr_overrides_fini(&given.overrides);
    return code;
}
