#include "engine/base/print.h"
#include "tools/millrace/run/supervisor_parts.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/run/launch.h"
#include "tools/millrace/run/notify.h"
#include "tools/millrace/run/run_audit.h"
#include "tools/millrace/run/signals.h"

static const int64_t second_ns = 1000000000, tick_ns = 250000000;
/* Percent of the grace time after sources were asked to end: then all nodes are asked, and later killed. */
enum { ASK_ALL = 25, END_ALL = 95 };

const mr_view_node *mr_supervisor_node(const mr_supervisor *s, const mr_child *child) {
    return &s->how->plan->nodes[child->node];
}

bool mr_supervisor_reads(const mr_supervisor *s, const mr_child *child) {
    return mr_supervisor_node(s, child)->source_count > 0;
}

bool mr_supervisor_repeats(const mr_supervisor *s, const mr_child *child) {
    const mr_plan_view *plan = s->how->plan;
    for (size_t v = 0; v < plan->source_count; v++)
        if (plan->stages[v].node == child->node && !plan->stages[v].offer.repeats)
            return false;
    return true;
}

/* 141 also means 128 + SIGPIPE, but none of our processes ends by SIGPIPE. */
bool mr_supervisor_is_closed(int exit_code) {
    return exit_code == mr_status_exit_code(MR_ERROR_CLOSED);
}

void mr_supervisor_say(const mr_supervisor *s, mr_log_level level, const char *text) {
    static const char *const levels[] = {"error: ", "warning: ", "", ""};
    if (mr_supervisor_is_closed(s->exit_code))
        return;
    mr_print(stderr, s->how->show ? "\r\033[Kmillrace: %s%s\n" : "millrace: %s%s\n", levels[level], text);
    mr_nodes_http_log(s->http, level, text);
}

/* ---- ending ---------------------------------------------------------------------------------------------------- */

static void ask_to_end(mr_supervisor *s, bool all) {
    for (size_t i = 0; i < s->count; i++) {
        mr_child *child = &s->children[i];
        if (!child->pid || child->asked || (!all && !mr_supervisor_reads(s, child)))
            continue;
        child->asked = true;
        kill(child->pid, SIGTERM);
    }
}

void mr_supervisor_drain(mr_supervisor *s, bool all) {
    s->draining = true;
    s->asked_all = all;
    s->drain_ns = mr_now_ns();
    mr_notify("STOPPING=1");
    /* Processes that read sources are not restarted; later ones still are. */
    for (size_t i = 0; i < s->count; i++) {
        mr_child *child = &s->children[i];
        child->start_ns = 0;
        if (!child->done && !child->pid && mr_supervisor_reads(s, child)) {
            child->done = true;
            mr_supervisor_publish_end(s, child);
        }
    }
    ask_to_end(s, all);
}

/* Whether this node has producers and none will run again. Nodes that ended normally do not count, since the process
 * knows about them. */
static bool is_abandoned(const mr_supervisor *s, const mr_child *child) {
    const mr_plan_view *plan = s->how->plan;
    bool any = false;
    for (size_t i = 0; i < plan->cut_count; i++) {
        if (plan->cuts[i].to != child->node || mr_supervisor_ended(s, plan->cuts[i].from))
            continue;
        any = true;
        for (size_t k = 0; k < s->count; k++)
            if (s->children[k].node == plan->cuts[i].from && !s->children[k].done)
                return false;
    }
    return any;
}

/* A process that was restarted after the producers had ended waits for end marks that never come again. All frames from
 * those producers must be settled, else the producers would still wait. */
static void end_what_waits(mr_supervisor *s) {
    for (size_t i = 0; i < s->count; i++) {
        mr_child *child = &s->children[i];
        bool waits = child->pid && child->restarts && child->ready && !child->finished && !child->asked;
        if (waits && !mr_supervisor_reads(s, child) && is_abandoned(s, child)) {
            child->asked = true;
            kill(child->pid, SIGTERM);
        }
    }
}

void mr_supervisor_kill(mr_supervisor *s) {
    for (size_t i = 0; i < s->count; i++) {
        mr_child *child = &s->children[i];
        child->done = true;
        if (child->pid)
            kill(child->pid, SIGKILL);
    }
}

static void keep_drain_short(mr_supervisor *s, int64_t now_ns) {
    const int64_t hundredth_ns = s->how->plan->grace_ns / 100;
    if (s->draining && !s->asked_all && now_ns - s->drain_ns > ASK_ALL * hundredth_ns) {
        s->asked_all = true;
        ask_to_end(s, true);
    }
    if (s->draining && now_ns - s->drain_ns > END_ALL * hundredth_ns)
        mr_supervisor_kill(s);
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

static double seconds_since(int64_t ns) {
    return (double)(mr_now_ns() - ns) / (double)second_ns;
}

static void tell(mr_supervisor *s, int64_t now_ns) {
    const mr_tally_of_nodes all = mr_children_tally(s->children, s->count);
    unsigned long long done = all.delivered + all.dropped + all.absorbed;
    size_t running = 0, ready = 0;
    for (size_t i = 0; i < s->count; i++) {
        running += s->children[i].pid != 0;
        ready += s->children[i].ready || s->children[i].done;
    }
    if (ready == s->count && !s->said_ready) {
        s->said_ready = true;
        mr_notify("READY=1");
    }
    if (s->how->show)
        fprintf(stderr, "\r\033[Kframes %llu, %llu dropped, %zu of %zu nodes", done,
                (unsigned long long)all.dropped, running, s->count);
    mr_notify("STATUS=%llu frames, %llu dropped, %zu of %zu processes run", done, (unsigned long long)all.dropped,
              running, s->count);
    s->shown_ns = now_ns;
}

static void give_signs(mr_supervisor *s, int64_t now_ns) {
    int64_t every_ns = mr_notify_watchdog_ns();
    bool held_up = false;
    const mr_tally_of_nodes all = mr_children_tally(s->children, s->count);
    if (now_ns - s->shown_ns >= second_ns / 2 || !s->shown_ns)
        tell(s, now_ns);
    for (size_t i = 0; i < s->count; i++)
        held_up |= s->children[i].pid && mr_observed_is_held_up(&s->children[i].report);
    mr_movement_look(&s->movement, &(mr_observed_ledger){all.in, all.delivered, all.dropped, all.absorbed,
                                                         all.in_flight}, held_up, now_ns);
    if (every_ns && now_ns - s->alive_ns >= every_ns / 2 &&
        !mr_movement_stalls(&s->movement, now_ns, mr_plan_view_http(s->how->plan)->stall_ns)) {
        mr_notify("WATCHDOG=1");
        s->alive_ns = now_ns;
    }
}

static int print(mr_supervisor *s, FILE *stream) {
    return mr_children_print(s->how->plan, s->children, s->count, seconds_since(s->began_ns), stream);
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

/* The second signal ends everything at once. Exceptions are SIGHUP, which a terminal may send more than once, and a
 * signal that came with the first. */
static void interrupt(mr_supervisor *s, const struct signalfd_siginfo *signal) {
    const int64_t now_ns = mr_now_ns();
    if (s->draining && (signal->ssi_signo == SIGHUP || (s->asked_ns && mr_signals_are_one(s->asked_ns, now_ns))))
        return;
    mr_run_audit_signal(signal, s->draining ? MR_SIGNAL_EXITS : MR_SIGNAL_DRAINS);
    if (!s->draining) {
        if (isatty(STDERR_FILENO))
            mr_supervisor_say(s, MR_LOG_INFO, "finishing what is in flight; repeat to exit at once");
        if (s->how->signal)
            *s->how->signal = (int)signal->ssi_signo;
        s->asked_ns = now_ns;
        mr_supervisor_drain(s, false);
        return;
    }
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].pid)
            kill(s->children[i].pid, SIGKILL);
    print(s, stderr);
    mr_temp_folder_remove(&s->temp);
    _exit(128 + (int)signal->ssi_signo);
}

/* Nodes reopen their files, and read the source list. */
static void reload(const mr_supervisor *s, const struct signalfd_siginfo *signal) {
    mr_run_audit_reopen(signal);
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].pid)
            kill(s->children[i].pid, SIGHUP);
}

/* If the terminal's processes were stopped just when a node left them, the node was stopped with them, and the signal
 * that continues them does not reach it. */
static void go_on(const mr_supervisor *s) {
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].pid)
            kill(s->children[i].pid, SIGCONT);
}

static void take_signals(mr_supervisor *s) {
    struct signalfd_siginfo got;
    while (read(s->signals, &got, sizeof got) == (ssize_t)sizeof got) {
        if (got.ssi_signo == SIGUSR1)
            print(s, stderr);
        else if (got.ssi_signo == SIGHUP && !mr_signals_terminal_gone())
            reload(s, &got);
        else if (got.ssi_signo == SIGCONT)
            go_on(s);
        else if (got.ssi_signo != SIGCHLD)
            interrupt(s, &got);
    }
}

static bool is_over(const mr_supervisor *s) {
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].pid || !s->children[i].done)
            return false;
    return true;
}

static int wait_for_something(mr_supervisor *s, struct pollfd *polled) {
    polled[0] = (struct pollfd){.fd = s->signals, .events = POLLIN};
    for (size_t i = 0; i < s->count; i++)
        polled[i + 1] = (struct pollfd){.fd = s->children[i].pipe, .events = POLLIN};
    polled[s->count + 1] = (struct pollfd){.fd = mr_nodes_http_descriptor(s->http), .events = POLLIN};
    if (poll(polled, s->count + 2, (int)(tick_ns / 1000000)) < 0 && errno != EINTR)
        return mr_fail(MR_ERROR_INTERNAL, "cannot wait for nodes: %s", strerror(errno));
    mr_nodes_http_hold(s->http);
    for (size_t i = 0; i < s->count; i++)
        if (polled[i + 1].revents)
            mr_child_read(&s->children[i]);
    take_signals(s);
    mr_supervisor_mark_dead(s);
    mr_nodes_http_show(s->http, s->draining, false);
    return MR_OK;
}

static int watch(mr_supervisor *s) {
    struct pollfd *polled = calloc(s->count + 2, sizeof *polled);
    int status = polled ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for nodes");
    while (!status && !is_over(s)) {
        int64_t now_ns = mr_now_ns();
        status = mr_supervisor_start_due(s, now_ns);
        keep_drain_short(s, now_ns);
        end_what_waits(s);
        give_signs(s, now_ns);
        if (!status)
            status = wait_for_something(s, polled);
    }
    free(polled);
    return status;
}

/* ---- together -------------------------------------------------------------------------------------------------- */

static int make_children(mr_supervisor *s) {
    const mr_plan_view *plan = s->how->plan;
    size_t all = 0;
    for (size_t n = 0; n < plan->node_count; n++)
        all += (size_t)plan->nodes[n].replicas;
    s->children = calloc(all, sizeof *s->children);
    if (!s->children)
        return mr_fail(MR_ERROR_MEMORY, "no memory for nodes");
    for (int n = 0; n < (int)plan->node_count; n++) {
        const mr_view_node *node = &plan->nodes[n];
        if (!mr_launch_is_here(node->address)) {
            mr_print(stderr, "millrace: node %s is on another machine (%s): start it there with --node %s\n", node->id,
                     node->address, node->id);
            continue;
        }
        for (int r = 0; r < node->replicas; r++) {
            mr_child *child = &s->children[s->count++];
            *child = (mr_child){.node = n, .replica = r, .pipe = -1,
                                .resumes = s->how->resume ? node->restarts_matter : node->restarts_continue};
            mr_child_name(child->name, node, r);
        }
    }
    return s->count ? MR_OK : mr_fail(MR_ERROR_CONFIG, "no node of %s is on this machine", plan->file);
}

static int catch_signals(mr_supervisor *s) {
    sigset_t set;
    mr_signals_note_terminal();
    sigemptyset(&set);
    mr_signals_add(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGCONT);
    if (sigprocmask(SIG_BLOCK, &set, NULL) ||
        (s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return mr_fail(MR_ERROR_INTERNAL, "cannot wait for signals: %s", strerror(errno));
    return MR_OK;
}

static void end_children(mr_supervisor *s) {
    for (size_t i = 0; i < s->count; i++) {
        mr_child *child = &s->children[i];
        if (child->pid) {
            kill(child->pid, SIGKILL);
            waitpid(child->pid, NULL, 0);
        }
        mr_child_fini(child);
    }
    free(s->children);
}

/* If output goes into a pipe, only results are printed; but a failure always prints the ledger. */
static int conclude(mr_supervisor *s) {
    if (s->how->show)
        fprintf(stderr, "\r\033[K");
    if (!s->exit_code && !mr_children_tally(s->children, s->count).balanced)
        s->exit_code = mr_status_exit_code(MR_ERROR_INTERNAL);
    const mr_loss loss = mr_children_loss(s->children, s->count);
    int lost = mr_loss_check(&loss, &s->how->loss), failed = MR_OK;
    if (!s->exit_code)
        s->exit_code = mr_status_exit_code(lost);
    const bool quiet = s->how->quiet || mr_supervisor_is_closed(s->exit_code) || (s->how->part && !s->exit_code);
    const bool table = !s->how->json && (s->exit_code || isatty(STDERR_FILENO));
    if (s->how->json)
        failed = mr_children_print_json(s->how->plan, s->children, s->count, seconds_since(s->began_ns), s->exit_code,
                                        lost ? mr_message() : NULL, s->how->json_stream);
    if (!quiet && table)
        failed = print(s, stderr);
    else if (!quiet && !(s->how->json && s->how->json_stream == stderr))
        mr_loss_print(&loss, stderr);
    if (lost && !failed)
        mr_command_failed(mr_loss_check(&loss, &s->how->loss));
    return failed;
}

int mr_supervise(const mr_supervision *how) {
    mr_supervisor s = {.how = how, .signals = -1, .self = getpid(), .began_ns = mr_now_ns()};
    int status = catch_signals(&s);
    if (!status)
        status = mr_supervisor_environment(&s);
    if (!status)
        status = make_children(&s);
    if (!status && how->serves)
        status = mr_nodes_http_open(&s.http, how->plan, s.children, s.count, how->control);
    if (!status)
        status = watch(&s);
    if (!status)
        status = conclude(&s);
    mr_nodes_http_hold(s.http);
    mr_nodes_http_show(s.http, true, true);
    take_signals(&s); /* a child's end may still be among them */
    if (!status)
        mr_nodes_http_linger(s.http, s.signals, s.draining ? s.drain_ns : 0);
    mr_supervisor_kill(&s); /* a request may wait for a node that still runs because of a failure */
    int code = status ? mr_command_failed(status) : s.exit_code;
    mr_nodes_http_close(&s.http, code);
    end_children(&s);
    if (s.signals >= 0)
        close(s.signals);
    mr_temp_folder_remove(&s.temp);
    return code;
}
