/* A cut in a simulated world: senders, receivers, a network between them and a clock, all driven by one seed. Messages
 * are delayed, lost, repeated and damaged; connections close; processes die, stand still, hang, and come back.
 *
 * Invariants are checked while it runs: a failure prints the seed and ends the test. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct world_faults {
    bool loss, duplicates, damage, closing;  /* of messages and connections */
    bool wedges;                             /* open connections lose all messages of one direction, until renewed */
    bool receivers_die, senders_die, pauses; /* of processes */
    bool poison;                             /* some frames kill, or hang, the process that works on them */
    bool refusals;                           /* receivers cannot read messages with some frames */
    bool garbage;                            /* invalid messages, from strangers, too */
    bool batches;                            /* receivers work on several frames at once, and may wait for them */
} world_faults;

typedef struct world_result {
    uint64_t delivered, dropped, absorbed, set_aside, lost; /* frames, as reported to the sender */
    uint64_t innocent; /* of those set aside: they kill no process */
    uint64_t duplicates, resent, sessions;
} world_result;

/* Runs one schedule with faults, lets the network heal, and runs until all is done. */
void world_run(uint64_t seed, bool live, const world_faults *faults, world_result *result);
