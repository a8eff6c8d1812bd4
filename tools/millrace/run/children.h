/* A pipeline's node processes, as their reports (run_report.h) describe them to the supervisor. One thread. */
#pragma once

#include <stdio.h>
#include <sys/types.h>
#include <yajl/yajl_tree.h>

#include "millrace/plan.h"
#include "tools/millrace/summary/loss.h"
#include "tools/millrace/summary/summary.h"

enum { MR_CHILD_STARTS = 5 /* within a minute */ };
/* Why frames of dead processes are dropped or absorbed, in the ledger. */
#define MR_CHILD_LOST "in it when it died, or before"
#define MR_CHILD_ABSORBED "before it died"

/* The ledger of source frames over all nodes. If it does not balance, `missing` frames are unaccounted for. */
typedef struct mr_tally_of_nodes {
    uint64_t in, delivered, dropped, absorbed, in_flight, missing;
    bool balanced;
} mr_tally_of_nodes;

/* What processes that died had counted of a source's frames, as `before` of the child. */
typedef struct mr_child_past {
    char *source;
    uint64_t in, delivered, dropped, absorbed;
} mr_child_past;

enum { MR_CHILD_NAME = 80 };

/* One process on a node. */
typedef struct mr_child {
    int node, replica;
    char name[MR_CHILD_NAME]; /* "worker", or "worker.0", "worker.1", ... if there are several */
    pid_t pid;                /* 0: not running */
    int pipe;                 /* for reports, nonblocking; -1: none */
    char *text;               /* the start of an incomplete line */
    size_t length, room;
    char *line;               /* the last complete line, and the same as a tree, which owns the texts; NULL: none yet */
    yajl_val tree;
    mr_summary report;        /* the same as a summary; empty: none yet */
    int reported_code;        /* the exit code in the last report */
    bool ready, finished;     /* the running process has sent a first report, a last one */
    bool asked;               /* the running process was asked to end: a second signal would end it at once */
    bool unbegun;             /* the first process was asked to end, and ended before a first report */
    bool resumes;             /* keeps a checkpoint, and continues from it after a restart */
    bool done, given_up;      /* must not be started again */
    int exit_code;            /* the last process's */
    int restarts;             /* in all */
    mr_tally_of_nodes before; /* frames read by processes that died and not read again; those that were in flight are
                                 lost */
    mr_child_past *past;      /* the same by source */
    size_t past_count, past_room;
    int64_t died_ns[MR_CHILD_STARTS];
    int64_t start_ns;         /* when to start it next */
} mr_child;

/* A process's name. */
void mr_child_name(char name[MR_CHILD_NAME], const mr_view_node *node, int replica);

/* Reads the reports that have arrived. */
void mr_child_read(mr_child *child);
void mr_child_fini(mr_child *child);
/* Adds a dead process's last report to the child's `before`, since another process may replace it. Frames in flight
 * count as absorbed if they are `settled` elsewhere, else as dropped. */
void mr_child_remember(mr_child *child, bool settled);
/* The child's report, with what is in `past` added to its sources: counts do not fall when a process is replaced.
 * Refers to the report and the child; its lists must be freed with mr_child_whole_fini. Without memory it is the report
 * alone. */
mr_summary mr_child_whole(const mr_child *child);
void mr_child_whole_fini(const mr_child *child, mr_summary *whole);
/* Counts the frames of a source that a child reads. If the process has ended, frames in flight are missing. */
mr_tally_of_nodes mr_child_tally(const mr_child *child, const mr_source_summary *source);
/* Counts the frames of all sources that the children read. */
mr_tally_of_nodes mr_children_tally(const mr_child *children, size_t count);

/* Dropped frames by stage and reason; those of dead processes have the node's name. Valid until a child reports
 * again. */
mr_loss mr_children_loss(const mr_child *children, size_t count);

/* children_sources.c: prints all nodes' sources like one process's summary. The source's node counts frames; the first
 * node that gets classes counts those. Sources beyond the first 20 are only counted. Faults follow the ledger. */
void mr_children_print_sources(const mr_child *children, size_t count, FILE *stream);
/* children_table.c: "starts", "runs", "ended" or "given up". */
const char *mr_child_state(const mr_child *child);
/* children_table.c: prints all nodes in one table, or as one JSON object. */
int mr_children_print(const mr_plan_view *plan, const mr_child *children, size_t count, double wall_s, FILE *stream);
int mr_children_print_json(const mr_plan_view *plan, const mr_child *children, size_t count, double wall_s,
                           int exit_code, const char *error, FILE *stream);
