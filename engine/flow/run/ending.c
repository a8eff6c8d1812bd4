#include "engine/flow/run/ending.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"

/* The first of several. */
typedef struct failure {
    int status;
    char message[512];
} failure;

struct mr_ending {
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    size_t openings;      /* threads that must still open their instances */
    size_t holds;
    failure start, run;
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
    pthread_mutex_lock(&ending->lock);
    ending->holds += count;
    pthread_mutex_unlock(&ending->lock);
}

void mr_ending_release(mr_ending *ending) {
    pthread_mutex_lock(&ending->lock);
    if (--ending->holds == 0) {
        ending->times.ended_ns = mr_clock_now_ns(mr_clock_real());
        ending->times.ended_cpu_s = mr_process_cpu_s();
        pthread_cond_broadcast(&ending->changed);
    }
    pthread_mutex_unlock(&ending->lock);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

void mr_ending_note_failure(mr_ending *ending, int status, const char *message) {
    pthread_mutex_lock(&ending->lock);
    if (!ending->run.status) {
        ending->run.status = status;
        snprintf(ending->run.message, sizeof ending->run.message, "%s", message);
    }
    pthread_mutex_unlock(&ending->lock);
}

void mr_ending_fail_start(mr_ending *ending, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&ending->lock);
    if (!ending->start.status) {
        ending->start.status = status;
        vsnprintf(ending->start.message, sizeof ending->start.message, format, arguments);
    }
    pthread_mutex_unlock(&ending->lock);
    va_end(arguments);
}

int mr_ending_start_status(mr_ending *ending, bool all) {
    pthread_mutex_lock(&ending->lock);
    while (all && ending->openings)
        pthread_cond_wait(&ending->changed, &ending->lock);
    const failure found = ending->start;
    pthread_mutex_unlock(&ending->lock);
    return found.status ? mr_fail(found.status, "%s", found.message) : MR_OK;
}

int mr_ending_outcome(mr_ending *ending) {
    pthread_mutex_lock(&ending->lock);
    const failure found = ending->start.status ? ending->start : ending->run;
    pthread_mutex_unlock(&ending->lock);
    return found.status ? mr_fail(found.status, "%s", found.message) : MR_OK;
}

void mr_ending_give_up(mr_ending *ending) {
    pthread_mutex_lock(&ending->lock);
    ending->holds = 0;
    pthread_cond_broadcast(&ending->changed);
    pthread_mutex_unlock(&ending->lock);
}

/* ---- the beginning and the end ----------------------------------------------------------------------------------- */

void mr_ending_expect_opening(mr_ending *ending) {
    pthread_mutex_lock(&ending->lock);
    ending->openings++;
    pthread_mutex_unlock(&ending->lock);
}

void mr_ending_note_opening(mr_ending *ending) {
    pthread_mutex_lock(&ending->lock);
    ending->openings--;
    pthread_cond_broadcast(&ending->changed);
    pthread_mutex_unlock(&ending->lock);
}

size_t mr_ending_wait(mr_ending *ending, int64_t timeout_ns) {
    struct timespec until = mr_condition_until(timeout_ns);
    pthread_mutex_lock(&ending->lock);
    while (ending->holds > 0) {
        if (timeout_ns < 0)
            pthread_cond_wait(&ending->changed, &ending->lock);
        else if (pthread_cond_timedwait(&ending->changed, &ending->lock, &until))
            break;
    }
    size_t holds = ending->holds;
    pthread_mutex_unlock(&ending->lock);
    return holds;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

void mr_ending_note_start(mr_ending *ending) {
    pthread_mutex_lock(&ending->lock);
    ending->times.started_ns = mr_clock_now_ns(mr_clock_real());
    ending->times.started_cpu_s = mr_process_cpu_s();
    pthread_mutex_unlock(&ending->lock);
}

void mr_ending_note_open(mr_ending *ending) {
    pthread_mutex_lock(&ending->lock);
    ending->times.allocations = mr_allocation_count();
    pthread_mutex_unlock(&ending->lock);
}

mr_run_times mr_ending_times(mr_ending *ending) {
    pthread_mutex_lock(&ending->lock);
    mr_run_times times = ending->times;
    pthread_mutex_unlock(&ending->lock);
    return times;
}
