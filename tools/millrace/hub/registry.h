/* The runs that a hub knows, by their reports. Pure: the caller gives the time, on the hub's monotonic clock, so the
 * clocks of other machines do not matter. One thread at a time.
 *
 * A run is lost once nothing was heard of it for `lost_ns`; a later report brings it back. Runs that have ended or are
 * lost are forgotten after `keep_ns`, or earlier if there is no room for a new one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/millrace/hub/hub_report.h"

typedef enum mr_hub_state { MR_HUB_RUNS, MR_HUB_DRAINS, MR_HUB_ENDED, MR_HUB_LOST, MR_HUB_STATES } mr_hub_state;
/* "runs", "drains", "ended", "lost". */
const char *mr_hub_state_name(mr_hub_state state);

typedef struct mr_hub_run {
    mr_hub_report *report;           /* the last one; owned */
    mr_hub_state state;
    int64_t heard_ns;                /* when it came */
    double delivered, dropped, cores; /* a second, between the last two reports; cores that it used */
    double busy[MR_HUB_LIST];        /* by device: the part of the time with calls in progress, summed over stages */
} mr_hub_run;

/* The fates of messages. */
typedef enum mr_hub_fate {
    MR_HUB_TAKEN, MR_HUB_MALFORMED, /* is no report */
    MR_HUB_STALE,                   /* is older than the last one, or of a run that has ended */
    MR_HUB_FULL,                    /* of a new run, for which there is no room */
    MR_HUB_FATES
} mr_hub_fate;
/* "taken", "malformed", "stale", "full". */
const char *mr_hub_fate_name(mr_hub_fate fate);

/* Zeroed but for the limits. */
typedef struct mr_hub_registry {
    size_t most;                     /* runs */
    int64_t lost_ns, keep_ns;
    size_t count, room;
    mr_hub_run **runs;               /* by id */
    uint64_t version;                /* rises with each change */
    uint64_t messages[MR_HUB_FATES];
    uint64_t delivered, dropped, absorbed; /* frames since the first report of each run, also of forgotten runs */
} mr_hub_registry;

/* Takes a message, and counts it. */
mr_hub_fate mr_hub_registry_take(mr_hub_registry *registry, const void *data, size_t bytes, int64_t now_ns);
/* Finds runs that are lost, and forgets old ones. */
void mr_hub_registry_look(mr_hub_registry *registry, int64_t now_ns);
/* Sums over all runs. */
typedef struct mr_hub_sums {
    uint64_t states[MR_HUB_STATES], failed; /* failed: ended with an exit code other than 0 */
    uint64_t unwell;                        /* run, and something has failed or is away */
    double delivered, dropped;              /* a second */
} mr_hub_sums;
mr_hub_sums mr_hub_registry_sum(const mr_hub_registry *registry);

/* The run with that id; NULL: it is not known. */
const mr_hub_run *mr_hub_registry_find(const mr_hub_registry *registry, uint64_t id);
void mr_hub_registry_fini(mr_hub_registry *registry);
