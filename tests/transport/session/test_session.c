/* The cut protocol: random schedules in a simulated world, and replies to single messages. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/suite.h"
#include "tests/support/transport/cut_world.h"

static uint64_t from_environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* Runs schedules from seed MILLRACE_SEED on, MILLRACE_SCHEDULES of each kind. */
static world_result run_schedules(bool live, const world_faults *faults) {
    uint64_t first = from_environment("MILLRACE_SEED", 1), count = from_environment("MILLRACE_SCHEDULES", 5000);
    world_result sum = {0};
    for (uint64_t i = 0; i < count; i++)
        world_run(first + i, live, faults, &sum);
    printf("%llu schedules: %llu delivered, %llu dropped, %llu absorbed, %llu lost, %llu set aside; %llu sent again, "
           "%llu came twice, %llu sessions, %llu innocent\n",
           (unsigned long long)count, (unsigned long long)sum.delivered, (unsigned long long)sum.dropped,
           (unsigned long long)sum.absorbed, (unsigned long long)sum.lost, (unsigned long long)sum.set_aside,
           (unsigned long long)sum.resent, (unsigned long long)sum.duplicates, (unsigned long long)sum.sessions,
           (unsigned long long)sum.innocent);
    return sum;
}

#define SCHEDULES(name, is_live, ...)                                                                                  \
    TEST(name) {                                                                                                       \
        static const world_faults faults = {__VA_ARGS__};                                                              \
        run_schedules(is_live, &faults);                                                                               \
    }

SCHEDULES(test_quiet, false, .batches = false)
SCHEDULES(test_lost_and_repeated_messages, false, .loss = true, .duplicates = true)
SCHEDULES(test_damage_and_closed_connections, false, .damage = true, .closing = true)
SCHEDULES(test_connections_that_swallow, false, .wedges = true, .loss = true)
SCHEDULES(test_receivers_that_die, false, .receivers_die = true, .closing = true)
SCHEDULES(test_senders_that_die, false, .senders_die = true, .loss = true)
SCHEDULES(test_processes_that_stand_still, false, .pauses = true, .loss = true)
SCHEDULES(test_frames_that_kill, false, .poison = true, .closing = true)

/* If only poison kills processes, hardly anything else is set aside: only what a process had in hand with the same
 * deadly frame each time. */
TEST(test_only_what_kills_is_set_aside) {
    static const world_faults faults = {.poison = true};
    world_result sum = run_schedules(false, &faults);
    assert_true(sum.innocent * 1000 <= sum.set_aside + 1000);
}

/* Unreadable messages hold nothing up: everything readable passes, and nothing else is set aside. */
TEST(test_only_what_is_refused_is_set_aside) {
    static const world_faults faults = {.refusals = true, .closing = true};
    world_result sum = run_schedules(false, &faults);
    assert_true(sum.set_aside > 0);
    assert_int_equal(sum.innocent, 0);
}

SCHEDULES(test_refusals_and_deaths, false, .refusals = true, .closing = true, .receivers_die = true, .loss = true)
SCHEDULES(test_live_refusals, true, .refusals = true, .closing = true)
SCHEDULES(test_batches, false, .batches = true, .receivers_die = true, .loss = true)
SCHEDULES(test_garbage, false, .garbage = true, .damage = true, .closing = true)
SCHEDULES(test_everything, false, .loss = true, .duplicates = true, .damage = true, .closing = true,
          .receivers_die = true, .senders_die = true, .failures = true, .pauses = true, .garbage = true, .wedges = true)
SCHEDULES(test_receivers_that_fail, false, .failures = true, .receivers_die = true, .closing = true, .batches = true)
SCHEDULES(test_live_failures, true, .failures = true, .receivers_die = true, .closing = true)
SCHEDULES(test_live_quiet, true, .batches = false)
SCHEDULES(test_live_with_everything, true, .loss = true, .duplicates = true, .damage = true, .closing = true,
          .receivers_die = true, .pauses = true, .garbage = true, .wedges = true)

RUN_TESTS(NULL, NULL)
