#include "ending.h"

#include "inside.h"
#include "millrace/log.h"
#include "summary.h"

/* If the program has left the run, or the interpreter ends: the time to deliver frames in flight, and then for
 * functions of the program to return. */
#define GRACE_NS  INT64_C(10000000000)
#define RETURN_NS INT64_C(5000000000)

/* Calls the program's handlers of signals. True if one raised, as that of Ctrl-C does; an exception is then set, the
 * first of them. */
static bool interrupted(void) {
    PyObject *type, *value, *trace;
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
 * were dropped (-1: never), or by a signal. An exception may be set in both cases. */
static bool await_end(mr_py_session *session, int64_t left, int64_t patience) {
    bool over = false, hurried = left == 0;
    int64_t due = mr_py_due(hurried ? patience : left), warning_due = mr_py_due(RETURN_NS);
    for (;;) {
        const int64_t slice = mr_py_slice(due);
        Py_BEGIN_ALLOW_THREADS
        over = mr_py_session_poll_close(session, slice);
        Py_END_ALLOW_THREADS
        const bool asked = interrupted();
        if (over)
            return true;
        if (hurried && (asked || !slice))
            return false;
        if (hurried && !mr_py_slice(warning_due)) {
            warning_due = mr_py_due(-1);
            warn("Ctrl-C ends the wait");
        }
        if (!hurried && (asked || !slice)) {
            hurried = true;
            Py_BEGIN_ALLOW_THREADS
            mr_py_session_hurry(session);
            Py_END_ALLOW_THREADS
            due = mr_py_due(patience);
            warning_due = mr_py_due(RETURN_NS);
        }
    }
}

/* The same while another thread closes the session. */
static bool await_other(mr_py_session *session, int64_t left) {
    bool over = false;
    const int64_t due = mr_py_due(mr_py_session_is_given_up(session) ? 0 : left);
    for (int64_t slice = 1; !over && slice;) {
        slice = mr_py_slice(due);
        Py_BEGIN_ALLOW_THREADS
        over = mr_py_session_await_close(session, slice);
        Py_END_ALLOW_THREADS
        if (interrupted())
            break;
    }
    return over;
}

static PyObject *last_summary(mr_py_session *session) {
    mr_summary *made = NULL;
    int status = MR_ERROR_USAGE;
    Py_BEGIN_ALLOW_THREADS
    if (mr_py_session_progress(session) == MR_PY_STARTED)
        status = mr_pipeline_summarize(session->pipeline, &made);
    Py_END_ALLOW_THREADS
    PyObject *seen = status ? NULL : mr_py_summary(made);
    mr_summary_destroy(&made);
    return seen;
}

/* Returns the last summary; NULL: there was no run, or another close has it. An exception of a signal's handler may be
 * set in both cases. `over` is false if the run goes on after `left` and `patience` as in await_end. */
static PyObject *close_session(mr_py_session *session, int64_t left, int64_t patience, bool *over) {
    PyObject *type, *value, *trace, *seen = NULL;
    bool first;
    *over = true;
    if (!mr_py_session_is_ours(session))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    first = mr_py_session_begin_close(session, left == 0);
    Py_END_ALLOW_THREADS
    if (first)
        *over = await_end(session, left, patience);
    else
        *over = await_other(session, patience < 0 ? -1 : left + patience);
    PyErr_Fetch(&type, &value, &trace);
    if (first && *over) {
        seen = last_summary(session);
        PyErr_Clear();
    }
    Py_BEGIN_ALLOW_THREADS
    if (first && *over)
        mr_py_session_finish_close(session);
    else if (first)
        mr_py_session_give_up(session);
    Py_END_ALLOW_THREADS
    PyErr_Restore(type, value, trace);
    return seen;
}

PyObject *mr_py_close(mr_py_session *session, int64_t left) {
    bool over;
    PyObject *seen = close_session(session, left, -1, &over);
    if (PyErr_Occurred()) {
        Py_XDECREF(seen);
        return NULL;
    }
    if (seen)
        return seen;
    Py_RETURN_NONE;
}

void mr_py_close_all(void) {
    for (mr_py_session *session; (session = mr_py_sessions_first());) {
        bool first;
        Py_BEGIN_ALLOW_THREADS
        first = mr_py_session_begin_close(session, false);
        Py_END_ALLOW_THREADS
        const bool over = first ? await_end(session, GRACE_NS, RETURN_NS)
                                : await_other(session, GRACE_NS + RETURN_NS);
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
    bool ended;
} closer;

static PyTypeObject *closer_type;

PyObject *mr_py_closer(mr_py_session *session, PyObject *pipeline) {
    closer *made = PyObject_GC_New(closer, closer_type);
    if (!made)
        return NULL;
    mr_py_session_ref(session);
    Py_INCREF(pipeline);
    made->session = session;
    made->pipeline = pipeline;
    made->ended = false;
    PyObject_GC_Track(made);
    return (PyObject *)made;
}

static int raise_now(void *exception) {
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_DECREF((PyObject *)exception);
    return -1;
}

/* Python drops exceptions of destructors, so one that is set must be raised later, in the program's own code. */
static void raise_later(PyObject *place) {
    PyObject *kind, *exception, *trace;
    if (!PyErr_Occurred())
        return;
    PyErr_Fetch(&kind, &exception, &trace);
    PyErr_NormalizeException(&kind, &exception, &trace);
    if (trace)
        PyException_SetTraceback(exception, trace);
    if (!Py_AddPendingCall(raise_now, exception)) {
        Py_XDECREF(kind);
        Py_XDECREF(trace);
        return;
    }
    PyErr_Restore(kind, exception, trace);
    PyErr_WriteUnraisable(place);
}

/* Before the collector breaks a cycle, or else at the end of the object. */
static void closer_finalize(PyObject *object) {
    closer *self = (closer *)object;
    PyObject *kind, *value, *trace;
    bool over;
    if (self->ended || mr_py_is_inside())
        return;
    self->ended = true;
    PyErr_Fetch(&kind, &value, &trace);
    PyObject *seen = close_session(self->session, GRACE_NS, RETURN_NS, &over);
    raise_later((PyObject *)closer_type);
    if (!over)
        warn("the program goes on without it");
    if (seen && PyObject_SetAttrString(self->pipeline, "_last", seen))
        PyErr_Clear();
    Py_XDECREF(seen);
    PyErr_Restore(kind, value, trace);
}

static int closer_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((closer *)object)->pipeline);
    return 0;
}

static int closer_clear(PyObject *object) {
    Py_CLEAR(((closer *)object)->pipeline);
    return 0;
}

static void closer_dealloc(PyObject *object) {
    closer *self = (closer *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    closer_finalize(object);
    closer_clear(object);
    if (mr_py_session_drop(self->session)) {
        Py_BEGIN_ALLOW_THREADS
        mr_py_session_destroy(self->session);
        Py_END_ALLOW_THREADS
    }
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

int mr_py_closer_add_type(PyObject *module) {
    static PyType_Slot slots[] = {
        {Py_tp_new, mr_py_refuse_new},     {Py_tp_dealloc, closer_dealloc}, {Py_tp_finalize, closer_finalize},
        {Py_tp_traverse, closer_traverse}, {Py_tp_clear, closer_clear},     {0, NULL},
    };
    static PyType_Spec spec = {"millrace._core.Closer", sizeof(closer), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                               slots};
    closer_type = (PyTypeObject *)mr_py_add_type(module, &spec);
    return closer_type ? 0 : -1;
}
