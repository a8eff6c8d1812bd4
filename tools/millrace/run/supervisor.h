/* Supervises the processes on a pipeline's nodes.
 *
 * Each node runs as a child, `millrace run --node NAME`, that reports through a pipe (run_report.h). A child that dies
 * is restarted after a tenth of a second; the delay doubles each time. It continues from where it was if the inputs and
 * outputs can be continued (flow/resume.h). If it dies five times within a minute, it is given up. The others continue
 * without it, unless all of them wait for it. SIGTERM, SIGINT and a closed terminal end the nodes that read sources.
 * The other nodes end when their frames do; if that takes long, they are asked to end too. SIGHUP is passed on. One
 * thread. */
#pragma once

#include <stdio.h>

#include "millrace/plan.h"
#include "tools/millrace/summary/loss.h"

typedef struct mr_supervision {
    const mr_plan_view *plan;
    const char *const *command; /* a child's command line, ended by NULL; node and number are added */
    const char *resume;       /* checkpoint file for each node that reads sources or has sinks; the node's name is
                                 appended. NULL: checkpoints last only until the run ends, if it can be continued */
    const char *control;      /* each node's control socket, with the node's name appended; NULL: not given */
    bool serves;              /* answers over HTTP, where the plan says */
    bool quiet, json, show;   /* no table; JSON instead; a progress line */
    FILE *json_stream;
    mr_loss_limit loss;       /* if more are lost, the run has failed */
    bool part;                /* part of a longer job: nothing is printed at the end unless it has failed */
    int *signal;              /* not NULL: set to the signal that ended it, if one did */
} mr_supervision;

/* Runs all nodes. Returns the exit code. The caller must block the signals that this waits for, and no other thread may
 * wait for them. */
int mr_supervise(const mr_supervision *how);
