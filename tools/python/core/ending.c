#include "ending.h"

#include "inside.h"
#include "millrace/log.h"
#include "summary.h"

/* How long a wait lasts before it looks for Ctrl-C. */
#define SLICE_NS INT64_C(50000000)
/* At the interpreter's end: the time to deliver frames in flight, and then for functions of the program to return. */
#define GRACE_NS  INT64_C(10000000000)
#define RETURN_NS INT64_C(5000000000)

/* True after Ctrl-C. An exception is then set, the first of them; with `noted`, that is set instead. */
static bool interrupted(bool *noted) {
    PyObject *type, *value, *trace;
    if (noted) {
        const bool now = PyOS_InterruptOccurred();
        *noted = *noted || now;
        return now;
    }
    PyErr_Fetch(&type, &value, &trace);
    const bool found = PyErr_CheckSignals();
    if (type)
        PyErr_Restore(type, value, trace);
    return found;
}

static void warn(const char *end) {
    char stages[256];
    if (*mr_py_calls_print(stages, sizeof stages))
        mr_log(MR_LOG_WARNING, "the function of stage %s does not return, so the run does not end: %s", stages, end);
    else
        mr_log(MR_LOG_WARNING, "the run does not end: %s", end);
}

/* Waits for the end of a run that was asked to end. False: it gives up, `patience` nanoseconds after frames in flight
 * were dropped (-1: never), or by Ctrl-C. An exception may be set in both cases. */
static bool await_end(mr_py_session *session, int64_t left, int64_t patience, bool *noted) {
    bool over = false, hurried = left == 0;
    for (int64_t since = 0;; since += hurried ? SLICE_NS : 0) {
        Py_BEGIN_ALLOW_THREADS
        over = mr_py_session_poll_close(session, SLICE_NS);
        Py_END_ALLOW_THREADS
        const bool asked = interrupted(noted);
        if (over)
            return true;
        left -= left > SLICE_NS ? SLICE_NS : left > 0 ? left : 0;
        if (hurried && (asked || (patience >= 0 && since >= patience)))
            return false;
        if (since == RETURN_NS)
            warn("Ctrl-C ends the wait");
        if (!hurried && (asked || left == 0)) {
            hurried = true;
            Py_BEGIN_ALLOW_THREADS
            mr_py_session_hurry(session);
            Py_END_ALLOW_THREADS
        }
    }
}

/* The same while another thread closes the session. */
static bool await_other(mr_py_session *session, int64_t left, bool *noted) {
    bool over = false;
    while (!over) {
        Py_BEGIN_ALLOW_THREADS
        over = mr_py_session_await_close(session, SLICE_NS);
        Py_END_ALLOW_THREADS
        if (interrupted(noted) || left == 0)
            break;
        left -= left > SLICE_NS ? SLICE_NS : left > 0 ? left : 0;
    }
    return over;
}

static PyObject *last_summary(mr_py_session *session) {
    mr_summary *made = NULL;
    int status = MR_ERROR_USAGE;
    Py_BEGIN_ALLOW_THREADS
    if (session->started)
        status = mr_pipeline_summarize(session->pipeline, &made);
    Py_END_ALLOW_THREADS
    PyObject *seen = status ? NULL : mr_py_summary(made);
    mr_summary_destroy(&made);
    return seen;
}

static PyObject *close_session(mr_py_session *session, int64_t left, bool *noted) {
    PyObject *type, *value, *trace, *seen = NULL;
    bool first;
    if (!mr_py_session_is_ours(session))
        Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS
    first = mr_py_session_begin_close(session, left == 0);
    Py_END_ALLOW_THREADS
    const bool over =
        first ? await_end(session, left, -1, noted) : await_other(session, session->given_up ? 0 : -1, noted);
    PyErr_Fetch(&type, &value, &trace);
    if (first && over) {
        seen = last_summary(session);
        PyErr_Clear();
    }
    Py_BEGIN_ALLOW_THREADS
    if (first && over)
        mr_py_session_finish_close(session);
    else if (first)
        mr_py_session_give_up(session);
    Py_END_ALLOW_THREADS
    PyErr_Restore(type, value, trace);
    if (type) {
        Py_XDECREF(seen);
        return NULL;
    }
    if (seen)
        return seen;
    Py_RETURN_NONE;
}

PyObject *mr_py_close(mr_py_session *session, int64_t left) {
    return close_session(session, left, NULL);
}

void mr_py_close_all(void) {
    for (mr_py_session *session; (session = mr_py_sessions_first());) {
        bool first;
        Py_BEGIN_ALLOW_THREADS
        first = mr_py_session_begin_close(session, false);
        Py_END_ALLOW_THREADS
        const bool over = first ? await_end(session, GRACE_NS, RETURN_NS - SLICE_NS, NULL)
                                : await_other(session, session->given_up ? 0 : GRACE_NS + RETURN_NS, NULL);
        PyErr_Clear();
        if (!over)
            warn("the process ends without it");
        Py_BEGIN_ALLOW_THREADS
        if (!over)
            mr_py_session_forget(session);
        else if (first)
            mr_py_session_finish_close(session);
        mr_py_session_unref(session);
        Py_END_ALLOW_THREADS
    }
}

/* ---- the end of a run that the program has left ------------------------------------------------------------------ */

typedef struct closer {
    PyObject_HEAD mr_py_session *session;
    PyObject *pipeline;
} closer;

static PyTypeObject *closer_type;

PyObject *mr_py_closer(mr_py_session *session, PyObject *pipeline) {
    closer *made = PyObject_New(closer, closer_type);
    if (!made)
        return NULL;
    mr_py_session_ref(session);
    Py_INCREF(pipeline);
    made->session = session;
    made->pipeline = pipeline;
    return (PyObject *)made;
}

/* Python drops exceptions of destructors, so the handler of Ctrl-C must run later, in the program's own code. */
static void closer_dealloc(PyObject *object) {
    closer *self = (closer *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *kind, *value, *trace;
    bool noted = false;
    PyErr_Fetch(&kind, &value, &trace);
    PyObject *seen = mr_py_is_inside() ? NULL : close_session(self->session, GRACE_NS, &noted);
    if (seen && seen != Py_None)
        PyObject_SetAttrString(self->pipeline, "_last", seen);
    Py_XDECREF(seen);
    Py_DECREF(self->pipeline);
    if (mr_py_session_drop(self->session)) {
        Py_BEGIN_ALLOW_THREADS
        mr_py_session_destroy(self->session);
        Py_END_ALLOW_THREADS
    }
    PyErr_Clear();
    PyErr_Restore(kind, value, trace);
    PyObject_Free(object);
    Py_DECREF(type);
    if (noted)
        PyErr_SetInterrupt();
}

int mr_py_closer_add_type(PyObject *module) {
    static PyType_Slot slots[] = {{Py_tp_new, mr_py_refuse_new}, {Py_tp_dealloc, closer_dealloc}, {0, NULL}};
    static PyType_Spec spec = {"millrace._core.Closer", sizeof(closer), 0, Py_TPFLAGS_DEFAULT, slots};
    closer_type = (PyTypeObject *)mr_py_add_type(module, &spec);
    return closer_type ? 0 : -1;
}
