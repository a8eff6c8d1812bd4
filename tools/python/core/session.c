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

mr_py_entry mr_py_session_begin_start(mr_py_session *session, mr_py_progress *before) {
    if (!mr_py_session_is_ours(session))
        return MR_PY_FORKED;
    pthread_mutex_lock(&session->lock);
    const bool open = !session->closing;
    *before = session->progress;
    session->calls += open;
    if (open && session->progress == MR_PY_OPEN)
        session->progress = MR_PY_STARTING; /* from now on a close must stop the run */
    pthread_mutex_unlock(&session->lock);
    return open ? MR_PY_ENTERED : MR_PY_CLOSED;
}

void mr_py_session_end_start(mr_py_session *session, bool failed) {
    pthread_mutex_lock(&session->lock);
    session->progress = failed ? MR_PY_FAILED : MR_PY_STARTED;
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->lock);
}

mr_py_progress mr_py_session_progress(mr_py_session *session) {
    pthread_mutex_lock(&session->lock);
    const mr_py_progress progress = session->progress;
    pthread_mutex_unlock(&session->lock);
    return progress;
}

void mr_py_session_leave(mr_py_session *session) {
    pthread_mutex_lock(&session->lock);
    if (--session->calls == 0)
        pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->lock);
}

/* Needs the lock. Waits for a change until a time; negative `timeout_ns`: without limit. False: the time is over. */
static bool await_change(mr_py_session *session, const struct timespec *until, int64_t timeout_ns) {
    return timeout_ns < 0 ? !pthread_cond_wait(&session->changed, &session->lock)
                          : !pthread_cond_timedwait(&session->changed, &session->lock, until);
}

static struct timespec time_after(int64_t ns) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ns / 1000000000;
    until.tv_nsec += ns % 1000000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return until;
}

int mr_py_session_wait(mr_py_session *session, int64_t timeout_ns) {
    const struct timespec until = time_after(timeout_ns < 0 ? 0 : timeout_ns);
    pthread_mutex_lock(&session->lock);
    while (session->progress == MR_PY_STARTING && await_change(session, &until, timeout_ns))
        ;
    const mr_py_progress progress = session->progress;
    pthread_mutex_unlock(&session->lock);
    return progress == MR_PY_STARTING  ? MR_ERROR_AGAIN
           : progress == MR_PY_STARTED ? mr_pipeline_wait(session->pipeline, timeout_ns)
                                       : MR_OK;
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

bool mr_py_session_begin_close(mr_py_session *session, bool at_once) {
    pthread_mutex_lock(&session->lock);
    const bool first = !session->closing;
    const bool runs = session->progress == MR_PY_STARTING || session->progress == MR_PY_STARTED;
    mr_py_subscription *subscriptions = session->subscriptions;
    session->closing = true;
    pthread_mutex_unlock(&session->lock);
    if (!first)
        return false;
    for (mr_py_subscription *each = subscriptions; each; each = each->next)
        mr_py_subscription_close(each);
    if (runs)
        mr_pipeline_stop(session->pipeline, at_once);
    return true;
}

bool mr_py_session_poll_close(mr_py_session *session, int64_t timeout_ns) {
    return mr_py_session_wait(session, timeout_ns) != MR_ERROR_AGAIN;
}

void mr_py_session_hurry(mr_py_session *session) {
    mr_pipeline_stop(session->pipeline, true);
}

void mr_py_session_finish_close(mr_py_session *session) {
    mr_py_session_wait(session, -1);
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
    pthread_mutex_lock(&session->lock);
    session->references++;
    session->given_up = true;
    pthread_mutex_unlock(&session->lock);
    if (!pthread_create(&thread, NULL, finish_later, session))
        pthread_detach(thread); /* Else the session stays until the process ends. */
}

bool mr_py_session_is_given_up(mr_py_session *session) {
    pthread_mutex_lock(&session->lock);
    const bool given_up = session->given_up;
    pthread_mutex_unlock(&session->lock);
    return given_up;
}

bool mr_py_session_await_close(mr_py_session *session, int64_t timeout_ns) {
    const struct timespec until = time_after(timeout_ns);
    pthread_mutex_lock(&session->lock);
    while (!session->closed && await_change(session, &until, timeout_ns))
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
