/* Watching over the processes of a pipeline's nodes.
 *
 * Each node runs as a child, `millrace run --node NAME`, that reports through a pipe (report.h). One that dies is
 * started again, after a tenth of a second, then twice as long each time, and goes on where it was, if what it reads
 * and writes can be continued (flow/resume.h); one that has died five times within a minute is given up, and the others
 * go on without it, unless none is left that does not wait for it. SIGTERM, SIGINT and SIGHUP end the nodes that read
 * sources; the others end as their frames do, and are told to where that takes long. One thread. */
#ifndef MILLRACE_TOOLS_RUN_SUPERVISOR_H
#define MILLRACE_TOOLS_RUN_SUPERVISOR_H

#include <stdio.h>
#include <sys/types.h>
#include <yajl/yajl_tree.h>

#include "millrace/plan.h"
#include "tools/millrace/run/loss.h"

enum { MR_CHILD_STARTS = 5 /* within a minute */ };

/* What became of the frames of sources. Out of balance: of `missing` frames nobody knows what became of them. */
typedef struct mr_tally_of_nodes {
    uint64_t in, delivered, dropped, absorbed, in_flight, missing;
    bool balanced;
} mr_tally_of_nodes;

/* One process of a node. */
typedef struct mr_child {
    int node, replica;
    char name[80];            /* "worker", or of several "worker.0", "worker.1", ... */
    pid_t pid;                /* 0: it does not run */
    int report;               /* its pipe, not blocking; -1: none */
    char *text;               /* what came of a line that has not ended */
    size_t length, room;
    char *line;               /* its last whole line, and the same as a tree; NULL: none yet */
    yajl_val told;
    bool ready, finished;     /* of the process that runs: it has reported, and for the last time */
    bool asked;               /* the process that runs was asked to end: once more would end it at once */
    bool unbegun;             /* its first process has ended before it had begun, since it was asked to */
    bool resumes;             /* it keeps a checkpoint, and goes on from it when it is started again */
    bool done, given_up;      /* it is not started any more */
    int exit_code;            /* of the last one */
    int restarts;             /* in all */
    mr_tally_of_nodes before; /* of what processes that died had read and is not read again; what was in flight then is
                                 lost */
    int64_t died_ns[MR_CHILD_STARTS];
    int64_t start_ns;         /* when it is to be started */
} mr_child;

typedef struct mr_supervision {
    const mr_plan_view *plan;
    const char *const *command; /* what a child is started with, ended by NULL; its node and number are added */
    const char *resume;       /* of each node that reads sources or has sinks: checkpoints are kept in this file, with
                                 the node's name behind it; NULL: only until the end of the run, where they can be */
    const char *control;      /* of each node: its control socket, with the node's name behind it; NULL: not said */
    bool quiet, json, show;   /* no table; JSON in place of it; a line of progress */
    FILE *json_stream;
    mr_loss_limit loss;       /* more than that is a failure */
} mr_supervision;

/* Runs all of it; answers the exit code. Signals that it waits for must be blocked, and nobody else wait for them. */
int mr_supervise(const mr_supervision *how);

/* supervisor_report.c: what has come of a child's pipe. */
void mr_child_read(mr_child *child);
void mr_child_fini(mr_child *child);
/* A member of what a child has told last, as a number or truth; 0 or false where there is none. */
int64_t mr_told_integer(yajl_val told, const char *key);
double mr_told_number(yajl_val told, const char *key);
bool mr_told_true(yajl_val told, const char *key);
const char *mr_told_text(yajl_val told, const char *key);
/* An array; its length in *count. */
yajl_val *mr_told_array(yajl_val told, const char *key, size_t *count);
mr_identity mr_told_frame(yajl_val told);

/* A process that died is counted from now on as what it told last, beside the one that is started in its place, if any.
 * What was in flight then counts as absorbed where it is `settled` elsewhere, else as dropped. */
void mr_child_remember(mr_child *child, bool settled);
/* Of one source that a child reads. What is in flight in a process that has ended is missing. */
mr_tally_of_nodes mr_child_tally(const mr_child *child, yajl_val source);
/* Of all sources that all children read. */
mr_tally_of_nodes mr_children_tally(const mr_child *children, size_t count);

/* What was dropped, by stage and reason; of processes that died as their node. Valid until a child reports again. */
mr_loss mr_children_loss(const mr_child *children, size_t count);

/* supervisor_table.c: all nodes in one table, or as one object of JSON. */
int mr_children_print(const mr_plan_view *plan, const mr_child *children, size_t count, double wall_s, FILE *stream);
int mr_children_print_json(const mr_plan_view *plan, const mr_child *children, size_t count, double wall_s, int exit_code,
                           const char *error, FILE *stream);

#endif
