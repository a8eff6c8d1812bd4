/* Where tracks were lately, in one source. Memory is bounded: if there are too many tracks, the one seen longest ago is
 * forgotten. Places are in the source's displayed picture. Threads: one at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_TAILS = 512, MR_TAIL_PLACES = 64 };

typedef struct mr_tail_place {
    float x, y;
    int64_t time_ns;
} mr_tail_place;

/* The newest place is at (next - 1) modulo MR_TAIL_PLACES. */
typedef struct mr_tail {
    size_t count, next;
    mr_tail_place place[MR_TAIL_PLACES];
} mr_tail;

typedef struct mr_tails {
    int64_t length_ns; /* older places are forgotten */
    float step;        /* px; the newest place moves until it is this far from the one before */
    int64_t track[MR_TAILS]; /* 0: the tail is free */
    mr_tail tail[MR_TAILS];
} mr_tails;

/* Adds a place and returns the track's tail. */
const mr_tail *mr_tails_add(mr_tails *tails, int64_t track, const mr_tail_place *place);
/* The place that is `back` places older than the newest; false: there is none that young. Times may jump by any
 * amount. */
bool mr_tail_place_at(const mr_tails *tails, const mr_tail *tail, size_t back, int64_t now_ns, mr_tail_place *place);
/* Forgets all tracks. */
void mr_tails_clear(mr_tails *tails);
