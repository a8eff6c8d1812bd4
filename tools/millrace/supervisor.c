#include "tools/millrace/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tools/millrace/aside.h"
#include "tools/millrace/command.h"
#include "tools/millrace/launch.h"
#include "tools/millrace/notify.h"
#include "tools/millrace/plan.h"
#include "tools/millrace/report.h"

static const int64_t second_ns = 1000000000, minute_ns = 60000000000, tick_ns = 250000000;
/* From when sources were asked to end: all nodes are, and all are ended. */
static const int64_t ask_all_ns = 4000000000, end_all_ns = 9000000000;
static const int64_t first_wait_ns = 100000000;

typedef struct supervisor {
    const mr_supervision *how;
    mr_child *children;
    size_t count;
    int signals;
    pid_t self;
    bool draining, asked_all, said_ready;
    int64_t began_ns, drain_ns, shown_ns, alive_ns;
    int exit_code;             /* the first failure's */
    char folder[MR_ASIDE];     /* for sockets; "": not ours */
} supervisor;

static const mr_plan_node *node_of(const supervisor *s, const mr_child *child) {
    return &s->how->plan->nodes[child->node];
}

static bool reads_sources(const supervisor *s, const mr_child *child) {
    return node_of(s, child)->source_count > 0;
}

static void fail_with(supervisor *s, int exit_code) {
    s->exit_code = s->exit_code ? s->exit_code : exit_code;
}

static void say(const supervisor *s, const char *text) {
    fprintf(stderr, "%smillrace: %s\n", s->how->show ? "\r\033[K" : "", text);
}

/* ---- starting -------------------------------------------------------------------------------------------------- */

/* Whether a stage of the author's in the node writes somewhere: then a checkpoint says where it goes on. */
static bool has_sinks(const supervisor *s, const mr_child *child) {
    const mr_plan *plan = s->how->plan;
    for (size_t v = plan->source_count; v < plan->vertex_count; v++)
        if (plan->vertices[v].node == child->node && !plan->vertices[v].type->outputs &&
            mr_plan_is_authored(&plan->vertices[v]))
            return true;
    return false;
}

/* An option whose value is a file of each node's own. */
static const char *of_node(const char *option, const char *path, const mr_child *child) {
    char *text = NULL;
    if (asprintf(&text, strcmp(path, "off") == 0 ? "%s=%s" : "%s=%s.%s", option, path, child->name) < 0)
        _exit(mr_status_exit_code(MR_ERROR_MEMORY));
    return text;
}

/* In the child; never returns. It gets no signals of the terminal, and ends with who started it. */
static void become(const supervisor *s, const mr_child *child, int report) {
    char replica[16], fd[16];
    size_t count = 0;
    while (s->how->command[count])
        count++;
    const char **command = calloc(count + 7, sizeof *command);
    if (!command)
        _exit(mr_status_exit_code(MR_ERROR_MEMORY));
    memcpy(command, s->how->command, count * sizeof *command);
    snprintf(replica, sizeof replica, "%d", child->replica);
    snprintf(fd, sizeof fd, "%d", report);
    command[count++] = "--node";
    command[count++] = node_of(s, child)->id;
    command[count++] = "--replica";
    command[count++] = replica;
    if (s->how->resume && (reads_sources(s, child) || has_sinks(s, child)))
        command[count++] = of_node("--resume", s->how->resume, child);
    if (s->how->control)
        command[count] = of_node("--control", s->how->control, child);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != s->self)
        _exit(mr_status_exit_code(MR_ERROR_CANCELLED));
    setenv(MR_REPORT_VARIABLE, fd, 1);
    execv("/proc/self/exe", (char *const *)(uintptr_t)command);
    fprintf(stderr, "millrace: error: cannot start the node %s: %s\n", child->name, strerror(errno));
    _exit(mr_status_exit_code(MR_ERROR_INTERNAL));
}

static int start(supervisor *s, mr_child *child) {
    int ends[2];
    child->ready = child->finished = child->asked = false;
    child->length = 0;
    child->start_ns = 0;
    if (pipe2(ends, O_CLOEXEC))
        return mr_fail(MR_ERROR_INTERNAL, "no pipe to the node %s: %s", child->name, strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        fcntl(ends[1], F_SETFD, 0);
        become(s, child, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return mr_fail(MR_ERROR_INTERNAL, "cannot start the node %s: %s", child->name, strerror(errno));
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    child->report = ends[0];
    child->pid = pid;
    return MR_OK;
}

static int start_due(supervisor *s, int64_t now_ns) {
    for (size_t i = 0; i < s->count; i++) {
        mr_child *child = &s->children[i];
        if (child->pid || child->done || child->start_ns > now_ns)
            continue;
        int status = start(s, child);
        if (status)
            return status;
    }
    return MR_OK;
}

/* ---- ending ---------------------------------------------------------------------------------------------------- */

static void ask_to_end(supervisor *s, bool all) {
    for (size_t i = 0; i < s->count; i++) {
        mr_child *child = &s->children[i];
        if (!child->pid || child->asked || (!all && !reads_sources(s, child)))
            continue;
        child->asked = true;
        kill(child->pid, SIGTERM);
    }
}

static void drain(supervisor *s) {
    s->draining = true;
    s->drain_ns = mr_clock_now_ns(mr_clock_real());
    mr_notify("STOPPING=1");
    /* What reads is not begun anew; what is behind it is still wanted. */
    for (size_t i = 0; i < s->count; i++) {
        mr_child *child = &s->children[i];
        child->done = child->done || (!child->pid && reads_sources(s, child));
        child->start_ns = 0;
    }
    ask_to_end(s, false);
}

static void keep_drain_short(supervisor *s, int64_t now_ns) {
    if (s->draining && !s->asked_all && now_ns - s->drain_ns > ask_all_ns) {
        s->asked_all = true;
        ask_to_end(s, true);
    }
    for (size_t i = 0; s->draining && now_ns - s->drain_ns > end_all_ns && i < s->count; i++) {
        mr_child *child = &s->children[i];
        child->done = true;
        if (child->pid)
            kill(child->pid, SIGKILL);
    }
}

/* ---- what died ------------------------------------------------------------------------------------------------- */

/* Whether a cut in one of both directions makes one node wait for the other. */
static bool wait_for_each_other(const mr_plan *plan, int a, int b) {
    for (size_t i = 0; i < plan->cut_count; i++) {
        const mr_plan_cut *cut = &plan->cuts[i];
        bool between = (cut->from == a && cut->to == b) || (cut->from == b && cut->to == a);
        if (between && cut->cut->mode == MR_CUT_RELIABLE)
            return true;
    }
    return false;
}

/* Whether a process of the node still runs or is to be started. */
static bool lives(const supervisor *s, int node) {
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].node == node && !s->children[i].done)
            return true;
    return false;
}

/* Marks the nodes that wait, directly or through others, for one of which no process is left. */
static void mark_stuck(const supervisor *s, bool *stuck) {
    const mr_plan *plan = s->how->plan;
    for (size_t i = 0; i < s->count; i++)
        stuck[s->children[i].node] |= s->children[i].given_up && !lives(s, s->children[i].node);
    for (size_t round = 0; round < plan->node_count; round++)
        for (int a = 0; a < (int)plan->node_count; a++)
            for (int b = 0; stuck[a] && b < (int)plan->node_count; b++)
                stuck[b] |= wait_for_each_other(plan, a, b);
}

/* Where all that is left waits for what was given up, nothing more will come of it. */
static void end_what_is_stuck(supervisor *s) {
    bool stuck[MR_SPEC_MAX_NODES] = {false}, any = false, free = false;
    mark_stuck(s, stuck);
    for (size_t i = 0; i < s->count; i++) {
        bool left = !s->children[i].done;
        any = any || (left && stuck[s->children[i].node]);
        free = free || (left && !stuck[s->children[i].node]);
    }
    if (any && !free && !s->draining) {
        say(s, "all that is left waits for it: ending");
        drain(s);
        s->asked_all = true;
        ask_to_end(s, true);
    }
}

/* Another start would come to the same. */
static bool is_final(int exit_code) {
    static const int statuses[] = {MR_OK,           MR_ERROR_USAGE,      MR_ERROR_DATA,
                                   MR_ERROR_CONFIG, MR_ERROR_PERMISSION, MR_ERROR_NO_INPUT};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (exit_code == mr_status_exit_code(statuses[i]))
            return true;
    return false;
}

/* How many of its last deaths were within a minute, this one included. */
static int note_death(mr_child *child, int64_t now_ns) {
    int recent = 1;
    memmove(child->died_ns + 1, child->died_ns, (MR_CHILD_STARTS - 1) * sizeof *child->died_ns);
    child->died_ns[0] = now_ns;
    while (recent < MR_CHILD_STARTS && child->died_ns[recent] && now_ns - child->died_ns[recent] < minute_ns)
        recent++;
    return recent;
}

static void start_again(supervisor *s, mr_child *child, const char *why, int64_t now_ns) {
    char text[256];
    int recent = note_death(child, now_ns);
    if (recent >= MR_CHILD_STARTS) {
        child->done = child->given_up = true;
        fail_with(s, child->exit_code > 128 ? mr_status_exit_code(MR_ERROR_INTERNAL) : child->exit_code);
        snprintf(text, sizeof text, "error: node %s %s; it has died %d times within a minute and is given up",
                 child->name, why, recent);
        say(s, text);
        end_what_is_stuck(s);
        return;
    }
    int64_t wait_ns = s->draining ? 0 : first_wait_ns << (recent - 1);
    child->restarts++;
    child->start_ns = now_ns + wait_ns;
    snprintf(text, sizeof text, "warning: node %s %s; it is started again in %.1f s", child->name, why,
             (double)wait_ns / (double)second_ns);
    say(s, text);
}

static void bury(supervisor *s, mr_child *child, int how) {
    char why[64];
    child->pid = 0;
    mr_child_read(child);
    child->exit_code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    if (WIFEXITED(how))
        snprintf(why, sizeof why, "ended with exit code %d", child->exit_code);
    else
        snprintf(why, sizeof why, "was ended by signal %d", WTERMSIG(how));
    /* It had not begun. */
    if (child->asked && !child->ready && child->exit_code == 128 + SIGTERM)
        child->exit_code = 0;
    bool over = child->done || child->finished || (WIFEXITED(how) && is_final(child->exit_code)) ||
                (s->draining && reads_sources(s, child));
    if (over) {
        child->done = true;
        fail_with(s, child->exit_code);
        return;
    }
    start_again(s, child, why, mr_clock_now_ns(mr_clock_real()));
}

static void bury_all(supervisor *s) {
    for (size_t i = 0; i < s->count; i++) {
        int how;
        mr_child *child = &s->children[i];
        if (child->pid && waitpid(child->pid, &how, WNOHANG) == child->pid)
            bury(s, child, how);
    }
}

/* ---- telling --------------------------------------------------------------------------------------------------- */

static double seconds_since(int64_t ns) {
    return (double)(mr_clock_now_ns(mr_clock_real()) - ns) / (double)second_ns;
}

static void tell(supervisor *s, int64_t now_ns) {
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

static void give_signs(supervisor *s, int64_t now_ns) {
    int64_t every_ns = mr_notify_watchdog_ns();
    if (now_ns - s->shown_ns >= second_ns / 2 || !s->shown_ns)
        tell(s, now_ns);
    if (every_ns && now_ns - s->alive_ns >= every_ns / 2) {
        mr_notify("WATCHDOG=1");
        s->alive_ns = now_ns;
    }
}

static int print(supervisor *s, FILE *stream) {
    return mr_children_print(s->how->plan, s->children, s->count, seconds_since(s->began_ns), stream);
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

/* The second one ends everything at once. */
static void interrupt(supervisor *s, int number) {
    if (!s->draining) {
        if (isatty(STDERR_FILENO))
            say(s, "finishing what is in flight; once more to exit at once");
        drain(s);
        return;
    }
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].pid)
            kill(s->children[i].pid, SIGKILL);
    print(s, stderr);
    mr_aside_remove(s->folder);
    _exit(128 + number);
}

static void take_signals(supervisor *s) {
    struct signalfd_siginfo got;
    while (read(s->signals, &got, sizeof got) == (ssize_t)sizeof got) {
        if (got.ssi_signo == SIGCHLD)
            bury_all(s);
        else if (got.ssi_signo == SIGUSR1)
            print(s, stderr);
        else
            interrupt(s, (int)got.ssi_signo);
    }
}

static bool is_over(const supervisor *s) {
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].pid || !s->children[i].done)
            return false;
    return true;
}

static int wait_for_something(supervisor *s, struct pollfd *polled) {
    polled[0] = (struct pollfd){.fd = s->signals, .events = POLLIN};
    for (size_t i = 0; i < s->count; i++)
        polled[i + 1] = (struct pollfd){.fd = s->children[i].report, .events = POLLIN};
    if (poll(polled, s->count + 1, (int)(tick_ns / 1000000)) < 0 && errno != EINTR)
        return mr_fail(MR_ERROR_INTERNAL, "cannot wait for nodes: %s", strerror(errno));
    for (size_t i = 0; i < s->count; i++)
        if (polled[i + 1].revents)
            mr_child_read(&s->children[i]);
    take_signals(s);
    return MR_OK;
}

static int watch(supervisor *s) {
    struct pollfd *polled = calloc(s->count + 1, sizeof *polled);
    int status = polled ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for nodes");
    while (!status && !is_over(s)) {
        int64_t now_ns = mr_clock_now_ns(mr_clock_real());
        status = start_due(s, now_ns);
        keep_drain_short(s, now_ns);
        give_signs(s, now_ns);
        if (!status)
            status = wait_for_something(s, polled);
    }
    free(polled);
    return status;
}

/* ---- together -------------------------------------------------------------------------------------------------- */

static int make_children(supervisor *s) {
    const mr_plan *plan = s->how->plan;
    size_t all = 0;
    for (size_t n = 0; n < plan->node_count; n++)
        all += (size_t)plan->nodes[n].replicas;
    s->children = calloc(all, sizeof *s->children);
    if (!s->children)
        return mr_fail(MR_ERROR_MEMORY, "no memory for nodes");
    for (int n = 0; n < (int)plan->node_count; n++) {
        const mr_plan_node *node = &plan->nodes[n];
        if (!mr_launch_is_here(node->address)) {
            fprintf(stderr, "millrace: node %s is on another machine (%s): start it there with --node %s\n", node->id,
                    node->address, node->id);
            continue;
        }
        for (int r = 0; r < node->replicas; r++) {
            mr_child *child = &s->children[s->count++];
            *child = (mr_child){.node = n, .replica = r, .report = -1};
            snprintf(child->name, sizeof child->name, node->replicas > 1 ? "%s.%d" : "%s", node->id, r + 1);
        }
    }
    return s->count ? MR_OK : mr_fail(MR_ERROR_CONFIG, "no node of %s is on this machine", plan->spec->file);
}

/* What all nodes share: a folder for their sockets, and the number of the run. */
static int set_environment(supervisor *s) {
    uint64_t run;
    char text[32];
    const char *said = getenv("MILLRACE_RUNTIME");
    int status = said && *said ? MR_OK : mr_aside_make(s->folder);
    if (status)
        return status;
    if (*s->folder)
        setenv("MILLRACE_RUNTIME", s->folder, 1);
    if (getrandom(&run, sizeof run, 0) != (ssize_t)sizeof run)
        return mr_fail(MR_ERROR_INTERNAL, "no random number for the run: %s", strerror(errno));
    snprintf(text, sizeof text, "%016llx", (unsigned long long)run);
    setenv("MILLRACE_RUN", text, 0);
    return MR_OK;
}

static int catch_signals(supervisor *s) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) ||
        (s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return mr_fail(MR_ERROR_INTERNAL, "cannot wait for signals: %s", strerror(errno));
    return MR_OK;
}

static void end_children(supervisor *s) {
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

/* In a pipe only results are printed; but a failure is never left without its ledger. */
static int conclude(supervisor *s) {
    if (s->how->show)
        fprintf(stderr, "\r\033[K");
    if (!s->exit_code && !mr_children_tally(s->children, s->count).balanced)
        s->exit_code = mr_status_exit_code(MR_ERROR_INTERNAL);
    if (s->how->json)
        return mr_children_print_json(s->how->plan, s->children, s->count, seconds_since(s->began_ns), s->exit_code,
                                      s->how->json_stream);
    if (!s->how->quiet && (s->exit_code || isatty(STDERR_FILENO)))
        return print(s, stderr);
    return MR_OK;
}

int mr_supervise(const mr_supervision *how) {
    supervisor s = {.how = how, .signals = -1, .self = getpid(), .began_ns = mr_clock_now_ns(mr_clock_real())};
    int status = catch_signals(&s);
    if (!status)
        status = set_environment(&s);
    if (!status)
        status = make_children(&s);
    if (!status)
        status = watch(&s);
    if (!status)
        status = conclude(&s);
    int code = status ? mr_command_failed(status) : s.exit_code;
    end_children(&s);
    if (s.signals >= 0)
        close(s.signals);
    if (*s.folder)
        mr_aside_remove(s.folder);
    return code;
}
