/* `millrace run` with nodes: finds which node this process runs, or supervises all of them. */
#pragma once

#include "millrace/plan.h"
#include "tools/millrace/cli/overrides.h"
#include "tools/millrace/run/launch.h"
#include "tools/millrace/summary/loss.h"
#include "tools/millrace/run/run_report.h"

/* The command line of `millrace run`, and everything else that decides how it runs. */
typedef struct mr_run_arguments {
    const char *path, *trace, *audit, *resume, *control, *http, *hub, *otlp, *traces, *log, *node, *grace;
    mr_overrides overrides;
    int replica;
    int64_t grace_ns;  /* 0: not given */
    mr_loss_limit loss;
    bool quiet, json, deny, one_process, check_stages;
    mr_launch launch;  /* from the environment */
    mr_report report;  /* to the supervisor */
} mr_run_arguments;

/* run.c: starts and ends a process's services: reports, the launcher, the control socket and signals. They must start
 * before the node and before any thread. The end also handles failures. */
int mr_run_enter(mr_run_arguments *given);
void mr_run_leave(mr_run_arguments *given);
/* run.c: runs an open pipeline to the end, with log, reports and summary. Returns an exit code; errors are printed. */
int mr_run_here(const mr_run_arguments *from, mr_pipeline *pipeline, const mr_plan_view *plan);

/* The children's command line: this process's, without options that must not apply to all. */
typedef struct mr_run_command {
    char *words[2048]; /* ended by NULL */
    size_t count;
} mr_run_command;
/* Begins with "millrace VERB". `threads` is the verb's option for the thread count, such as "--workers". */
void mr_run_command_write(mr_run_command *command, const char *verb, const char *threads,
                          const mr_run_arguments *from);
/* Adds "OPTION=VALUE", or the word alone if there is no value. */
void mr_run_command_add(mr_run_command *command, const char *option, const char *value);
void mr_run_command_fini(mr_run_command *command);

/* Finds which node this process runs: from the command line, else from the launcher. */
void mr_run_choose_node(const mr_run_arguments *from, mr_pipeline_params *params);
/* Starts all nodes of the plan on this machine. Returns the exit code. No other thread may wait for signals. */
int mr_run_supervise(const mr_run_arguments *from, const mr_plan_view *plan);
