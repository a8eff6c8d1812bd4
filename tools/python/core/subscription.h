/* What becomes of the frames that reach a stage of type `callback`: a function of the program gets them, or a stream
 * keeps them until the program takes them.
 *
 * The module has its own `callback`, in place of the library's. It has a thread, so a slow program holds up the stages
 * before it, as any slow sink does, but no worker.
 *
 * Threads: as stated. */
#pragma once

#include "hold.h"
#include "session.h"

struct mr_py_subscription {
    mr_py_subscription *next;
    mr_py_session *session;
    char *stage;
    PyObject *function;   /* NULL: a stream */
    mr_py_stream *stream; /* NULL: a function */
    bool fails;           /* an exception ends the run (on_error: fail) */
    mr_py_kept *kept;     /* by the function; NULL: a stream */
};

/* The type that stands in for the library's. */
extern const mr_stage_type mr_py_callback_stage;

/* Subscribes before the start. `function` is None for a stream with room for `room` frames, which the call returns;
 * else returns None. `strict`: all frames count for the room; for a function, its exceptions end the run. The caller
 * must be inside the session. */
PyObject *mr_py_subscribe(mr_py_session *session, const char *stage, PyObject *function, long room, bool strict);
/* Lets go of all frames that come later. Without the GIL. */
void mr_py_subscription_close(mr_py_subscription *subscription);
/* Frees a list. Without the GIL, which it takes. */
void mr_py_subscriptions_destroy(mr_py_subscription *first);
