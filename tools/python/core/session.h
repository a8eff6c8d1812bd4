/* A pipeline that Python opened, without Python: who uses it, and how it ends.
 *
 * A session lives until its last reference is dropped: those of the Pipeline object, of its streams, and of frames in
 * the program's hands, whose texts live as long as the pipeline. Calls that wait are counted, so that no pipeline is
 * destroyed below a thread that is inside one of its functions.
 *
 * After a fork the child has none of the pipeline's threads: mr_py_session_enter refuses all its sessions, and their
 * memory is left as it is.
 *
 * Threads: any, without the GIL, unless stated. Lock order: sessions, session, stream. */
#pragma once

#include <pthread.h>

#include "millrace/millrace.h"

typedef struct mr_py_stream mr_py_stream;
typedef struct mr_py_subscription mr_py_subscription;

/* How far the pipeline's only run has come. A start that failed cannot be repeated. */
typedef enum mr_py_progress { MR_PY_OPEN, MR_PY_STARTING, MR_PY_STARTED, MR_PY_FAILED } mr_py_progress;

typedef struct mr_py_session {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mr_pipeline *pipeline; /* NULL once it is destroyed */
    mr_type_list types;
    int references, calls;
    int holds; /* references by frames in the program's hands */
    mr_py_progress progress;
    bool closing, closed;
    bool given_up;       /* by a close; only a thread waits for the run's end */
    unsigned generation; /* of forks, when it was opened */
    mr_py_subscription *subscriptions;
    struct mr_py_session *next, *previous; /* of the sessions that are not closed */
} mr_py_session;

/* Refuses or allows calls. */
typedef enum mr_py_entry { MR_PY_ENTERED, MR_PY_CLOSED, MR_PY_FORKED } mr_py_entry;

/* Call once, before all others. */
int mr_py_sessions_begin(void);
/* True in a child process whose parent had a session when it forked. */
bool mr_py_sessions_forked(void);

/* Makes a session with one reference. NULL: no memory. */
mr_py_session *mr_py_session_create(void);
void mr_py_session_ref(mr_py_session *session);
/* Drops a reference. True: it still has the reference, and the caller must call mr_py_session_destroy, without the
 * GIL. */
bool mr_py_session_drop(mr_py_session *session);
/* Destroys the pipeline, drops the reference, and frees the session if it was the last. */
void mr_py_session_destroy(mr_py_session *session);
/* Both. */
void mr_py_session_unref(mr_py_session *session);
/* A reference by a frame: once the session is closed, the last of these destroys the pipeline. As mr_py_session_drop.
 */
void mr_py_session_hold(mr_py_session *session);
bool mr_py_session_unhold(mr_py_session *session);
/* True if it was opened in this process, not before a fork. */
bool mr_py_session_is_ours(const mr_py_session *session);
/* How many forks lead to this process, for what is no session. With the GIL. */
unsigned mr_py_sessions_generation(void);

/* Begins a call into the pipeline; mr_py_session_leave must follow if it is ENTERED. */
mr_py_entry mr_py_session_enter(mr_py_session *session);
void mr_py_session_leave(mr_py_session *session);
/* The same for the call that starts the run. *before: the progress so far. Only if it is OPEN may the call start the
 * run, and mr_py_session_end_start must follow. */
mr_py_entry mr_py_session_begin_start(mr_py_session *session, mr_py_progress *before);
void mr_py_session_end_start(mr_py_session *session, bool failed);
mr_py_progress mr_py_session_progress(mr_py_session *session);
/* Waits for the start, and then as mr_pipeline_wait. MR_OK if nothing runs: it was not started, or that failed. */
int mr_py_session_wait(mr_py_session *session, int64_t timeout_ns);

/* The end, in three steps. `begin` asks the sources to end and wakes all that wait; false: another thread has begun
 * before. `poll` waits for the end of the run, for up to `timeout_ns`; true once it has ended. With `at_once`, frames
 * in flight are dropped. `finish` waits until no call is inside, and releases all that the session keeps for it. */
bool mr_py_session_begin_close(mr_py_session *session, bool at_once);
bool mr_py_session_poll_close(mr_py_session *session, int64_t timeout_ns);
void mr_py_session_hurry(mr_py_session *session);
void mr_py_session_finish_close(mr_py_session *session);
/* Instead of `finish`: a thread does that once the run has ended. */
void mr_py_session_give_up(mr_py_session *session);
bool mr_py_session_is_given_up(mr_py_session *session);
/* Waits until another thread has finished, for up to `timeout_ns`. */
bool mr_py_session_await_close(mr_py_session *session, int64_t timeout_ns);

/* The first session that is not closed, with a reference; NULL: there is none. */
mr_py_session *mr_py_sessions_first(void);
/* Removes a session that does not end from those that mr_py_sessions_first gives. */
void mr_py_session_forget(mr_py_session *session);
/* Drops the reference of a Pipeline object. If nobody has closed the session, a thread does. */
void mr_py_session_abandon(mr_py_session *session);
