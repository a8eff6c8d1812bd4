/* Signals without end for the calling thread, as from a program's timer whose handler was installed without SA_RESTART:
 * system calls that wait fail with EINTR. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/support/suite.h"

typedef struct interruptions {
    pthread_t thread, target;
    struct sigaction before;
    atomic_bool over;
} interruptions;

static atomic_long interruptions_taken;

static void interruptions_take(int number) {
    atomic_fetch_add(&interruptions_taken, 1);
}

static void *interruptions_send(void *context) {
    interruptions *of = context;
    while (!atomic_load(&of->over)) {
        pthread_kill(of->target, SIGUSR2);
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    return NULL;
}

/* Returns once that number has come. */
static void interruptions_await(long count) {
    const long wanted = atomic_load(&interruptions_taken) + count;
    while (atomic_load(&interruptions_taken) < wanted)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static void interruptions_begin(interruptions *of) {
    const struct sigaction wanted = {.sa_handler = interruptions_take};
    of->target = pthread_self();
    atomic_init(&of->over, false);
    assert_int_equal(sigaction(SIGUSR2, &wanted, &of->before), 0);
    assert_int_equal(pthread_create(&of->thread, NULL, interruptions_send, of), 0);
    interruptions_await(1);
}

static void interruptions_end(interruptions *of) {
    atomic_store(&of->over, true);
    pthread_join(of->thread, NULL);
    sigaction(SIGUSR2, &of->before, NULL);
}
