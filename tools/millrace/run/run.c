/* millrace run: runs one pipeline to its end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/units.h"
#include "millrace/log.h"
#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/run/control.h"
#include "tools/millrace/run/notify.h"
#include "tools/millrace/run/progress.h"
#include "tools/millrace/run/run_audit.h"
#include "tools/millrace/run/run_nodes.h"
#include "tools/millrace/run/signals.h"
#include "tools/millrace/run/summary.h"

enum { LOG = 256, GRACE };
/* How often to refresh the progress line and to report. */
static const int64_t refresh_ns = 200000000, report_ns = 500000000;
/* --grace's range. */
static const int64_t least_grace_ns = 1000000000, most_grace_ns = 86400000000000;

typedef mr_run_arguments arguments;

static const mr_usage_option options[] = {
    MR_OVERRIDE_OPTIONS,
    MR_OVERRIDE_FORBIDDING_PLUGINS,
    MR_OVERRIDE_PLACING,
    MR_COMPLAINTS_OPTIONS,
    MR_OVERRIDE_THREADS,
    MR_OPTION_FIELD("node", arguments, node),
    MR_OPTION_NUMBER("replica", arguments, replica, 0, MR_VIEW_MOST_REPLICAS - 1),
    MR_OPTION_FIELD("one-process", arguments, one_process),
    MR_OPTION_CODE("grace", required_argument, GRACE),
    MR_LOSS_OPTIONS,
    MR_OPTION_FIELD("trace", arguments, trace),
    MR_OPTION_FIELD("audit", arguments, audit),
    MR_OPTION_FIELD("resume", arguments, resume),
    MR_OPTION_FIELD("control", arguments, control),
    MR_OPTION_CODE("log", required_argument, LOG),
    MR_OPTION_FIELD("quiet", arguments, quiet),
    MR_OPTION_FIELD("json", arguments, json),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {
    "pipeline.yaml --input lobby.mp4 --output lobby.jsonl",
    "pipeline.yaml --set stages.features.batch.size=8 --resume lobby.checkpoint",
    "pipeline.yaml --node camera --audit /var/log/millrace.jsonl", NULL};

static const mr_usage usage = {
    .verb = "run",
    .synopsis = "PIPELINE.yaml [--set KEY=VALUE]... [--input URI]... [--output FILE]\n"
                "                    [--workers N] [--jobs N] [--node NAME [--replica N] | --one-process]\n"
                "                    [--costs FILE] [--trace FILE] [--resume FILE] [--audit FILE] [--log LEVEL]\n"
                "                    [--control PATH] [--grace DURATION] [--fail-on-loss [N | N%]] [--quiet] [--json]\n"
                "                    [--deny-warnings] [--force] [--plugin FILE]... [--no-plugins]",
    .help =
        "Proves the pipeline, runs it to its end and accounts for every frame. On a terminal it shows its progress\n"
        "and a summary; otherwise it prints only results, and the summary if it fails. -i, -o and -q are short for\n"
        "--input, --output and --quiet.\n\n" MR_OVERRIDE_INPUTS_HELP MR_OVERRIDE_NO_PLUGINS_HELP
        MR_OVERRIDE_OUTPUT_HELP MR_OVERRIDE_PLACING_HELP MR_COMPLAINTS_HELP
            MR_OVERRIDE_THREADS_HELP
        "  --node NAME        runs one of the pipeline's nodes; without it all nodes of this machine are started\n"
        "                     and watched over, unless Slurm, an MPI launcher or MILLRACE_NODE says which node\n"
        "                     this process is\n"
        "  --replica N        which of the node's processes this is: 0, 1, ...\n"
        "  --one-process      runs all stages in this process, whatever `nodes` says\n"
        "  --trace FILE       writes the work of each thread and device over time, for ui.perfetto.dev or\n"
        "                     chrome://tracing\n"
        "  --resume FILE      keeps a checkpoint in FILE, and continues from it if it exists: after a crash no\n"
        "                     record is written twice and none is missing\n"
        "  --audit FILE       appends events to a log, as lines of JSON: runs, connections that were accepted or\n"
        "                     refused, changes\n"
        "  --control PATH     the socket at which `millrace ctl` reaches this run, in a folder that only its user\n"
        "                     may enter; \"off\" for none. By default PID.sock where `millrace ctl` finds it. Each\n"
        "                     process of several nodes has its own: PATH.NODE, or PATH.NODE.0 of replicas\n"
        "  --grace DURATION   how long the run may take after it was asked to end, by default 10s; frames that are\n"
        "                     in flight when most of it has passed are dropped and counted\n" MR_LOSS_HELP
        "  --log LEVEL        error, warning (the default), info or debug\n"
        "  --quiet            no progress and no summary\n"
        "  --json             prints the summary as one JSON object on standard output, or on standard error if\n"
        "                     results go to standard output\n\n"
        "SIGUSR1 prints the summary so far on standard error. SIGHUP opens output files and the audit log anew, so\n"
        "that they can be moved (logrotate), and reads sources_from again. SIGINT (Ctrl-C), SIGTERM and a terminal\n"
        "that is closed (not under nohup) end the sources and deliver frames in flight, with exit code 0; frames\n"
        "that take too long are dropped and counted, see --grace. A second SIGINT or SIGTERM, half a second after\n"
        "the first or later, exits at once. If the reader of standard output ends (`| head`), the run ends without\n"
        "a message, with exit code 141. If several things fail, the first failure gives the exit code.\n",
    .options = options,
    .examples = examples,
};

/* ---- the command line ------------------------------------------------------------------------------------------ */

/* Returns an exit code. */
static int take_option(void *given, int option) {
    arguments *to = given;
    mr_log_level level;
    int code = 0;
    if (mr_overrides_take(&to->overrides, &usage, option, &code))
        return code;
    switch (option) {
    case LOG:
        if (mr_log_parse_level(optarg, &level))
            return mr_usage_error(&usage, "%s", mr_message());
        mr_log_set_level(level);
        to->log = optarg;
        return 0;
    case GRACE:
        if (!mr_units_read(optarg, mr_units_duration, &to->grace_ns) || to->grace_ns < least_grace_ns ||
            to->grace_ns > most_grace_ns)
            return mr_usage_error(&usage, "--grace takes a duration from 1s to 24h, such as 10s, not \"%s\"", optarg);
        to->grace = optarg;
        return 0;
    default: /* MR_LOSS_OPTION */
        if (!mr_loss_parse(&to->loss, optarg))
            return mr_usage_error(&usage, "--fail-on-loss takes a number of frames or percent, such as 10 or 0.5%%, "
                                          "not \"%s\"", optarg);
        return 0;
    }
}

/* Returns an exit code; *done if the command is over. */
static int parse(arguments *to, int argc, char **argv, bool *done) {
    int code = 0;
    *done = true;
    if (!mr_usage_take(&usage, argc, argv, take_option, to, &code))
        return code;
    if (!(to->path = mr_usage_pipeline(&usage, argc, argv, &code)))
        return code;
    if (to->node && to->one_process)
        return mr_usage_error(&usage, "--node runs some stages, --one-process all: choose one");
    *done = false;
    return 0;
}

/* ---- the run --------------------------------------------------------------------------------------------------- */

static int open_pipeline(mr_pipeline **pipeline, const arguments *from) {
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.path = from->path,
                                 .trace = from->trace, .resume = from->resume, .grace_ns = from->grace_ns};
    mr_overrides_apply(&from->overrides, &params);
    mr_run_choose_node(from, &params);
    int status = mr_pipeline_open(pipeline, &params, &wrong);
    status = mr_complaints_tell(&wrong, status, from->deny);
    mr_diagnostics_fini(&wrong);
    if (status)
        mr_pipeline_destroy(pipeline);
    return status;
}

/* If the results go to the same terminal, a progress line would disturb them. */
static bool wants_progress(const arguments *from) {
    bool results_on_terminal = mr_output_takes_stdout() && isatty(STDOUT_FILENO);
    return !from->report.stream && !from->quiet && mr_progress_suits_terminal() && !results_on_terminal;
}

/* Reports while the pipeline runs: to the terminal, to the supervisor, to a service manager. */
typedef struct audience {
    mr_pipeline *pipeline;
    const mr_plan_view *plan;
    const mr_report *report;
    mr_progress progress;
    bool show;
    bool stuck; /* a call of a stage does not return */
    int64_t reported_ns, alive_ns;
    int64_t asked_ns; /* when the run was asked to end; 0: it was not */
} audience;

static void give_signs(audience *to, const mr_summary *summary) {
    int64_t now_ns = mr_clock_now_ns(mr_clock_real()), every_ns = mr_notify_watchdog_ns();
    if (to->show)
        mr_progress_show(&to->progress, summary);
    if (now_ns - to->reported_ns >= report_ns) {
        mr_report_send(to->report, summary, false, MR_OK);
        mr_notify("STATUS=%llu frames, %llu dropped", (unsigned long long)summary->in,
                  (unsigned long long)summary->dropped);
        to->reported_ns = now_ns;
    }
    if (every_ns && now_ns - to->alive_ns >= every_ns / 2) {
        mr_notify("WATCHDOG=1");
        to->alive_ns = now_ns;
    }
}

/* A run that was asked to end ends within the grace time, even if the frames in flight would take longer; sooner if it
 * is one of several nodes and was asked only after those with sources. */
static void keep_drain_short(const audience *to, const mr_summary *summary) {
    const mr_plan_view *plan = to->plan;
    bool asked_last = to->report->stream && plan->nodes[plan->node].source_count == 0;
    /* supervisor.c has the rest of the time. */
    if (summary->draining_ns < plan->grace_ns / 100 * (asked_last ? 35 : 70))
        return;
    mr_log(MR_LOG_WARNING,
           "the run was asked to end %.1f seconds ago and is still working: frames in flight are dropped",
           (double)summary->draining_ns * 1e-9);
    mr_pipeline_stop(to->pipeline, true);
}

/* A progress line, a watchdog and a run that drains want a look more often than reports do. */
static int64_t time_to_look_ns(const audience *to, const mr_summary *summary) {
    return to->show || mr_notify_watchdog_ns() || summary->draining_ns ? refresh_ns : report_ns;
}

/* Nothing can end a call into a library, such as a network with an endless loop. */
static int check_stuck(audience *to, const mr_summary *summary) {
    const int64_t now_ns = mr_clock_now_ns(mr_clock_real()), most_ns = 2 * to->plan->grace_ns;
    if (summary->draining_ns)
        to->asked_ns = now_ns - summary->draining_ns;
    to->stuck = to->asked_ns && now_ns - to->asked_ns > most_ns;
    if (!to->stuck)
        return MR_OK;
    return mr_fail(MR_ERROR_INTERNAL, "the run was asked to end more than %.0f seconds ago, and a call of a stage has "
                   "not returned: the frames in flight are lost", (double)most_ns * 1e-9);
}

static int await_end(audience *to) {
    int64_t look_ns = refresh_ns;
    int status = MR_ERROR_AGAIN;
    if (to->show)
        mr_progress_begin(&to->progress);
    while (!to->stuck && (status = mr_pipeline_wait(to->pipeline, look_ns)) == MR_ERROR_AGAIN) {
        mr_summary *summary = NULL;
        if (mr_pipeline_snapshot(to->pipeline, refresh_ns, &summary))
            continue;
        keep_drain_short(to, summary);
        give_signs(to, summary);
        look_ns = time_to_look_ns(to, summary);
        status = check_stuck(to, summary);
        mr_summary_destroy(&summary);
    }
    if (to->show)
        mr_progress_end(&to->progress);
    return status;
}

/* In a pipe only results are printed. But a failure always comes with the ledger, and lost frames are reported. They
 * can make *status a failure. Returns a separate status. */
static int report(mr_pipeline *pipeline, const arguments *from, int *status) {
    mr_summary *summary = NULL;
    int failed = mr_pipeline_summarize(pipeline, &summary);
    if (failed)
        return failed;
    if (*status && !summary->balanced)
        mr_command_failed(*status); /* no stage has failed, so nothing is logged yet */
    /* Whoever read standard output closed it: print nothing. */
    bool watched = from->report.stream != NULL, quiet = watched || from->quiet || *status == MR_ERROR_CLOSED;
    const mr_loss loss = mr_loss_of(summary);
    int lost = *status ? MR_OK : mr_loss_check(&loss, &from->loss);
    *status = *status ? *status : lost;
    mr_report_send(&from->report, summary, true, *status);
    FILE *json = mr_output_takes_stdout() ? stderr : stdout;
    if (from->json)
        failed = mr_summary_print_json(summary, true, *status, lost ? mr_message() : NULL, json);
    if (!quiet && !from->json && (*status || isatty(STDERR_FILENO)))
        mr_summary_print(summary, stderr);
    else if (!quiet && !(from->json && json == stderr))
        mr_loss_print(&loss, stderr);
    if (lost && !watched)
        mr_command_failed(mr_loss_check(&loss, &from->loss));
    mr_summary_destroy(&summary);
    return failed;
}

/* Called when the run cannot be changed any more: the last change is logged before the run's end. */
static void end_audit(mr_pipeline *pipeline, int status) {
    mr_summary *summary = NULL;
    int failed = mr_pipeline_summarize(pipeline, &summary);
    mr_run_audit_end(failed ? NULL : summary, status);
    mr_summary_destroy(&summary);
}

/* From here on the supervisor handles the signals, and each node has a separate control socket. */
static int run_nodes(const arguments *from, const mr_plan_view *plan) {
    mr_signals_end();
    mr_control_close("each node of this run has its own control socket");
    int status = mr_run_audit_open(from->audit);
    return status ? mr_command_failed(status) : mr_run_supervise(from, plan);
}

int mr_run_here(const arguments *from, mr_pipeline *pipeline, const mr_plan_view *plan) {
    int status = mr_plan_refuse_external(plan);
    if (!status)
        status = mr_run_audit_open(from->audit);
    if (!status)
        mr_run_audit_begin(plan, from->path);
    if (!status)
        status = mr_pipeline_start(pipeline);
    if (status) {
        mr_run_audit_end(NULL, status);
        return mr_command_failed(status);
    }
    mr_signals_watch(pipeline);
    mr_notify("READY=1");
    audience to = {.pipeline = pipeline, .plan = plan, .report = &from->report, .show = wants_progress(from)};
    status = await_end(&to);
    if (to.stuck)
        mr_command_failed(status);
    int failed = report(pipeline, from, &status);
    if (to.stuck) {
        end_audit(pipeline, status);
        mr_control_unlink();
        fflush(NULL);
        _exit(mr_status_exit_code(status));
    }
    /* The run has ended by itself: a signal from now on gets its exit code. */
    mr_signals_end();
    /* Results may be in transit for a while, and the control socket is closed. */
    mr_control_close("the run has ended");
    end_audit(pipeline, status);
    if (failed)
        mr_command_failed(failed);
    int code = mr_status_exit_code(status ? status : failed);
    mr_signals_leave(code);
    return code;
}

static int run(const arguments *from) {
    mr_pipeline *pipeline = NULL;
    const mr_plan_view *plan = NULL;
    int status = open_pipeline(&pipeline, from);
    if (status)
        return mr_status_exit_code(status);
    status = mr_pipeline_view(pipeline, &plan);
    int code = status           ? mr_command_failed(status)
               : plan->node < 0 ? run_nodes(from, plan)
                                : mr_run_here(from, pipeline, plan);
    mr_plan_view_close(&plan);
    mr_pipeline_destroy(&pipeline);
    return code;
}

int mr_run_enter(mr_run_arguments *given) {
    mr_notify_begin();
    mr_report_begin(&given->report);
    int status = mr_launch_find(&given->launch);
    if (!status)
        status = mr_control_open(given->control);
    return status ? status : mr_signals_begin(given->grace_ns);
}

void mr_run_leave(mr_run_arguments *given) {
    mr_signals_end();
    mr_control_close("the run has ended");
    mr_report_end(&given->report);
    mr_launch_fini(&given->launch);
}

static int run_verb(int argc, char **argv) {
    arguments given = {0};
    bool done = true;
    if (mr_overrides_init(&given.overrides, argc))
        return mr_command_failed(MR_ERROR_MEMORY);
    char *joined = NULL;
    int count = mr_loss_join(argc, argv, &joined);
    if (count < 0) {
        mr_overrides_fini(&given.overrides);
        return mr_command_failed(count);
    }
    int code = parse(&given, count, argv, &done);
    if (!done) {
        int status = mr_run_enter(&given);
        code = status ? mr_command_failed(status) : run(&given);
        mr_run_leave(&given);
    }
    mr_overrides_fini(&given.overrides);
    free(joined);
    return code;
}

const mr_verb mr_run_verb = {&usage, "run a pipeline", run_verb};
