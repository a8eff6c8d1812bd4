/* `millrace run` with nodes: which of them this process runs, or supervision of all of them. */
#ifndef MILLRACE_TOOLS_RUN_RUN_NODES_H
#define MILLRACE_TOOLS_RUN_RUN_NODES_H

#include "millrace/plan.h"
#include "tools/millrace/cli/overrides.h"
#include "tools/millrace/run/launch.h"
#include "tools/millrace/run/loss.h"
#include "tools/millrace/run/report.h"

/* The command line of `millrace run`, and the other things that decide how it runs. */
typedef struct mr_run_arguments {
    const char *path, *trace, *audit, *resume, *control, *log, *node, *grace;
    mr_overrides overrides;
    int replica;
    int64_t grace_ns;  /* 0: not given */
    mr_loss_limit loss;
    bool quiet, json, deny, one_process;
    mr_launch launch;  /* from the environment */
    mr_report report;  /* to a supervisor */
} mr_run_arguments;

/* The command line decides which node this process runs; if it does not, the launcher does. */
void mr_run_choose_node(const mr_run_arguments *from, mr_pipeline_params *params);
/* Starts all nodes of the plan that are on this machine; returns the exit code. No other thread may wait for
 * signals. */
int mr_run_supervise(const mr_run_arguments *from, const mr_plan_view *plan);

#endif
