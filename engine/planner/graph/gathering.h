/* Frames that wait for others: while batches gather, and while the objects of a frame come. Once ordered. Only planner
 * files may use it. */
#pragma once

#include "engine/planner/graph/builder.h"

/* How many of a source's frames batches hold back on a way, and which batch is last. 0: none. */
typedef struct mr_held {
    int frames, last;
} mr_held;

/* The most that are held on some way. They need not be on one way. */
typedef struct mr_gathering {
    bool here;       /* the vertex is on the way, and on no way to the other input */
    mr_held all;     /* by all batches */
    mr_held untimed; /* by those without a timeout: these must fill */
} mr_gathering;

/* The number that gathers on the way to port `one` of `v` while frames already wait at port `other`.
 * MR_ERROR_MEMORY. */
int mr_plan_gathering(const mr_plan_builder *builder, int v, int one, int other, mr_gathering *found);
/* Adds the ways of `other`. */
void mr_gathering_merge(mr_gathering *worst, const mr_gathering *other);

/* The two ports of a stage that gathers objects. */
enum { MR_PLAN_FRAMES, MR_PLAN_OBJECTS };
/* Whether the vertex gathers objects. */
bool mr_plan_unites(const mr_plan_builder *builder, int v);
/* Marks the stages that make the objects' frames that come to a stage that gathers them. */
void mr_plan_mark_splits(const mr_plan_builder *builder, int v, bool *marked);
/* How long the queue of such a stage must be while `frames` gather on the frames' way: while it waits for room for the
 * objects of the first, its queue must take the others. The producer is woken when half the queue is free. */
int mr_plan_queue_beside(int frames);
