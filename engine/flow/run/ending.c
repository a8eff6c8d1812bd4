#include "engine/flow/run/ending.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

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
    MR_LOCKED(&ending->lock);
    ending->holds += count;
}

void mr_ending_release(mr_ending *ending) {
    MR_LOCKED(&ending->lock);
    if (--ending->holds == 0) {
        ending->times.ended_ns = mr_now_ns();
        ending->times.ended_cpu_s = mr_process_cpu_s();
        pthread_cond_broadcast(&ending->changed);
    }
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

void mr_ending_note_failure(mr_ending *ending, int status, const char *message) {
    MR_LOCKED(&ending->lock);
    if (ending->run.status)
        return;
    ending->run.status = status;
    snprintf(ending->run.message, sizeof ending->run.message, "%s", message);
}

void mr_ending_fail_start(mr_ending *ending, int status, const char *format, ...) {
    va_list arguments;
    MR_LOCKED(&ending->lock);
    if (ending->start.status)
        return;
    ending->start.status = status;
    va_start(arguments, format);
    vsnprintf(ending->start.message, sizeof ending->start.message, format, arguments);
    va_end(arguments);
}

static int report(const failure *found) {
    return found->status ? mr_fail(found->status, "%s", found->message) : MR_OK;
}

int mr_ending_start_status(mr_ending *ending, bool all) {
    MR_LOCKED(&ending->lock);
    while (all && ending->openings)
        pthread_cond_wait(&ending->changed, &ending->lock);
    return report(&ending->start);
}

int mr_ending_outcome(mr_ending *ending) {
    MR_LOCKED(&ending->lock);
    return report(ending->start.status ? &ending->start : &ending->run);
}

void mr_ending_give_up(mr_ending *ending) {
    MR_LOCKED(&ending->lock);
    ending->holds = 0;
    pthread_cond_broadcast(&ending->changed);
}

/* ---- the beginning and the end ----------------------------------------------------------------------------------- */

void mr_ending_expect_opening(mr_ending *ending) {
    MR_LOCKED(&ending->lock);
    ending->openings++;
}

void mr_ending_note_opening(mr_ending *ending) {
    MR_LOCKED(&ending->lock);
    ending->openings--;
    pthread_cond_broadcast(&ending->changed);
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

bool mr_ending_is_over(mr_ending *ending) {
    MR_LOCKED(&ending->lock);
    return ending->times.ended_ns != 0;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

void mr_ending_note_start(mr_ending *ending) {
    MR_LOCKED(&ending->lock);
    ending->times.started_ns = mr_now_ns();
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
