/* A heap of tasks by the time they are due. Not locked: the executor does that. */
#ifndef MILLRACE_FLOW_EXECUTOR_TIMERS_H
#define MILLRACE_FLOW_EXECUTOR_TIMERS_H

#include "engine/flow/executor/executor.h"

typedef struct mr_timers {
    mr_task **item; /* from 1 */
    size_t count, room;
} mr_timers;

/* Sets or moves the task's timer; false where there is no memory. */
bool mr_timers_set(mr_timers *timers, mr_task *task, int64_t due_ns);
void mr_timers_remove(mr_timers *timers, mr_task *task);
/* Takes the earliest task that is due by then; NULL where none is. */
mr_task *mr_timers_take(mr_timers *timers, int64_t now_ns);
/* When the earliest is due; INT64_MAX where there is none. */
int64_t mr_timers_next(const mr_timers *timers);
void mr_timers_fini(mr_timers *timers);

#endif
