/* Frames that wait for others: while batches gather, and while the objects of a frame come. Once ordered. Only planner
 * files may use it. */
#pragma once

#include "engine/planner/graph/builder.h"

/* How many of a source's frames batches hold back on a way, which batch is last, and whether timeouts release all. */
typedef struct mr_gathering {
    bool here;   /* the vertex is on the way, and on no way to the other input */
    int frames, last;
    bool timed;
} mr_gathering;

/* The number that gathers on the way to port `one` of `v` while frames already wait at port `other`.
 * MR_ERROR_MEMORY. */
int mr_plan_gathering(const mr_plan_builder *builder, int v, int one, int other, mr_gathering *found);

/* The two ports of a stage that gathers objects. */
enum { MR_PLAN_FRAMES, MR_PLAN_OBJECTS };
/* Whether the vertex gathers objects. */
bool mr_plan_unites(const mr_plan_builder *builder, int v);
/* Marks the stages that make the objects' frames that come to a stage that gathers them. */
void mr_plan_mark_splits(const mr_plan_builder *builder, int v, bool *marked);
/* How long the queue of such a stage must be while `frames` gather on the frames' way: while it waits for room for the
 * objects of the first, its queue must take the others. The producer is woken when half the queue is free. */
int mr_plan_queue_beside(int frames);
