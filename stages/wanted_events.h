/* Events that a stage waits for or reports, by name and zone. Any thread. */
#pragma once

#include "millrace/events.h"
#include "millrace/stage.h"

typedef struct mr_wanted_events {
    const mr_strings *events, *zones, *classes; /* labels or numbers; NULL or none: any */
} mr_wanted_events;

/* Refuses names of events that do not exist. */
int mr_wanted_events_check(mr_negotiation *negotiation, const char *option, const mr_strings *events);
/* Refuses names of zones that no earlier stage watches, and events that none of these zones reports: areas and lines
 * report different ones. If others remain, it warns. `nothing` is what happens then, and `none` is what such a name
 * does. */
int mr_wanted_zones_check(mr_negotiation *negotiation, const mr_wanted_events *wanted, const char *nothing,
                          const char *none);
bool mr_wanted_event(const mr_wanted_events *wanted, const mr_zone_event *event);
/* A frame's first wanted event, and the stage that reports it; NULL: none. */
const mr_zone_event *mr_wanted_events_find(const mr_wanted_events *wanted, const mr_frame *frame, const char **stage);
