/* Inside the supervisor: declarations that its files share. */
#pragma once

#include "engine/base/temp_folder.h"
#include "tools/millrace/http/health.h"
#include "tools/millrace/run/children.h"
#include "tools/millrace/run/nodes_http.h"
#include "tools/millrace/run/supervisor.h"

typedef struct mr_supervisor {
    const mr_supervision *how;
    mr_child *children;
    size_t count;
    int signals;
    pid_t self;
    bool draining, asked_all, said_ready;
    int64_t began_ns, drain_ns, shown_ns, alive_ns;
    int64_t asked_ns;          /* when a signal asked for the end; 0: none has */
    int exit_code;             /* the first failure's */
    mr_nodes_http *http;       /* NULL: there is no HTTP server */
    mr_movement movement;
    mr_temp_folder temp;            /* for sockets and checkpoints */
    char checkpoint[MR_TEMP_FOLDER_PATH + 16]; /* in that folder; node names are appended */
} mr_supervisor;

const mr_view_node *mr_supervisor_node(const mr_supervisor *s, const mr_child *child);
bool mr_supervisor_reads(const mr_supervisor *s, const mr_child *child);
/* True if a restarted process gives the same frames with the same numbers. */
bool mr_supervisor_repeats(const mr_supervisor *s, const mr_child *child);
/* True if a process ended because standard output was closed; nothing must be printed about that. */
bool mr_supervisor_is_closed(int exit_code);
/* Kills all remaining processes. */
void mr_supervisor_kill(mr_supervisor *s);
/* Prints a line, and shows it over HTTP. */
void mr_supervisor_say(const mr_supervisor *s, mr_log_level level, const char *text);
/* Asks the processes that read sources to end, and with `all` the others too; see supervisor.h. */
void mr_supervisor_drain(mr_supervisor *s, bool all);

/* supervisor_start.c: the environment of all processes, and the starts that are due. */
int mr_supervisor_environment(mr_supervisor *s);
int mr_supervisor_start_due(mr_supervisor *s, int64_t now_ns);
/* supervisor_deaths.c: reaps dead processes; restarts each one or gives it up. */
void mr_supervisor_mark_dead(mr_supervisor *s);
/* Lets nodes stop waiting for a process that has ended for good (engine/transport/cut/cut_end.h). */
void mr_supervisor_publish_end(const mr_supervisor *s, const mr_child *child);
/* Whether all processes on a node ended by themselves with exit code 0. All frames over the node's cuts are then
 * settled, see engine/plan/cut.h. */
bool mr_supervisor_ended(const mr_supervisor *s, int node);
