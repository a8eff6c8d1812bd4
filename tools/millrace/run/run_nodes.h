/* `millrace run` with nodes: which one this process runs, or supervision of all. */
#pragma once

#include "millrace/plan.h"
#include "tools/millrace/cli/overrides.h"
#include "tools/millrace/run/launch.h"
#include "tools/millrace/run/loss.h"
#include "tools/millrace/run/run_report.h"

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

/* run.c: what a process needs before it runs a node, and before it starts a thread: reports, the launcher, the control
 * socket and signals; and how to end all this, also after a failure. */
int mr_run_enter(mr_run_arguments *given);
void mr_run_leave(mr_run_arguments *given);
/* run.c: runs an open pipeline to its end, with log, reports and summary. Returns an exit code; errors are printed. */
int mr_run_here(const mr_run_arguments *from, mr_pipeline *pipeline, const mr_plan_view *plan);

/* Each child's command line: this process's, without the options that are not for all. */
typedef struct mr_run_command {
    char *words[2048]; /* ended by NULL */
    size_t count;
} mr_run_command;
/* Begins with "millrace VERB"; `threads` is that verb's option for the number of them, such as "--workers". */
void mr_run_command_write(mr_run_command *command, const char *verb, const char *threads,
                          const mr_run_arguments *from);
/* "OPTION=VALUE", or, without a value, the word. */
void mr_run_command_add(mr_run_command *command, const char *option, const char *value);
void mr_run_command_fini(mr_run_command *command);

/* The command line decides which node this process runs; if it does not, the launcher does. */
void mr_run_choose_node(const mr_run_arguments *from, mr_pipeline_params *params);
/* Starts all nodes of the plan that are on this machine; returns the exit code. No other thread may wait for
 * signals. */
int mr_run_supervise(const mr_run_arguments *from, const mr_plan_view *plan);
