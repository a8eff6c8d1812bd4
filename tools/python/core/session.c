#include "session.h"

#include <stdlib.h>
#include <time.h>

#include "subscription.h"

/* How long frames in flight may take to be delivered, if nobody waits for them. */
#define GRACE_NS INT64_C(10000000000)

static struct {
    pthread_mutex_t lock;
    mr_py_session *first;
    unsigned generation;
    bool forked;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Only the forking thread is left: a lock that another thread held would never be released. */
static void after_fork(void) {
    pthread_mutex_init(&all.lock, NULL);
    all.generation++;
    all.forked = all.forked || all.first;
    all.first = NULL;
}

int mr_py_sessions_begin(void) {
    return pthread_atfork(NULL, NULL, after_fork);
}

bool mr_py_sessions_forked(void) {
    return all.forked;
}

mr_py_session *mr_py_session_create(void) {
    mr_py_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    pthread_mutex_init(&session->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&session->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    session->references = 1;
    session->generation = all.generation;
    pthread_mutex_lock(&all.lock);
    session->next = all.first;
    if (all.first)
        all.first->previous = session;
    all.first = session;
    pthread_mutex_unlock(&all.lock);
    return session;
}

/* Needs the lock of sessions. */
static void unlink_session(mr_py_session *session) {
    if (session->previous)
        session->previous->next = session->next;
    else if (all.first == session)
        all.first = session->next;
    if (session->next)
        session->next->previous = session->previous;
    session->next = session->previous = NULL;
}

void mr_py_session_forget(mr_py_session *session) {
    pthread_mutex_lock(&all.lock);
    unlink_session(session);
    pthread_mutex_unlock(&all.lock);
}

unsigned mr_py_sessions_generation(void) {
    return all.generation;
}

bool mr_py_session_is_ours(const mr_py_session *session) {
    return session->generation == all.generation;
}

void mr_py_session_ref(mr_py_session *session) {
    if (!mr_py_session_is_ours(session))
        return;
    pthread_mutex_lock(&session->lock);
    session->references++;
    pthread_mutex_unlock(&session->lock);
}

/* A closed session, none of whose frames the program holds, needs its pipeline no more. */
static bool is_over(const mr_py_session *session) {
    return session->closed && !session->holds && session->pipeline;
}

/* Whoever has something to destroy keeps its reference until that is done, so nobody else frees the session. */
static bool drop(mr_py_session *session, int holds) {
    if (!mr_py_session_is_ours(session))
        return false;
    pthread_mutex_lock(&session->lock);
    session->holds -= holds;
    const bool due = is_over(session) || session->references == 1;
    session->references -= !due;
    pthread_mutex_unlock(&session->lock);
    return due;
}

bool mr_py_session_drop(mr_py_session *session) {
    return drop(session, 0);
}

void mr_py_session_hold(mr_py_session *session) {
    pthread_mutex_lock(&session->lock);
    session->holds++;
    session->references++;
    pthread_mutex_unlock(&session->lock);
}

bool mr_py_session_unhold(mr_py_session *session) {
    return drop(session, 1);
}

static void destroy_pipeline(mr_py_session *session) {
    pthread_mutex_lock(&session->lock);
    mr_pipeline *pipeline = session->pipeline;
    session->pipeline = NULL;
    pthread_mutex_unlock(&session->lock);
    mr_pipeline_destroy(&pipeline);
}

void mr_py_session_destroy(mr_py_session *session) {
    destroy_pipeline(session);
    /* Under both locks: mr_py_sessions_first must not find a session that is being freed. */
    pthread_mutex_lock(&all.lock);
    pthread_mutex_lock(&session->lock);
    const bool last = --session->references == 0;
    pthread_mutex_unlock(&session->lock);
    if (last)
        unlink_session(session);
    pthread_mutex_unlock(&all.lock);
    if (!last)
        return;
    mr_type_list_fini(&session->types);
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->lock);
    free(session);
}

void mr_py_session_unref(mr_py_session *session) {
    if (mr_py_session_drop(session))
        mr_py_session_destroy(session);
}

mr_py_entry mr_py_session_enter(mr_py_session *session) {
    if (!mr_py_session_is_ours(session))
        return MR_PY_FORKED;
    pthread_mutex_lock(&session->lock);
    const bool open = !session->closing;
    session->calls += open;
    pthread_mutex_unlock(&session->lock);
    return open ? MR_PY_ENTERED : MR_PY_CLOSED;
}

void mr_py_session_leave(mr_py_session *session) {
    pthread_mutex_lock(&session->lock);
    if (--session->calls == 0)
        pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->lock);
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

bool mr_py_session_begin_close(mr_py_session *session, bool at_once) {
    pthread_mutex_lock(&session->lock);
    const bool first = !session->closing;
    session->closing = true;
    pthread_mutex_unlock(&session->lock);
    if (!first)
        return false;
    for (mr_py_subscription *each = session->subscriptions; each; each = each->next)
        mr_py_subscription_close(each);
    if (session->started)
        mr_pipeline_stop(session->pipeline, at_once);
    return true;
}

bool mr_py_session_poll_close(mr_py_session *session, int64_t timeout_ns) {
    return !session->started || mr_pipeline_wait(session->pipeline, timeout_ns) != MR_ERROR_AGAIN;
}

void mr_py_session_hurry(mr_py_session *session) {
    mr_pipeline_stop(session->pipeline, true);
}

void mr_py_session_finish_close(mr_py_session *session) {
    if (session->started)
        mr_pipeline_wait(session->pipeline, -1);
    pthread_mutex_lock(&session->lock);
    while (session->calls)
        pthread_cond_wait(&session->changed, &session->lock);
    mr_py_subscription *subscriptions = session->subscriptions;
    const bool unheld = !session->holds;
    session->subscriptions = NULL;
    pthread_mutex_unlock(&session->lock);
    if (unheld)
        destroy_pipeline(session);
    mr_py_subscriptions_destroy(subscriptions);
    mr_py_session_forget(session);
    pthread_mutex_lock(&session->lock);
    session->closed = true;
    const bool over = is_over(session); /* the program has let go of its frames meanwhile */
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->lock);
    if (over)
        destroy_pipeline(session);
}

static void *finish_later(void *context) {
    mr_py_session *session = context;
    mr_py_session_finish_close(session);
    mr_py_session_unref(session);
    return NULL;
}

void mr_py_session_give_up(mr_py_session *session) {
    pthread_t thread;
    mr_py_session_ref(session);
    session->given_up = true;
    if (!pthread_create(&thread, NULL, finish_later, session))
        pthread_detach(thread); /* Else the session stays until the process ends. */
}

bool mr_py_session_await_close(mr_py_session *session, int64_t timeout_ns) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)timeout_ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&session->lock);
    while (!session->closed && !pthread_cond_timedwait(&session->changed, &session->lock, &until))
        ;
    const bool closed = session->closed;
    pthread_mutex_unlock(&session->lock);
    return closed;
}

mr_py_session *mr_py_sessions_first(void) {
    pthread_mutex_lock(&all.lock);
    mr_py_session *first = all.first;
    if (first)
        mr_py_session_ref(first);
    pthread_mutex_unlock(&all.lock);
    return first;
}

static void *close_abandoned(void *context) {
    mr_py_session *session = context;
    if (mr_py_session_begin_close(session, false)) {
        if (!mr_py_session_poll_close(session, GRACE_NS))
            mr_py_session_hurry(session);
        mr_py_session_finish_close(session);
    }
    mr_py_session_unref(session);
    return NULL;
}

void mr_py_session_abandon(mr_py_session *session) {
    pthread_t thread;
    if (!mr_py_session_is_ours(session))
        return;
    pthread_mutex_lock(&session->lock);
    const bool closed = session->closed;
    pthread_mutex_unlock(&session->lock);
    if (closed) {
        mr_py_session_unref(session);
        return;
    }
    if (pthread_create(&thread, NULL, close_abandoned, session))
        return; /* It runs on until the process ends. */
    pthread_detach(thread);
}
