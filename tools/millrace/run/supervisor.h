/* Supervises the processes on a pipeline's nodes.
 *
 * Each node runs as a child, `millrace run --node NAME`, that reports through a pipe (report.h). A child that dies is
 * started again, after a tenth of a second, then twice as long each time, and goes on where it was, if its inputs and
 * outputs can be continued (flow/resume.h). If it dies five times within a minute it is given up, and the others go on
 * without it, unless all that are left wait for it. SIGTERM, SIGINT and a closed terminal end the nodes that read
 * sources; the others end as their frames do, and are asked to if that takes long. SIGHUP is passed on. One thread. */
#pragma once

#include <stdio.h>

#include "millrace/plan.h"
#include "tools/millrace/run/loss.h"

typedef struct mr_supervision {
    const mr_plan_view *plan;
    const char *const *command; /* a child's command line, ended by NULL; its node and number are added */
    const char *resume;       /* each node that reads sources or has sinks keeps a checkpoint in this file, with the
                                 node's name appended; NULL: only until the run ends, if it can be continued */
    const char *control;      /* each node's control socket, with the node's name appended; NULL: not given */
    bool quiet, json, show;   /* no table; JSON instead; a progress line */
    FILE *json_stream;
    mr_loss_limit loss;       /* if more are lost the run has failed */
    bool part;                /* part of a longer job: nothing is printed at the end unless it has failed */
    int *signal;              /* not NULL: set to the signal that ended it, if one did */
} mr_supervision;

/* Runs all nodes; returns the exit code. The caller blocks the signals that it waits for, and no other thread waits for
 * them. */
int mr_supervise(const mr_supervision *how);
