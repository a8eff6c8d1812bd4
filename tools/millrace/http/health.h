/* Whether a run is alive, ready and well. One thread at a time. */
#pragma once

#include "tools/millrace/http/observed.h"

/* Watches that frames move. */
typedef struct mr_movement {
    uint64_t seen;    /* frames that came in or were settled */
    int64_t moved_ns; /* when that last changed, no frame was in flight or they were held up; 0: never looked */
} mr_movement;

/* `held_up`: something outside the run may hold frames up, which is no fault of the run (mr_observed_is_held_up). */
void mr_movement_look(mr_movement *movement, const mr_observed_ledger *sum, bool held_up, int64_t now_ns);
/* Whether frames are in flight and have not moved for that long. */
bool mr_movement_stalls(const mr_movement *movement, int64_t now_ns, int64_t stall_ns);

enum { MR_HEALTH_WHY = 256 };

typedef enum mr_health_kind {
    MR_HEALTH_ALIVE, /* the run looks at itself, and frames move, or none are in flight, or a service or
                         node is away that may hold them up */
    MR_HEALTH_READY, /* all stages are open, all nodes connected, and the run was not asked to end */
    MR_HEALTH_WELL   /* both, and no source, device or service has failed or is away */
} mr_health_kind;

typedef struct mr_health {
    const mr_observed *now;
    const mr_movement *movement;
    int64_t opened_ns, shown_ns; /* when the server opened; when there was the last news, 0: there was none */
    int64_t stall_ns;
} mr_health;

/* Whether it is; `why` gets the first reason if not. */
bool mr_health_is(const mr_health *health, mr_health_kind kind, int64_t now_ns, char why[MR_HEALTH_WHY]);
