/* A binary heap that orders timers by due time. Not locked: the owner must lock it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embed it in another struct. */
typedef struct mr_timer {
    int64_t due_ns;  /* INT64_MAX: not set */
    size_t position; /* in the heap, from 1; 0: not in it */
} mr_timer;

/* Zero: empty. */
typedef struct mr_timers {
    mr_timer **item; /* from 1 */
    size_t count, room;
} mr_timers;

/* Sets or moves a timer. False if there is no memory: it is not set. */
bool mr_timers_set(mr_timers *timers, mr_timer *timer, int64_t due_ns);
/* Does nothing if the timer is not set. */
void mr_timers_remove(mr_timers *timers, mr_timer *timer);
/* Removes and returns the earliest timer due by now_ns; NULL if there is none. */
mr_timer *mr_timers_take(mr_timers *timers, int64_t now_ns);
/* When the earliest timer is due; INT64_MAX if there is none. */
int64_t mr_timers_next(const mr_timers *timers);
void mr_timers_fini(mr_timers *timers);
