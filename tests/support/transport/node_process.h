/* Nodes of a pipeline as processes of a test: each is a child that opens the pipeline for its node, runs it to its end
 * and reports its ledger. The test itself must have no threads when it starts one.
 *
 * Beside the types of flow_stages and node_stages there is `record`: a sink that appends one line a frame, "SOURCE
 * EPOCH SEQ SUB NOTED", to `path`, and skips the frames that the file has already when it is opened, as a sink that
 * continues its file does. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct node_process {
    pid_t pid;
    int report; /* reads its report */
} node_process;

/* A node's report at its end, of all its sources together. */
typedef struct node_report {
    int status;                      /* of mr_pipeline_wait, or of mr_pipeline_open or _start if that failed */
    uint64_t in, delivered, dropped, absorbed;
    uint64_t pool_bytes;             /* most that buffers of pools took at once */
    uint64_t planned_bytes;          /* most that they take by its plan; 0: no bound is known */
    char lines[1024];                /* "dropped STAGE REASON N;" for each line of the ledger */
    char message[512];               /* of that status; "" if it is MR_OK */
} node_report;

/* Starts the node of that name, with the next of the worker counts; `runtime` is the folder of its sockets. SIGTERM
 * stops it, as the command does. */
node_process node_start(const char *text, const char *node, const char *runtime);
/* One process of a node with several. */
node_process node_start_replica(const char *text, const char *node, int replica, const char *runtime);
/* Waits until the node has died of a signal, true, or is about to end; fails the test if neither happens in a minute.
 */
bool node_await_death(node_process *process);
/* Waits for its end; fails the test if it does not come within a minute, or a signal ended it. */
node_report node_finish(node_process *process);
/* Kills it and waits for its end. */
void node_kill(node_process *process);
/* Waits until the file has so many lines; fails the test after a minute. */
void node_await_lines(const char *path, size_t lines);
size_t node_count_lines(const char *path);
