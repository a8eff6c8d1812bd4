/* Inside the supervisor: what its files share. */
#ifndef MILLRACE_TOOLS_RUN_SUPERVISOR_PARTS_H
#define MILLRACE_TOOLS_RUN_SUPERVISOR_PARTS_H

#include "engine/base/aside.h"
#include "tools/millrace/run/supervisor.h"

typedef struct mr_supervisor {
    const mr_supervision *how;
    mr_child *children;
    size_t count;
    int signals;
    pid_t self;
    bool draining, asked_all, said_ready;
    int64_t began_ns, drain_ns, shown_ns, alive_ns;
    int exit_code;             /* the first failure's */
    mr_aside aside;            /* for sockets and checkpoints */
    char checkpoint[MR_ASIDE + 16]; /* there; names of nodes come behind it */
} mr_supervisor;

const mr_view_node *mr_supervisor_node(const mr_supervisor *s, const mr_child *child);
bool mr_supervisor_reads(const mr_supervisor *s, const mr_child *child);
/* Whether a process that is started again gives the same frames, with the same numbers. */
bool mr_supervisor_repeats(const mr_supervisor *s, const mr_child *child);
/* Whether it ended because nobody reads standard output any more, of which nothing is said. */
bool mr_supervisor_is_closed(int exit_code);
/* Ends all that is left, at once. */
void mr_supervisor_kill(mr_supervisor *s);
void mr_supervisor_say(const mr_supervisor *s, const char *text);
/* Asks the processes that read sources to end, and with them all that is left; see supervisor.h. */
void mr_supervisor_drain(mr_supervisor *s, bool all);

/* supervisor_start.c: what the processes share, and those whose time has come. */
int mr_supervisor_environment(mr_supervisor *s);
int mr_supervisor_start_due(mr_supervisor *s, int64_t now_ns);
/* supervisor_deaths.c: what has died; it is started again, or given up. */
void mr_supervisor_bury(mr_supervisor *s);
/* Whether all processes of a node have come to their end by themselves, with exit code 0: all that went over their cuts
 * is settled, see engine/plan/cut.h. */
bool mr_supervisor_ended(const mr_supervisor *s, int node);

#endif
