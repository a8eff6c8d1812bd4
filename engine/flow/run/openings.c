#include "engine/flow/run/openings.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "millrace/status.h"

struct mr_openings {
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    size_t left;          /* threads that must still open their instances */
    int status;           /* the first failure */
    char message[512];
};

int mr_openings_create(mr_openings **openings) {
    mr_openings *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    *openings = made;
    return MR_OK;
}

void mr_openings_destroy(mr_openings **openings) {
    mr_openings *gone = *openings;
    if (!gone)
        return;
    pthread_cond_destroy(&gone->changed);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
    *openings = NULL;
}

void mr_openings_expect(mr_openings *openings) {
    MR_LOCKED(&openings->lock);
    openings->left++;
}

void mr_openings_end(mr_openings *openings) {
    MR_LOCKED(&openings->lock);
    openings->left--;
    pthread_cond_broadcast(&openings->changed);
}

/* Later failures may only be interruptions, since the start is being abandoned. */
void mr_openings_fail(mr_openings *openings, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&openings->lock);
    if (!openings->status) {
        openings->status = status;
        vsnprintf(openings->message, sizeof openings->message, format, arguments);
    }
    pthread_mutex_unlock(&openings->lock);
    va_end(arguments);
}

int mr_openings_status(mr_openings *openings, bool all) {
    MR_LOCKED(&openings->lock);
    while (all && openings->left)
        pthread_cond_wait(&openings->changed, &openings->lock);
    return openings->status ? mr_fail(openings->status, "%s", openings->message) : MR_OK;
}
