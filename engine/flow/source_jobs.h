/* Jobs: opens waiting sources (planner/jobs.c) in order, as many at a time as the plan allows.
 *
 * A source opens together with the stages that serve only it, on new threads. When its end has passed all stages, no
 * frame is left. Then its threads end, its file closes, its buffers are released and the next source begins. When a run
 * stops, sources that have not begun end without being opened.
 *
 * If sources come and go (sources: {max: N}), each begins as soon as it is there. When nobody holds its frames any
 * more, every instance that served only it is closed and reset for the slot's next source.
 *
 * Create and destroy from one thread; call the rest from any. */
#pragma once

#include "engine/flow/wiring.h"

typedef struct mr_source_jobs mr_source_jobs;

/* Callbacks for the jobs' task. */
typedef struct mr_source_jobs_calls {
    bool (*retire)(void *context, uint32_t source);     /* A leaving source has no frames left. Returns true if the next
                                                           source has the slot now. */
    void (*end_pushes)(void *context, uint32_t source); /* An external source will not open. */
    void *context;
} mr_source_jobs_calls;

/* Also sets run->ends (ends.h). If no source waits, *jobs stays NULL; all functions below accept that. */
int mr_source_jobs_create(mr_source_jobs **jobs, mr_run *run, const mr_wiring *wiring);
/* Call before the start. */
void mr_source_jobs_set_calls(mr_source_jobs *jobs, const mr_source_jobs_calls *calls);
/* The executor must have stopped. */
void mr_source_jobs_destroy(mr_source_jobs **jobs);
/* The slot has a source now, which may begin. */
void mr_source_jobs_ask(mr_source_jobs *jobs, uint32_t source);
/* Starts the sources that may begin. Call it when everything else is open, or when the run is being stopped. */
void mr_source_jobs_look(mr_source_jobs *jobs);
