/* Nodes as child processes of a test: each opens the pipeline for one node, runs it to the end and reports the ledger.
 * The test must have no threads when it starts one.
 *
 * Besides the types in flow_stages and node_stages there is `record`: a sink that appends one line per frame, "SOURCE
 * EPOCH SEQ SUB NOTED", to `path`. It skips frames that the file already has when it opens, like a sink that continues
 * a file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct node_process {
    pid_t pid;
    int report; /* to read the report */
} node_process;

/* A node's final report, for all sources together. */
typedef struct node_report {
    int status;                      /* from mr_pipeline_wait, or from mr_pipeline_open or _start if that failed */
    uint64_t in, delivered, dropped, absorbed;
    uint64_t pool_bytes;             /* the most that pool buffers needed at once */
    uint64_t planned_bytes;          /* the most that the plan allows; 0: no bound is known */
    char lines[1024];                /* "dropped STAGE REASON N;" for each ledger line */
    char message[512];               /* for that status; "" for MR_OK */
} node_report;

/* Starts the node with this name and the next worker count; `runtime` is the socket folder. SIGTERM stops it, like the
 * command. */
node_process node_start(const char *text, const char *node, const char *runtime);
/* Starts one process for a node with several. */
node_process node_start_replica(const char *text, const char *node, int replica, const char *runtime);
/* Waits until the node dies from a signal (true) or is about to end; fails the test after a minute. */
bool node_await_death(node_process *process);
/* Waits for the node's end; fails the test after a minute, or if a signal ended it. */
node_report node_finish(node_process *process);
/* Kills the node and waits until it ends. */
void node_kill(node_process *process);
/* Waits until the file has this many lines; fails the test after a minute. */
void node_await_lines(const char *path, size_t lines);
size_t node_count_lines(const char *path);
