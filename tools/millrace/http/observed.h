/* A run as it is shown over HTTP: its processes with their latest summaries; and how it is changed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "millrace/millrace.h"

/* One process. All texts and the summary are borrowed. */
typedef struct mr_observed_process {
    const char *name, *node;   /* "worker.0", "worker"; NULL: one process runs all */
    int replica;
    const char *state;         /* "starts", "runs", "ended", "given up" */
    pid_t pid;                 /* 0: it does not run */
    int restarts, exit_code;   /* exit_code: the last one's, once it has ended */
    bool ready, done;
    const mr_summary *summary; /* NULL: none yet */
} mr_observed_process;

typedef struct mr_observed {
    size_t count;
    const mr_observed_process *process;
    bool ending; /* the run was asked to end, or has ended */
    bool final;  /* the numbers are the run's last */
} mr_observed;

/* The frames of all sources, each counted by the process that reads it. */
typedef struct mr_observed_ledger {
    uint64_t in, delivered, dropped, absorbed, in_flight;
} mr_observed_ledger;

mr_observed_ledger mr_observed_sum(const mr_observed *now);
/* Whether something outside may hold up a process's frames: a service that is away, programs that have
 * yet to take frames, or all nodes at the other end of a cut. */
bool mr_observed_is_held_up(const mr_summary *summary);
/* The same for any process that runs. */
bool mr_observed_any_is_held_up(const mr_observed *now);
/* Whether the source's frames come from another node, which counts them, or it was removed. */
bool mr_observed_counts(const mr_source_summary *source);
/* Whether the source has neither ended nor failed, and a camera or server is connected. */
bool mr_observed_is_linked(const mr_source_summary *source);
/* Whether frames can come from it: it is linked, and its process runs and is ready. */
bool mr_observed_is_up(const mr_observed_process *process, const mr_source_summary *source);

/* Does one request to the control socket (run/control.h) and returns the answer, which the caller must free; NULL: no
 * memory. It may take a while, and several threads may call it at once. */
typedef char *mr_run_http_change(void *context, const char *request, size_t *length);
