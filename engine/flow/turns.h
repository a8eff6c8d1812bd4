/* Turns: opens the sources that wait (planner/jobs.c) in their order, as many at a time as the plan says.
 *
 * A source is opened together with the stages that work for it alone, on threads that begin then. When its end has
 * passed all stages, so that none of its frames is left, its threads end, its file is closed, its buffers are released,
 * and the next one begins. A run that is stopped ends those that have not begun, without opening them.
 *
 * If sources come and go (sources: {max: N}), each has a turn of its own as soon as it is there. What it leaves behind
 * is as new for the next source of its slot: all instances that worked for it alone are closed and reset, once no frame
 * of it is held any more.
 *
 * Threads: create and destroy from one; all else from any. */
#ifndef MILLRACE_FLOW_TURNS_H
#define MILLRACE_FLOW_TURNS_H

#include "engine/flow/wiring.h"

typedef struct mr_turns mr_turns;

/* What the turns' task calls. */
typedef struct mr_turns_calls {
    bool (*retire)(void *context, uint32_t source);     /* No frame of a source that leaves is left. True: the next one
                                                           has its slot now. */
    void (*end_pushes)(void *context, uint32_t source); /* An external source will not be opened. */
    void *context;
} mr_turns_calls;

/* Also sets run->ends (ends.h). *turns stays NULL if no source waits; all functions below accept that. */
int mr_turns_create(mr_turns **turns, mr_run *run, const mr_wiring *wiring);
/* Before the start. */
void mr_turns_set_calls(mr_turns *turns, const mr_turns_calls *calls);
/* The executor must have stopped. */
void mr_turns_destroy(mr_turns **turns);
/* A source has that slot now, and may begin. */
void mr_turns_ask(mr_turns *turns, uint32_t source);
/* Begins the sources that may: all else is open, or the run is being stopped. */
void mr_turns_look(mr_turns *turns);

#endif
