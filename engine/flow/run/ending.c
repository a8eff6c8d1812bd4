#include "engine/flow/run/ending.h"

#include <pthread.h>
#include <stdio.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"

struct mr_ending {
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    size_t holds;
    int status;           /* first failure */
    char message[512];
    mr_run_times times;
};

int mr_ending_create(mr_ending **ending) {
    mr_ending *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    pthread_mutex_init(&made->lock, NULL);
    mr_condition_init(&made->changed);
    *ending = made;
    return MR_OK;
}

void mr_ending_destroy(mr_ending **ending) {
    mr_ending *gone = *ending;
    if (!gone)
        return;
    pthread_cond_destroy(&gone->changed);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
    *ending = NULL;
}

void mr_ending_hold(mr_ending *ending, size_t count) {
    MR_LOCKED(&ending->lock);
    ending->holds += count;
}

void mr_ending_release(mr_ending *ending) {
    MR_LOCKED(&ending->lock);
    if (--ending->holds == 0) {
        ending->times.ended_ns = mr_clock_now_ns(mr_clock_real());
        ending->times.ended_cpu_s = mr_process_cpu_s();
        pthread_cond_broadcast(&ending->changed);
    }
}

/* With the lock. */
static void keep(mr_ending *ending, int status, const char *message) {
    ending->status = status;
    snprintf(ending->message, sizeof ending->message, "%s", message);
}

void mr_ending_note_failure(mr_ending *ending, int status, const char *message) {
    MR_LOCKED(&ending->lock);
    if (!ending->status)
        keep(ending, status, message);
}

void mr_ending_replace_failure(mr_ending *ending, int status, const char *message) {
    MR_LOCKED(&ending->lock);
    keep(ending, status, message);
}

void mr_ending_give_up(mr_ending *ending, int status, const char *message) {
    MR_LOCKED(&ending->lock);
    keep(ending, status, message);
    ending->holds = 0;
    pthread_cond_broadcast(&ending->changed);
}

int mr_ending_outcome(mr_ending *ending) {
    MR_LOCKED(&ending->lock);
    return ending->status ? mr_fail(ending->status, "%s", ending->message) : MR_OK;
}

size_t mr_ending_wait(mr_ending *ending, int64_t timeout_ns) {
    struct timespec until = mr_condition_until(timeout_ns);
    MR_LOCKED(&ending->lock);
    while (ending->holds > 0) {
        if (timeout_ns < 0)
            pthread_cond_wait(&ending->changed, &ending->lock);
        else if (pthread_cond_timedwait(&ending->changed, &ending->lock, &until))
            break;
    }
    return ending->holds;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

void mr_ending_note_start(mr_ending *ending) {
    MR_LOCKED(&ending->lock);
    ending->times.started_ns = mr_clock_now_ns(mr_clock_real());
    ending->times.started_cpu_s = mr_process_cpu_s();
}

void mr_ending_note_open(mr_ending *ending) {
    MR_LOCKED(&ending->lock);
    ending->times.allocations = mr_allocation_count();
}

mr_run_times mr_ending_times(mr_ending *ending) {
    MR_LOCKED(&ending->lock);
    return ending->times;
}
