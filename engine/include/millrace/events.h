/* The result kind `events` (result.h): what happened in areas and on lines of a picture (the stage `zones`).
 *
 * Most frames have no event. Sinks that write this kind alone (`results: events`) write nothing for these.
 *
 * Times are presentation times of the source, in the frame's epoch. If an epoch ends, its open stays end: these events
 * come with the first frame of the next epoch, and their time is the one at which the object was last seen.
 *
 * Ownership, threads and errors: as for all results. */
#ifndef MILLRACE_EVENTS_H
#define MILLRACE_EVENTS_H

#include "millrace/result.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_zone_event {
    const char *event;     /* "enter", "leave", "cross", "dwell", "count", "crowd" */
    const char *zone;      /* name of the area or line */
    const char *direction; /* "in" or "out" for "cross"; else NULL */
    int64_t track;         /* number of the object's track; 0 for "count" and "crowd" */
    int32_t index;         /* the object's class; -1: none */
    const char *label;     /* Optional. The class's label. */
    int64_t time_ns;       /* when it happened: may be earlier than the frame */
    int64_t dwell_ns;      /* how long the object was in the area; MR_NO_TIME: not for this event */
    int64_t count;         /* areas: objects inside now; lines: crossings in this direction so far */
    int64_t total;         /* areas: entries so far; lines: crossings in both directions so far */
    float speed;           /* metres a second; 0: not known */
    bool gone;             /* "leave": the object was lost, or its epoch ended, inside the area */
} mr_zone_event;

/* `events`: elements are mr_zone_event. */
MR_API const mr_result_kind *mr_kind_events(void);

#ifdef __cplusplus
}
#endif
#endif
