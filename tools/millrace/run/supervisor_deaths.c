/* Handles dead processes: restarts them, gives them up, or ends a run that cannot continue. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "engine/base/clock.h"
#include "engine/base/print.h"
#include "tools/millrace/run/supervisor_parts.h"

static const int64_t second_ns = 1000000000, minute_ns = 60000000000, first_wait_ns = 100000000;

/* The run has the first failure's exit code. If a signal ended the process, that counts as an internal error. */
static void fail_with(mr_supervisor *s, int exit_code) {
    bool signalled = exit_code > 128 && !mr_supervisor_is_closed(exit_code);
    int code = signalled ? mr_status_exit_code(MR_ERROR_INTERNAL) : exit_code;
    s->exit_code = s->exit_code ? s->exit_code : code;
}

static bool is_reliable(const mr_view_cut *cut) {
    return strcmp(cut->mode, "reliable") == 0;
}

static bool ended_in_order(const mr_child *child) {
    return child->done && child->finished && !child->asked && !child->exit_code;
}

static bool has_failed(const mr_child *child) {
    return child->done && child->exit_code;
}

/* True if all processes of a node on this machine have failed. If others live, they do its work. */
static bool is_lost(const mr_supervisor *s, int node) {
    bool any = false;
    for (size_t i = 0; i < s->count; i++) {
        if (s->children[i].node == node && !has_failed(&s->children[i]))
            return false;
        any |= s->children[i].node == node;
    }
    return any;
}

/* True if the node reads no source, and all of its producers that have not ended are stuck. */
static bool starves(const mr_supervisor *s, int node, const bool *stuck) {
    const mr_plan_view *plan = s->how->plan;
    bool any = false;
    if (plan->nodes[node].source_count)
        return false;
    for (size_t i = 0; i < plan->cut_count; i++) {
        if (plan->cuts[i].to != node || mr_supervisor_ended(s, plan->cuts[i].from))
            continue;
        if (!stuck[plan->cuts[i].from])
            return false;
        any = true;
    }
    return any;
}

/* Marks the nodes that are lost, and those that wait for one, directly or through others: a producer waits until a
 * reliable cut takes its frames, a consumer until any producer gives it some. */
static void mark_stuck(const mr_supervisor *s, bool *stuck) {
    const mr_plan_view *plan = s->how->plan;
    for (int node = 0; node < (int)plan->node_count; node++)
        stuck[node] = is_lost(s, node);
    for (size_t round = 0; round < plan->node_count; round++) {
        for (size_t i = 0; i < plan->cut_count; i++)
            stuck[plan->cuts[i].from] |= is_reliable(&plan->cuts[i]) && stuck[plan->cuts[i].to];
        for (int node = 0; node < (int)plan->node_count; node++)
            stuck[node] |= starves(s, node, stuck);
    }
}

/* If all remaining nodes wait for those that were given up, the run ends. */
static void end_what_is_stuck(mr_supervisor *s) {
    bool stuck[MR_VIEW_MOST_NODES] = {false}, any = false, free = false;
    mark_stuck(s, stuck);
    for (size_t i = 0; i < s->count; i++) {
        bool left = !s->children[i].done && !s->children[i].finished;
        any = any || (left && stuck[s->children[i].node]);
        free = free || (left && !stuck[s->children[i].node]);
    }
    if (any && !free && !s->draining) {
        mr_supervisor_say(s, MR_LOG_INFO, "all nodes that still run wait for one that has failed: ending");
        mr_supervisor_drain(s, true);
        if (mr_supervisor_is_closed(s->exit_code))
            mr_supervisor_kill(s);
    }
}

/* True if a restart would end with the same failure. */
static bool is_final(int exit_code) {
    static const int statuses[] = {MR_OK,           MR_ERROR_USAGE,      MR_ERROR_DATA,
                                   MR_ERROR_CONFIG, MR_ERROR_PERMISSION, MR_ERROR_NO_INPUT};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (exit_code == mr_status_exit_code(statuses[i]))
            return true;
    return false;
}

/* ---- nodes that ended normally ----------------------------------------------------------------------------------- */

bool mr_supervisor_ended(const mr_supervisor *s, int node) {
    bool any = false;
    for (size_t i = 0; i < s->count; i++) {
        if (s->children[i].node == node && !ended_in_order(&s->children[i]))
            return false;
        any |= s->children[i].node == node;
    }
    return any;
}

/* True if a node that only reads sources has not sent any frame, and will not. */
static bool has_given_nothing(const mr_supervisor *s, int node) {
    for (size_t i = 0; i < s->how->plan->cut_count; i++)
        if (s->how->plan->cuts[i].to == node)
            return false;
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].node == node && !s->children[i].unbegun)
            return false;
    return true;
}

static void publish(const mr_supervisor *s, const char *name, const char *what) {
    char path[MR_TEMP_FOLDER_PATH + 128];
    snprintf(path, sizeof path, "%s/%s.%s", s->temp.folder, name, what);
    FILE *file = fopen(path, "we");
    if (file)
        fclose(file);
    else
        mr_print(stderr, "millrace: warning: %s cannot be written (%s): other nodes may wait for %s\n", path,
                 strerror(errno), name);
}

void mr_supervisor_publish_end(const mr_supervisor *s, const mr_child *child) {
    if (has_failed(child))
        publish(s, child->name, "failed");
    if (mr_supervisor_ended(s, child->node) || has_given_nothing(s, child->node))
        publish(s, s->how->plan->nodes[child->node].id, "ended");
}

/* True if frames are delivered in this vertex. */
static bool delivers(const mr_plan_view *plan, size_t v) {
    const mr_view_stage *vertex = &plan->stages[v];
    bool taken = false;
    if (!vertex->output_count)
        return vertex->role != MR_VIEW_CUT_OUT;
    for (size_t port = 0; port < vertex->output_count; port++, taken = false) {
        for (size_t e = 0; e < plan->link_count; e++)
            taken |= plan->links[e].from == (int)v && plan->links[e].from_port == (int)port;
        if (!taken)
            return true;
    }
    return false;
}

/* Whether a process's work is done: the consumers of its frames have ended normally, and it delivers none itself. If it
 * can give the same frames again, it is restarted all the same, to account for them. */
static bool has_given_all(const mr_supervisor *s, const mr_child *child) {
    const mr_plan_view *plan = s->how->plan;
    if (mr_supervisor_repeats(s, child))
        return false;
    for (size_t i = 0; i < plan->cut_count; i++)
        if (plan->cuts[i].from == child->node && !mr_supervisor_ended(s, plan->cuts[i].to))
            return false;
    for (size_t v = 0; v < plan->stage_count; v++)
        if (plan->stages[v].node == child->node && delivers(plan, v))
            return false;
    return true;
}

/* ---- deaths ------------------------------------------------------------------------------------------------------ */

/* Returns how many recent deaths were within a minute, this one included. */
static int note_death(mr_child *child, int64_t now_ns) {
    int recent = 1;
    memmove(child->died_ns + 1, child->died_ns, (MR_CHILD_STARTS - 1) * sizeof *child->died_ns);
    child->died_ns[0] = now_ns;
    while (recent < MR_CHILD_STARTS && child->died_ns[recent] && now_ns - child->died_ns[recent] < minute_ns)
        recent++;
    return recent;
}

/* A process ends for good. */
static void end(mr_supervisor *s, mr_child *child) {
    child->done = true;
    fail_with(s, child->exit_code);
    mr_supervisor_publish_end(s, child);
}

/* Gives up a process that could not start and would fail again. */
static void give_up(const mr_supervisor *s, mr_child *child, const char *why) {
    char text[1024];
    child->given_up = true;
    snprintf(text, sizeof text, "node %s %s, and would again: it is given up", child->name, why);
    mr_supervisor_say(s, MR_LOG_ERROR, text);
}

static void start_again(mr_supervisor *s, mr_child *child, const char *why, int64_t now_ns) {
    char text[1024];
    int recent = note_death(child, now_ns);
    if (recent >= MR_CHILD_STARTS) {
        child->given_up = true;
        end(s, child);
        snprintf(text, sizeof text, "node %s %s; it has died %d times within a minute and is given up",
                 child->name, why, recent);
        mr_supervisor_say(s, MR_LOG_ERROR, text);
        end_what_is_stuck(s);
        return;
    }
    if (!mr_supervisor_repeats(s, child))
        mr_child_remember(child, false);
    int64_t wait_ns = s->draining ? 0 : first_wait_ns << (recent - 1);
    child->restarts++;
    child->start_ns = now_ns + wait_ns;
    bool anew = !child->resumes && s->how->plan->nodes[child->node].restarts_matter;
    bool report = !anew || child->restarts > 1 || s->how->plan->nodes[child->node].restarts_continue;
    snprintf(text, sizeof text, "node %s %s; it is started again in %.1f s%s%s%s", child->name, why,
             (double)wait_ns / (double)second_ns, anew ? ", from the beginning" : "", report ? "" : ": ",
             report ? "" : mr_message());
    mr_supervisor_say(s, MR_LOG_WARNING, text);
}

/* Unsettled frames that the process sent are lost. */
static void tell_not_again(mr_supervisor *s, const mr_child *child, const char *why) {
    char text[1024];
    snprintf(text, sizeof text, "node %s %s while the run was ending: it is not started again", child->name,
             why);
    mr_supervisor_say(s, MR_LOG_ERROR, text);
}

static void mark_dead(mr_supervisor *s, mr_child *child, int how) {
    char why[64];
    child->pid = 0;
    mr_child_read(child);
    child->exit_code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    if (WIFEXITED(how))
        snprintf(why, sizeof why, "ended with exit code %d", child->exit_code);
    else
        snprintf(why, sizeof why, "was ended by signal %d", WTERMSIG(how));
    /* It had done and reported everything; only the exit was left. */
    if (child->finished && child->exit_code > 128)
        child->exit_code = child->reported_code;
    /* It had not started work, and must not be restarted. */
    const bool dismissed = child->asked && !child->ready && child->exit_code == 128 + SIGTERM;
    if (dismissed) {
        child->exit_code = 0;
        child->unbegun = !child->restarts;
    }
    bool over = child->done || child->finished || dismissed || (WIFEXITED(how) && is_final(child->exit_code)) ||
                (s->draining && mr_supervisor_reads(s, child));
    if (!over && has_given_all(s, child)) {
        mr_child_remember(child, true);
        child->exit_code = 0;
        over = true;
    }
    if (over) {
        end(s, child);
        if (child->exit_code && !child->finished && s->draining)
            tell_not_again(s, child, why);
        else if (child->exit_code && !child->finished)
            give_up(s, child, why);
        end_what_is_stuck(s);
        return;
    }
    start_again(s, child, why, mr_now_ns());
}

void mr_supervisor_mark_dead(mr_supervisor *s) {
    for (size_t i = 0; i < s->count; i++) {
        int how;
        mr_child *child = &s->children[i];
        const pid_t pid = child->pid ? waitpid(child->pid, &how, WNOHANG) : 0;
        /* If other code has already waited for it, the exit status is unknown, and another process may have its number
         * by now. */
        if (pid < 0 && errno == ECHILD)
            mark_dead(s, child, W_EXITCODE(0, SIGKILL));
        else if (pid > 0)
            mark_dead(s, child, how);
    }
}

