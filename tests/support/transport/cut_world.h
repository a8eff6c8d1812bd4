/* A cut in a simulated world: senders, receivers, a network and a clock, all driven by one seed. Messages are delayed,
 * lost, repeated and damaged; connections close; processes die, pause, hang, and come back.
 *
 * Invariants are checked all the time: a failure prints the seed and ends the test. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct world_faults {
    bool loss, duplicates, damage, closing;  /* messages and connections */
    bool wedges;                             /* open connections lose all messages in one direction until renewed */
    bool receivers_die, senders_die, pauses; /* processes */
    bool failures;                           /* receivers that are not started again; one lives */
    bool poison;                             /* some frames kill or hang the process that works on them */
    bool refusals;                           /* receivers cannot read messages with some frames */
    bool garbage;                            /* invalid messages, also from strangers */
    bool batches;                            /* receivers work on several frames at once, and may wait for them */
} world_faults;

typedef struct world_result {
    uint64_t delivered, dropped, absorbed, set_aside, lost; /* frames, as the sender learns */
    uint64_t innocent; /* frames set aside that kill no process */
    uint64_t duplicates, resent, sessions;
} world_result;

/* Runs one schedule with faults, then heals the network and runs until everything is done. */
void world_run(uint64_t seed, bool live, const world_faults *faults, world_result *result);
