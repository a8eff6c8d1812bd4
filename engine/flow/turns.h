/* Turns: opens waiting sources (planner/jobs.c) in order, as many at a time as the plan allows.
 *
 * A source opens together with the stages that serve only it, on new threads. When its end has passed all stages, no
 * frame is left. Then its threads end, its file closes, its buffers are released and the next source begins. When a run
 * stops, sources that have not begun end without being opened.
 *
 * If sources come and go (sources: {max: N}), each gets a turn as soon as it is there. When nobody holds its frames any
 * more, every instance that served only it is closed and reset for the slot's next source.
 *
 * Create and destroy from one thread; call the rest from any. */
#pragma once

#include "engine/flow/wiring.h"

typedef struct mr_turns mr_turns;

/* Callbacks for the turns' task. */
typedef struct mr_turns_calls {
    bool (*retire)(void *context, uint32_t source);     /* A leaving source has no frames left. Returns true if the next
                                                           source has the slot now. */
    void (*end_pushes)(void *context, uint32_t source); /* An external source will not open. */
    void *context;
} mr_turns_calls;

/* Also sets run->ends (ends.h). If no source waits, *turns stays NULL; all functions below accept that. */
int mr_turns_create(mr_turns **turns, mr_run *run, const mr_wiring *wiring);
/* Call before the start. */
void mr_turns_set_calls(mr_turns *turns, const mr_turns_calls *calls);
/* The executor must have stopped. */
void mr_turns_destroy(mr_turns **turns);
/* The slot has a source now, which may begin. */
void mr_turns_ask(mr_turns *turns, uint32_t source);
/* Starts the sources that may begin. Call it when everything else is open, or when the run is being stopped. */
void mr_turns_look(mr_turns *turns);
