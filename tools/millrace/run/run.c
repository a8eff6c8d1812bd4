/* millrace run: runs one pipeline to its end. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/print.h"
#include "engine/base/units.h"
#include "millrace/log.h"
#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/http/health.h"
#include "tools/millrace/http/run_http.h"
#include "tools/millrace/hub/announcer.h"
#include "tools/millrace/models/scaling.h"
#include "tools/millrace/otlp/otlp_spans.h"
#include "tools/millrace/run/children.h"
#include "tools/millrace/run/control.h"
#include "tools/millrace/run/notify.h"
#include "tools/millrace/run/node_log.h"
#include "tools/millrace/run/progress.h"
#include "tools/millrace/run/run_audit.h"
#include "tools/millrace/run/run_nodes.h"
#include "tools/millrace/run/signals.h"
#include "tools/millrace/summary/summary.h"

/* How often to refresh the progress line and to report. */
static const int64_t refresh_ns = 200000000, report_ns = 500000000;
/* --grace's range. */
static const int64_t least_grace_ns = 1000000000, most_grace_ns = 86400000000000;

typedef mr_run_arguments arguments;

/* ---- the command line ------------------------------------------------------------------------------------------ */

/* Into the arguments' grace and grace_ns. */
static int take_grace(void *to, char *text) {
    mr_run_arguments *given = to;
    if (!mr_units_read(text, mr_units_duration, &given->grace_ns) || given->grace_ns < least_grace_ns ||
        given->grace_ns > most_grace_ns)
        return mr_fail(MR_ERROR_USAGE, "takes a duration from 1s to 24h, such as 10s, not \"%s\"", text);
    given->grace = text;
    return MR_OK;
}

static const mr_usage_option options[] = {
    MR_OVERRIDE_OPTIONS,
    MR_OVERRIDE_FORBIDDING_PLUGINS,
    MR_OVERRIDE_PLACING,
    MR_COMPLAINTS_OPTIONS,
    MR_OVERRIDE_THREADS,
    MR_OPTION("node", "NAME", arguments, node,
              "runs one of the pipeline's nodes. Without it, `run` starts and supervises all nodes of this machine, "
              "unless Slurm, an MPI launcher or MILLRACE_NODE names the node of this process"),
    MR_OPTION_NUMBER("replica", "N", arguments, replica, 0, MR_VIEW_MOST_REPLICAS - 1,
                     "which of the node's processes this is: 0, 1, ..."),
    MR_OPTION("one-process", NULL, arguments, one_process, "runs all stages in this process and ignores `nodes`"),
    MR_OPTION("check-stages", NULL, arguments, check_stages,
              "for authors of stage types: ends the run with a message if a stage changes a frame that it gets, which "
              "others may read. Slow: one stage works at a time"),
    MR_OPTION("trace", "FILE", arguments, trace,
              "writes the work of each thread and device over time, for ui.perfetto.dev or chrome://tracing"),
    MR_OPTION("resume", "FILE", arguments, resume,
              "keeps a checkpoint in FILE, and continues from it if it exists. After a crash no record is written "
              "twice and none is missing"),
    MR_OPTION("audit", "FILE", arguments, audit,
              "appends events to a log, as lines of JSON: runs, accepted and refused connections, changes"),
    MR_OPTION("control", "PATH", arguments, control,
              "the socket at which `millrace ctl` reaches this run, in a folder that only its user may enter; \"off\" "
              "for none. The default is PID.sock where `millrace ctl` finds it. Each process of several nodes has a "
              "separate socket: PATH.NODE, or PATH.NODE.0 for replicas"),
    MR_OPTION("http", "ADDRESS", arguments, http,
              "answers over HTTP at 127.0.0.1:PORT, [::1]:PORT or unix:PATH (`http.listen` of the YAML): /metrics, "
              "/livez, /readyz, /healthz and /api/v1. Port 0 is any free one, which is printed; \"off\" is nowhere. "
              "With several nodes, `run` answers for all of them"),
    MR_OPTION("hub", "ENDPOINT", arguments, hub,
              "reports the state to `millrace hub` at tcp://HOST:PORT or ipc://FOLDER/NAME (`hub.endpoint` of the "
              "YAML; keys are in `hub.key` and `hub.server`); \"off\" is nowhere. The run never waits for the hub"),
    MR_OPTION("otlp", "URL", arguments, otlp,
              "sends metrics to the OpenTelemetry collector at http://HOST:4318 (`otlp.endpoint` of the YAML), and "
              "traces with --trace-sample; \"off\" sends nothing, whatever $OTEL_EXPORTER_OTLP_ENDPOINT says"),
    MR_OPTION("trace-sample", "SHARE", arguments, traces,
              "the share of frames whose way through stages and nodes is sent as a trace (`otlp.traces`), such as "
              "0.01"),
    MR_OPTION_CALL("grace", "DURATION", take_grace,
                   "how long the run may take to end after it was asked to, by default 10s. Frames that are in flight "
                   "when most of this time has passed are dropped and counted"),
    MR_OPTION_TAKE("fail-on-loss", "[N]", arguments, loss, mr_loss_take,
                   "exits with 65 if more than N frames, or more than N% of all, were dropped, or not read because a "
                   "file ends early. Without N, one lost frame is enough. Absorbed frames are not lost"),
    MR_OPTION("log", "error|warning|info|debug", arguments, log, "how much is logged; warning is the default",
              .take = mr_usage_take_level),
    MR_OPTION("quiet", NULL, arguments, quiet, "no progress and no summary"),
    MR_OPTION("json", NULL, arguments, json,
              "prints the summary as one JSON object on standard output, or on standard error if results go to "
              "standard output"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {
    "pipeline.yaml --input lobby.mp4 --output lobby.jsonl",
    "pipeline.yaml --set stages.features.batch.size=8 --resume lobby.checkpoint",
    "pipeline.yaml --node camera --audit /var/log/millrace.jsonl", NULL};

static const mr_usage usage = {
    .verb = "run",
    .synopsis = "PIPELINE.yaml",
    .help = "Proves the pipeline, runs it to its end and accounts for every frame. On a terminal it shows progress and "
            "a summary. Otherwise it prints only results, and the summary if it fails. -i, -o and -q are short for "
            "--input, --output and --quiet.",
    .options = options,
    .notes = "SIGINT (Ctrl-C), SIGTERM and a closed terminal (not under nohup) end the sources and deliver frames in "
             "flight, with exit code 0. Frames that take too long are dropped and counted, see --grace. A second "
             "SIGINT or SIGTERM exits at once if it comes at least half a second after the first.\n"
             "SIGUSR1 prints the summary so far on standard error. SIGHUP opens output files and the audit log anew, "
             "so that they can be moved (logrotate), and reads sources_from again.\n"
             "If the reader of standard output ends (`| head`), the run ends without a message, with exit code 141. If "
             "several things fail, the first failure sets the exit code.",
    .examples = examples,
};

static bool parse(arguments *to, int argc, char **argv, int *code) {
    if (!mr_usage_take(&usage, argc, argv, to, code) ||
        !(to->path = mr_usage_pipeline(&usage, argc, argv, code)))
        return false;
    if (to->node && to->one_process)
        *code = mr_usage_error(&usage, "--node runs some stages, --one-process all: choose one");
    return !*code;
}

/* ---- the run --------------------------------------------------------------------------------------------------- */

static int open_pipeline(mr_pipeline **pipeline, const arguments *from) {
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.path = from->path, .check_stages = from->check_stages,
                                 .trace = from->trace, .resume = from->resume, .grace_ns = from->grace_ns};
    mr_overrides_apply(&from->overrides, &params);
    params.override_names = from->overrides.name;
    mr_run_choose_node(from, &params);
    int status = mr_pipeline_open(pipeline, &params, &wrong);
    status = status ? status : mr_scaling_check_pipeline(*pipeline, &wrong);
    status = mr_complaints_tell(&wrong, status, from->deny);
    mr_diagnostics_fini(&wrong);
    if (status)
        mr_pipeline_destroy(pipeline);
    return status;
}

/* A progress line would mix with results on the same terminal. */
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
    mr_otlp *otlp;     /* NULL: nothing is sent */
    mr_otlp_spans *spans;
    mr_run_http *web;  /* NULL: there is no HTTP server, and no metrics are sent */
    mr_announcer *hub; /* NULL: no hub is named */
    mr_summary *shown; /* there, with this process */
    mr_observed_process process;
    mr_movement movement;
    bool show;
    bool stuck;  /* a call of a stage does not return */
    bool stalls; /* frames do not move, and the log says so */
    int64_t reported_ns, alive_ns;
    int64_t asked_ns; /* when the run was asked to end; 0: it was not */
} audience;

/* A plugin that keeps frames or does not return holds all others up, and nothing else would tell. */
static void warn_of_stall(audience *to, const mr_summary *summary, int64_t now_ns) {
    static const int64_t patience_ns = 30000000000;
    const int64_t stall_ns = mr_plan_view_http(to->plan)->stall_ns;
    const bool stalls = mr_movement_stalls(&to->movement, now_ns, stall_ns < patience_ns ? stall_ns : patience_ns);
    if (stalls && !to->stalls)
        mr_log(MR_LOG_WARNING, "%llu frames are in flight, and none has moved for %.0f s: a stage keeps frames or does "
               "not return from a call; `millrace ctl status --pid %ld` shows how many each has taken and given",
               (unsigned long long)summary->in_flight, (double)(now_ns - to->movement.moved_ns) * 1e-9,
               (long)getpid());
    to->stalls = stalls;
}

static void give_signs(audience *to, const mr_summary *summary) {
    int64_t now_ns = mr_now_ns(), every_ns = mr_notify_watchdog_ns();
    if (to->show)
        mr_progress_show(&to->progress, summary);
    if (now_ns - to->reported_ns >= report_ns) {
        mr_report_send(to->report, summary, false, MR_OK);
        mr_notify("STATUS=%llu frames, %llu dropped", (unsigned long long)summary->in,
                  (unsigned long long)summary->dropped);
        to->reported_ns = now_ns;
    }
    mr_movement_look(&to->movement, &(mr_observed_ledger){summary->in, summary->delivered, summary->dropped,
                                                          summary->absorbed, summary->in_flight},
                     mr_observed_is_held_up(summary), now_ns);
    warn_of_stall(to, summary, now_ns);
    if (every_ns && now_ns - to->alive_ns >= every_ns / 2 &&
        !mr_movement_stalls(&to->movement, now_ns, mr_plan_view_http(to->plan)->stall_ns)) {
        mr_notify("WATCHDOG=1");
        to->alive_ns = now_ns;
    }
}

/* Shows the latest summary over HTTP, and reports it to the hub. */
static void show(audience *to, bool final) {
    const mr_plan_view *plan = to->plan;
    const mr_view_node *node = plan->node_count ? &plan->nodes[plan->node] : NULL;
    mr_summary *summary = NULL;
    if ((!to->web && !to->hub) || mr_pipeline_snapshot(to->pipeline, refresh_ns, &summary))
        return;
    mr_run_http_hold(to->web);
    mr_summary_destroy(&to->shown);
    to->shown = summary;
    to->process = (mr_observed_process){.name = node ? node->id : NULL, .node = node ? node->id : NULL,
                                        .replica = node ? plan->replica : 0, .state = final ? "ended" : "runs",
                                        .pid = getpid(), .ready = true, .done = final, .summary = summary};
    const mr_observed now = {.count = 1, .process = &to->process, .final = final,
                             .ending = final || summary->draining_ns > 0};
    mr_run_http_show(to->web, &now);
    mr_announcer_show(to->hub, &now);
}

/* Ends a run within the grace time once it was asked to end, even if frames in flight would take longer. The time is
 * shorter for one of several nodes that is asked only after those with sources. */
static void keep_drain_short(const audience *to, const mr_summary *summary) {
    const mr_plan_view *plan = to->plan;
    bool asked_last = to->report->stream && plan->nodes[plan->node].source_count == 0;
    /* supervisor.c uses the rest of the time. */
    if (summary->draining_ns < plan->grace_ns / 100 * (asked_last ? 35 : 70))
        return;
    mr_log(MR_LOG_WARNING,
           "the run was asked to end %.1f seconds ago and is still working: frames in flight are dropped",
           (double)summary->draining_ns * 1e-9);
    mr_pipeline_stop(to->pipeline, true);
}

/* A progress line, a watchdog and a draining run need more frequent checks than reports. */
static int64_t time_to_look_ns(const audience *to, const mr_summary *summary) {
    return to->show || mr_notify_watchdog_ns() || summary->draining_ns ? refresh_ns : report_ns;
}

/* Lists the sources whose calls hang. Returns how many. */
static size_t list_hanging(const mr_summary *summary, char *text, size_t bytes) {
    size_t count = 0, used = 0;
    for (size_t i = 0; i < summary->source_count; i++) {
        const mr_source_summary *source = &summary->sources[i];
        if (!source->hangs)
            continue;
        if (used < bytes)
            used += mr_print_into(text + used, bytes - used, "%s%s", count ? ", " : "", source->id);
        count++;
    }
    return count;
}

/* Nothing can interrupt a call into a library, such as a network with an endless loop, or a camera's driver. All other
 * stages have had the whole grace time when only sources hang. */
static int check_stuck(audience *to, const mr_summary *summary) {
    char ids[256];
    const size_t hanging = list_hanging(summary, ids, sizeof ids);
    const int64_t now_ns = mr_now_ns(), most_ns = (hanging ? 1 : 2) * to->plan->grace_ns;
    if (summary->draining_ns)
        to->asked_ns = now_ns - summary->draining_ns;
    to->stuck = to->asked_ns && now_ns - to->asked_ns > most_ns;
    if (!to->stuck)
        return MR_OK;
    if (hanging)
        return mr_fail(MR_ERROR_IO, "the run was asked to end more than %.0f seconds ago, and the driver or library of "
                       "%s %s has not returned from a call: the run ends without %s", (double)most_ns * 1e-9,
                       hanging > 1 ? "the sources" : "the source", ids, hanging > 1 ? "them" : "it");
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
        show(to, false);
        look_ns = time_to_look_ns(to, summary);
        status = check_stuck(to, summary);
        mr_summary_destroy(&summary);
    }
    if (to->show)
        mr_progress_end(&to->progress);
    return status;
}

/* If output goes into a pipe, only results are printed. But a failure always prints the ledger, and lost frames are
 * reported; they can make *status a failure. Returns a separate status. */
static int report(mr_pipeline *pipeline, const arguments *from, int *status) {
    mr_summary *summary = NULL;
    int failed = mr_pipeline_summarize(pipeline, &summary);
    if (failed)
        return failed;
    if (*status && !summary->balanced)
        mr_command_failed(*status); /* no stage has failed, so nothing is logged yet */
    /* The reader closed standard output: prints nothing. */
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

/* Must be called when the run can no longer be changed, so that the last change is logged before the run's end. */
static void end_audit(mr_pipeline *pipeline, int status) {
    mr_summary *summary = NULL;
    int failed = mr_pipeline_summarize(pipeline, &summary);
    mr_run_audit_end(failed ? NULL : summary, status);
    mr_summary_destroy(&summary);
}

/* From here on the supervisor handles signals, and each node has a separate control socket. */
static int run_nodes(const arguments *from, const mr_plan_view *plan) {
    mr_signals_end();
    mr_control_close("each node of this run has its own control socket");
    int status = mr_run_audit_open(from->audit);
    return status ? mr_command_failed(status) : mr_run_supervise(from, plan);
}

static char *change(void *context, const char *request, size_t *length) {
    return mr_control_do(request, length);
}

/* Lets a client read the last numbers. A signal ends that; it stays pending. */
static void linger(const audience *to) {
    const int64_t signalled_ns = mr_signals_asked_ns();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    const int fd = signalfd(-1, &set, SFD_CLOEXEC);
    const int64_t asked_ns = signalled_ns ? signalled_ns : to->asked_ns;
    mr_otlp_flush(to->otlp, fd, asked_ns);
    mr_run_http_linger(to->web, fd, asked_ns);
    if (fd >= 0)
        close(fd);
}

static int open_observers(audience *to) {
    const mr_plan_view *plan = to->plan;
    char name[MR_CHILD_NAME];
    if (plan->node_count)
        mr_child_name(name, &plan->nodes[plan->node], plan->replica);
    int status = mr_otlp_create(&to->otlp, plan, plan->node_count ? name : NULL);
    if (!status)
        status = mr_otlp_spans_open(&to->spans, to->otlp, to->pipeline, plan);
    /* The supervisor answers for all its nodes, sends their metrics, and reports to the hub. */
    if (!status && !to->report->stream)
        status = mr_run_http_open(&to->web, plan, change, NULL, to->otlp);
    if (!status && !to->report->stream)
        status = mr_announcer_open(&to->hub, plan, mr_run_http_page(to->web));
    return status;
}

static void close_observers(audience *to, int code) {
    mr_announcer_close(&to->hub, code);
    mr_otlp_stop(to->otlp);
    mr_run_http_close(&to->web);
    mr_otlp_destroy(&to->otlp);
    free(to->spans);
    mr_summary_destroy(&to->shown);
}

static atomic_bool under_way;

/* Otherwise a plugin or library that calls exit would end the run with its exit code, such as 0, and without a word. */
static void refuse_exit(void) {
    static atomic_flag called = ATOMIC_FLAG_INIT;
    if (!atomic_load(&under_way))
        return;
    while (atomic_flag_test_and_set(&called))
        pause(); /* the first one ends the process */
    mr_log(MR_LOG_ERROR, "a stage or library has called exit: the run ends at once, and frames in flight are lost");
    mr_control_unlink();
    _exit(mr_status_exit_code(MR_ERROR_INTERNAL));
}

/* Each thread that calls exit takes one of the registered functions, and must find one: it would end the process while
 * another one is in it. */
static bool watch_exits(void) {
    enum { AT_ONCE = 64 };
    int failed = 0;
    for (int i = 0; i < AT_ONCE && !failed; i++)
        failed = atexit(refuse_exit);
    return !failed;
}

int mr_run_here(const arguments *from, mr_pipeline *pipeline, const mr_plan_view *plan) {
    int status = mr_plan_refuse_external(plan);
    if (!status)
        status = mr_run_audit_open(from->audit);
    if (!status)
        mr_run_audit_begin(plan, from->path);
    audience to = {.pipeline = pipeline, .plan = plan, .report = &from->report};
    if (!status)
        status = open_observers(&to);
    atomic_store(&under_way, watch_exits());
    if (!status)
        status = mr_pipeline_start(pipeline);
    if (!status)
        status = mr_otlp_start(to.otlp);
    if (status) {
        atomic_store(&under_way, false);
        close_observers(&to, mr_status_exit_code(status));
        mr_run_audit_end(NULL, status);
        mr_node_log_failed();
        return mr_command_failed(status);
    }
    mr_signals_watch(pipeline);
    mr_notify("READY=1");
    to.show = wants_progress(from);
    show(&to, false);
    status = await_end(&to);
    if (to.stuck) {
        mr_node_log_failed();
        mr_command_failed(status);
    }
    atomic_store(&under_way, false);
    show(&to, true);
    int failed = report(pipeline, from, &status);
    if (to.stuck) {
        end_audit(pipeline, status);
        mr_control_unlink();
        mr_announcer_close(&to.hub, mr_status_exit_code(status));
        fflush(NULL);
        _exit(mr_status_exit_code(status));
    }
    /* The run has ended by itself: a later signal must return its exit code. */
    mr_signals_end();
    /* Results may be in transit for a while, and the control socket is closed. */
    mr_control_close("the run has ended");
    end_audit(pipeline, status);
    if (failed)
        mr_command_failed(failed);
    int code = mr_status_exit_code(status ? status : failed);
    linger(&to);
    mr_announcer_close(&to.hub, code);
    mr_signals_leave(code);
    close_observers(&to, code);
    return code;
}

/* Options for keys of the YAML that show the run to others. */
static int set_observers(arguments *to) {
    int status = mr_overrides_set(&to->overrides, "--http", "http.listen", to->http);
    if (!status)
        status = mr_overrides_set(&to->overrides, "--hub", "hub.endpoint", to->hub);
    if (!status)
        status = mr_overrides_set(&to->overrides, "--otlp", "otlp.endpoint", to->otlp);
    return status ? status : mr_overrides_set(&to->overrides, "--trace-sample", "otlp.traces", to->traces);
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
    mr_node_log_begin();
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
    int code = 0;
    if (parse(&given, argc, argv, &code)) {
        int status = set_observers(&given);
        status = status ? status : mr_run_enter(&given);
        code = status ? mr_command_failed(status) : run(&given);
        mr_run_leave(&given);
    }
    mr_overrides_fini(&given.overrides);
    return code;
}

const mr_verb mr_run_verb = {&usage, "run a pipeline", run_verb};
