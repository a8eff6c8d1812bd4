/* Processes that have died: which are started again, which are given up, and when nothing more will come. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "engine/base/clock.h"
#include "engine/flow/resume_plan.h"
#include "tools/millrace/supervisor_parts.h"

static const int64_t second_ns = 1000000000, minute_ns = 60000000000, first_wait_ns = 100000000;

/* The first failure's exit code is the run's; what was ended by a signal is a failure of ours. */
static void fail_with(mr_supervisor *s, int exit_code) {
    int code = exit_code > 128 ? mr_status_exit_code(MR_ERROR_INTERNAL) : exit_code;
    s->exit_code = s->exit_code ? s->exit_code : code;
}

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
static bool lives(const mr_supervisor *s, int node) {
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].node == node && !s->children[i].done)
            return true;
    return false;
}

/* Marks the nodes that wait, directly or through others, for one of which no process is left. */
static void mark_stuck(const mr_supervisor *s, bool *stuck) {
    const mr_plan *plan = s->how->plan;
    for (size_t i = 0; i < s->count; i++)
        stuck[s->children[i].node] |= s->children[i].given_up && !lives(s, s->children[i].node);
    for (size_t round = 0; round < plan->node_count; round++)
        for (int a = 0; a < (int)plan->node_count; a++)
            for (int b = 0; stuck[a] && b < (int)plan->node_count; b++)
                stuck[b] |= wait_for_each_other(plan, a, b);
}

/* Where all that is left waits for what was given up, nothing more will come of it. */
static void end_what_is_stuck(mr_supervisor *s) {
    bool stuck[MR_SPEC_MAX_NODES] = {false}, any = false, free = false;
    mark_stuck(s, stuck);
    for (size_t i = 0; i < s->count; i++) {
        bool left = !s->children[i].done;
        any = any || (left && stuck[s->children[i].node]);
        free = free || (left && !stuck[s->children[i].node]);
    }
    if (any && !free && !s->draining) {
        mr_supervisor_say(s, "all that is left waits for it: ending");
        mr_supervisor_drain(s, true);
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

static void start_again(mr_supervisor *s, mr_child *child, const char *why, int64_t now_ns) {
    char text[256];
    int recent = note_death(child, now_ns);
    if (recent >= MR_CHILD_STARTS) {
        child->done = child->given_up = true;
        fail_with(s, child->exit_code);
        snprintf(text, sizeof text, "error: node %s %s; it has died %d times within a minute and is given up",
                 child->name, why, recent);
        mr_supervisor_say(s, text);
        end_what_is_stuck(s);
        return;
    }
    if (!mr_supervisor_repeats(s, child))
        mr_child_remember(child);
    int64_t wait_ns = s->draining ? 0 : first_wait_ns << (recent - 1);
    child->restarts++;
    child->start_ns = now_ns + wait_ns;
    const char *anew = child->resumes || !mr_resume_concerns(s->how->plan, child->node) ? "" : ", and begins anew";
    snprintf(text, sizeof text, "warning: node %s %s; it is started again in %.1f s%s", child->name, why,
             (double)wait_ns / (double)second_ns, anew);
    mr_supervisor_say(s, text);
}

static void bury(mr_supervisor *s, mr_child *child, int how) {
    char why[64];
    child->pid = 0;
    mr_child_read(child);
    child->exit_code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    if (WIFEXITED(how))
        snprintf(why, sizeof why, "ended with exit code %d", child->exit_code);
    else
        snprintf(why, sizeof why, "was ended by signal %d", WTERMSIG(how));
    /* All was done and told; it had only to go. */
    if (child->finished && child->exit_code > 128)
        child->exit_code = (int)mr_told_integer(child->told, "exit_code");
    /* It had not begun. */
    if (child->asked && !child->ready && child->exit_code == 128 + SIGTERM)
        child->exit_code = 0;
    bool over = child->done || child->finished || (WIFEXITED(how) && is_final(child->exit_code)) ||
                (s->draining && mr_supervisor_reads(s, child));
    if (over) {
        child->done = true;
        fail_with(s, child->exit_code);
        return;
    }
    start_again(s, child, why, mr_clock_now_ns(mr_clock_real()));
}

void mr_supervisor_bury(mr_supervisor *s) {
    for (size_t i = 0; i < s->count; i++) {
        int how;
        mr_child *child = &s->children[i];
        if (child->pid && waitpid(child->pid, &how, WNOHANG) == child->pid)
            bury(s, child, how);
    }
}

