/* Turns: of the sources that wait (planner/jobs.c), opens as many at a time as the plan says, in their order.
 *
 * A source is opened together with the stages that work for it alone, on threads that begin then. When its end has
 * passed all stages, so that none of its frames is left, its threads end, its file is closed, its buffers are released,
 * and the next one begins. A run that is stopped ends those that have not begun, without opening them.
 *
 * If sources come and go (sources: {max: N}), each has a turn of its own as soon as it is there. What it leaves behind
 * is as new for the next source of its place: all instances that worked for it alone are closed and reset, once no
 * frame of it is held any more.
 *
 * Threads: create and destroy from one; all else from any. */
#ifndef MILLRACE_FLOW_TURNS_H
#define MILLRACE_FLOW_TURNS_H

#include "engine/flow/graph.h"

typedef struct mr_turns mr_turns;

/* *turns stays NULL if no source waits; all functions below accept that. */
int mr_turns_create(mr_turns **turns, mr_graph *graph);
/* The executor must have stopped. */
void mr_turns_destroy(mr_turns **turns);
/* A stage has seen the end of that source, or one that works for it alone has ended. `leaves`: for this source only. */
void mr_turns_note(mr_turns *turns, uint32_t source, bool leaves);
/* A source has that place now, and may begin. */
void mr_turns_ask(mr_turns *turns, uint32_t source);
/* Begins the sources that may: all else is open, or the run is being stopped. */
void mr_turns_look(mr_turns *turns);

#endif
