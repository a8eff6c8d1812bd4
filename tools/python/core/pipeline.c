#include "pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "ending.h"
#include "frame.h"
#include "inside.h"
#include "params.h"
#include "plan.h"
#include "push.h"
#include "session.h"
#include "stage.h"
#include "stream.h"
#include "subscription.h"
#include "summary.h"

typedef struct pipeline {
    PyObject_HEAD mr_py_session *session;
} pipeline;

static PyTypeObject *pipeline_type;

/* The pipeline, or NULL with an exception if the entry was refused. */
static mr_pipeline *admit(PyObject *object, mr_py_entry entry) {
    switch (entry) {
    case MR_PY_ENTERED:
        return ((pipeline *)object)->session->pipeline;
    case MR_PY_CLOSED:
        mr_py_raise_text(MR_ERROR_CANCELLED, "the pipeline is closed");
        return NULL;
    case MR_PY_FORKED:
        break;
    }
    mr_py_raise_text(MR_ERROR_USAGE,
                     "the pipeline was opened before this process was forked: open it in the process that "
                     "uses it, or use multiprocessing's \"spawn\"");
    return NULL;
}

static mr_pipeline *enter(PyObject *object) {
    return admit(object, mr_py_session_enter(((pipeline *)object)->session));
}

static void leave(PyObject *object) {
    mr_py_session_leave(((pipeline *)object)->session);
}

/* The end of a call: None, or the exception. */
static PyObject *done(PyObject *object, int status) {
    leave(object);
    if (status)
        return mr_py_raise(status);
    Py_RETURN_NONE;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* A tuple of the pipeline or None, the status, and the diagnostics. */
static PyObject *answer_open(mr_py_session *session, int status, mr_diagnostics *wrong) {
    pipeline *made = NULL;
    PyObject *list = status && !wrong->errors ? mr_py_raise(status) : mr_py_diagnostics(wrong);
    mr_diagnostics_fini(wrong);
    if (!status && list) {
        made = PyObject_New(pipeline, pipeline_type);
        if (made)
            made->session = session;
    }
    if (!made) {
        Py_BEGIN_ALLOW_THREADS
        mr_py_session_unref(session);
        Py_END_ALLOW_THREADS
    }
    if (!list || (!status && !made)) {
        Py_XDECREF(list);
        return NULL;
    }
    if (made)
        return Py_BuildValue("(NiN)", (PyObject *)made, status, list);
    return Py_BuildValue("(OiN)", Py_None, status, list);
}

static PyObject *open_pipeline(PyObject *module, PyObject *dict) {
    mr_py_params read = {0};
    mr_diagnostics wrong = {0};
    (void)module;
    if (mr_py_sessions_forked())
        return mr_py_raise_text(MR_ERROR_USAGE,
                                "this process was forked while a pipeline was open: open pipelines after the fork, "
                                "in each worker, or use multiprocessing's \"spawn\"");
    mr_py_session *session = mr_py_session_create();
    if (!session)
        return PyErr_NoMemory();
    int status = mr_py_stage_types(&session->types);
    if (!status && !mr_py_params_read(&read, dict)) {
        read.params.types = session->types.item;
        Py_BEGIN_ALLOW_THREADS
        status = mr_pipeline_open(&session->pipeline, &read.params, &wrong);
        Py_END_ALLOW_THREADS
    }
    mr_py_params_fini(&read);
    if (PyErr_Occurred()) {
        mr_py_session_unref(session);
        return NULL;
    }
    return answer_open(session, status, &wrong);
}

static void pipeline_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    Py_BEGIN_ALLOW_THREADS
    mr_py_session_abandon(((pipeline *)object)->session);
    Py_END_ALLOW_THREADS
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static PyObject *start(PyObject *object, PyObject *none) {
    mr_py_session *session = ((pipeline *)object)->session;
    mr_py_progress before;
    mr_pipeline *entered = admit(object, mr_py_session_begin_start(session, &before));
    int status;
    (void)none;
    if (!entered)
        return NULL;
    if (before != MR_PY_OPEN) {
        leave(object);
        return mr_py_raise_text(MR_ERROR_USAGE, before == MR_PY_FAILED
                                                    ? "the pipeline could not be started: open it again"
                                                    : "the pipeline was already started");
    }
    Py_BEGIN_ALLOW_THREADS
    status = mr_pipeline_start(entered);
    mr_py_session_end_start(session, status);
    Py_END_ALLOW_THREADS
    return done(object, status);
}

/* True once the run has ended, false after the timeout. Raises the run's failure. */
static PyObject *wait_for_end(PyObject *object, PyObject *seconds) {
    const int64_t timeout = mr_py_timeout(seconds), due = mr_py_due(timeout);
    mr_pipeline *entered = timeout == -2 || mr_py_refuse_inside() ? NULL : enter(object);
    int status = MR_ERROR_AGAIN;
    if (!entered)
        return NULL;
    mr_py_session *session = ((pipeline *)object)->session;
    const mr_py_progress progress = mr_py_session_progress(session);
    if (progress == MR_PY_OPEN || progress == MR_PY_FAILED) {
        leave(object);
        return mr_py_raise_text(MR_ERROR_USAGE, "the pipeline was not started");
    }
    int64_t slice;
    do {
        slice = mr_py_slice(due);
        Py_BEGIN_ALLOW_THREADS
        status = mr_py_session_wait(session, slice);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals()) {
            leave(object);
            return NULL;
        }
    } while (status == MR_ERROR_AGAIN && slice);
    leave(object);
    if (status && status != MR_ERROR_AGAIN)
        return mr_py_raise(status);
    return PyBool_FromLong(status != MR_ERROR_AGAIN);
}

static PyObject *stop(PyObject *object, PyObject *at_once) {
    const int hurry = PyObject_IsTrue(at_once);
    mr_pipeline *entered = hurry < 0 ? NULL : enter(object);
    if (!entered)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    mr_pipeline_stop(entered, hurry);
    Py_END_ALLOW_THREADS
    return done(object, MR_OK);
}

static PyObject *close_pipeline(PyObject *object, PyObject *seconds) {
    const int64_t left = mr_py_timeout(seconds);
    return left == -2 || mr_py_refuse_inside() ? NULL : mr_py_close(((pipeline *)object)->session, left);
}

static PyObject *closer(PyObject *object, PyObject *owner) {
    return mr_py_closer(((pipeline *)object)->session, owner);
}

/* ---- while it runs ----------------------------------------------------------------------------------------------- */

static PyObject *subscribe(PyObject *object, PyObject *arguments) {
    const char *stage;
    PyObject *function;
    long room;
    int strict;
    if (!PyArg_ParseTuple(arguments, "yOlp", &stage, &function, &room, &strict))
        return NULL;
    if (room > MR_PY_MOST_ROOM) {
        PyErr_Format(PyExc_ValueError, "hold=%ld is too much: give at most %d frames", room, MR_PY_MOST_ROOM);
        return NULL;
    }
    mr_pipeline *entered = enter(object);
    if (!entered)
        return NULL;
    mr_py_session *session = ((pipeline *)object)->session;
    PyObject *made = mr_py_session_progress(session) == MR_PY_OPEN
                         ? mr_py_subscribe(session, stage, function, room, strict)
                         : mr_py_raise_text(MR_ERROR_USAGE, "subscribe before the pipeline is started");
    leave(object);
    return made;
}

static PyObject *push(PyObject *object, PyObject *arguments) {
    mr_pipeline *entered = enter(object);
    if (!entered)
        return NULL;
    const int failed = mr_py_push(entered, arguments);
    leave(object);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

typedef int named_call(mr_pipeline *pipeline, const char *name);

static PyObject *call_named(PyObject *object, PyObject *name, named_call *function) {
    const char *text = mr_py_chars(name);
    mr_pipeline *entered = text ? enter(object) : NULL;
    int status;
    if (!entered)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = function(entered, text);
    Py_END_ALLOW_THREADS
    return done(object, status);
}

static PyObject *end(PyObject *object, PyObject *name) {
    return call_named(object, name, mr_pipeline_end);
}

static PyObject *trigger(PyObject *object, PyObject *name) {
    return call_named(object, name, mr_pipeline_trigger);
}

static PyObject *enable_device(PyObject *object, PyObject *arguments) {
    const char *name;
    int enabled, status;
    if (!PyArg_ParseTuple(arguments, "yp", &name, &enabled))
        return NULL;
    mr_pipeline *entered = enter(object);
    if (!entered)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = mr_pipeline_enable_device(entered, name, enabled);
    Py_END_ALLOW_THREADS
    return done(object, status);
}

/* A tuple of the status and the diagnostics. */
static PyObject *change_source(PyObject *object, PyObject *arguments) {
    const char *id;
    PyObject *list;
    int add, status;
    size_t count;
    mr_diagnostics wrong = {0};
    if (!PyArg_ParseTuple(arguments, "yOp", &id, &list, &add) || mr_py_refuse_inside())
        return NULL;
    mr_override *options = mr_py_overrides(list, &count);
    mr_pipeline *entered = options ? enter(object) : NULL;
    if (!entered) {
        PyMem_Free(options);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = (add ? mr_pipeline_add_source : mr_pipeline_set_source)(entered, id, count, options, &wrong);
    Py_END_ALLOW_THREADS
    leave(object);
    PyMem_Free(options);
    PyObject *found = mr_py_diagnostics(&wrong);
    const bool told = wrong.errors;
    mr_diagnostics_fini(&wrong);
    if (status && !told) {
        Py_XDECREF(found);
        return mr_py_raise(status);
    }
    return found ? Py_BuildValue("(iN)", status, found) : NULL;
}

static PyObject *remove_source(PyObject *object, PyObject *arguments) {
    const char *id;
    PyObject *seconds;
    int status;
    if (!PyArg_ParseTuple(arguments, "yO", &id, &seconds))
        return NULL;
    const int64_t timeout = mr_py_timeout(seconds), due = mr_py_due(timeout);
    mr_pipeline *entered = timeout == -2 || mr_py_refuse_inside() ? NULL : enter(object);
    if (!entered)
        return NULL;
    bool interrupted, asked = false;
    int64_t slice;
    do {
        slice = mr_py_slice(due);
        Py_BEGIN_ALLOW_THREADS
        status = mr_pipeline_remove_source(entered, id, slice);
        Py_END_ALLOW_THREADS
        interrupted = PyErr_CheckSignals();
        if (asked && status == MR_ERROR_USAGE)
            status = MR_OK; /* it left between two slices */
        asked = true;
    } while (status == MR_ERROR_AGAIN && slice && !interrupted);
    if (!interrupted)
        return done(object, status);
    leave(object);
    return NULL;
}

static PyObject *reload_sources(PyObject *object, PyObject *none) {
    mr_pipeline *entered = mr_py_refuse_inside() ? NULL : enter(object);
    int status;
    (void)none;
    if (!entered)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = mr_pipeline_reload_sources(entered);
    Py_END_ALLOW_THREADS
    return done(object, status);
}

static PyObject *reopen(PyObject *object, PyObject *none) {
    mr_pipeline *entered = enter(object);
    (void)none;
    if (!entered)
        return NULL;
    mr_pipeline_reopen(entered);
    return done(object, MR_OK);
}

static PyObject *summary(PyObject *object, PyObject *none) {
    mr_pipeline *entered = enter(object);
    mr_summary *made = NULL;
    int status;
    (void)none;
    if (!entered)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = mr_pipeline_snapshot(entered, 0, &made);
    Py_END_ALLOW_THREADS
    PyObject *seen = status ? mr_py_raise(status) : mr_py_summary(made);
    mr_summary_destroy(&made);
    leave(object);
    return seen;
}

static PyObject *plan(PyObject *object, PyObject *none) {
    mr_pipeline *entered = enter(object);
    const mr_plan_view *view = NULL;
    (void)none;
    if (!entered)
        return NULL;
    const int status = mr_pipeline_view(entered, &view);
    PyObject *seen = status ? mr_py_raise(status) : mr_py_plan(view);
    mr_plan_view_close(&view);
    leave(object);
    return seen;
}

/* A tuple of the frame, detached, and the source. None: no frame passed in time. */
static PyObject *tap(PyObject *object, PyObject *arguments) {
    const char *stage, *source = NULL;
    PyObject *seconds;
    mr_frame *found = NULL;
    int status;
    if (!PyArg_ParseTuple(arguments, "yO", &stage, &seconds))
        return NULL;
    const int64_t timeout = mr_py_timeout(seconds), due = mr_py_due(timeout);
    mr_pipeline *entered = timeout == -2 ? NULL : enter(object);
    if (!entered)
        return NULL;
    int64_t slice;
    do {
        slice = mr_py_slice(due);
        Py_BEGIN_ALLOW_THREADS
        status = mr_pipeline_tap(entered, stage, slice, &found, &source);
        Py_END_ALLOW_THREADS
    } while (status == MR_ERROR_AGAIN && slice && !PyErr_CheckSignals());
    PyObject *seen = NULL;
    if (!status)
        seen = mr_py_frame(mr_py_hold_create(found), source);
    PyObject *detached = seen ? PyObject_CallMethod(seen, "detach", NULL) : NULL;
    Py_XDECREF(seen);
    leave(object);
    if (PyErr_Occurred() || detached)
        return detached;
    if (status != MR_ERROR_AGAIN)
        return mr_py_raise(status);
    Py_RETURN_NONE;
}

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"start", start, METH_NOARGS, NULL},
    {"wait", wait_for_end, METH_O, NULL},
    {"stop", stop, METH_O, NULL},
    {"close", close_pipeline, METH_O, NULL},
    {"closer", closer, METH_O, NULL},
    {"subscribe", subscribe, METH_VARARGS, NULL},
    {"push", push, METH_VARARGS, NULL},
    {"end", end, METH_O, NULL},
    {"trigger", trigger, METH_O, NULL},
    {"enable_device", enable_device, METH_VARARGS, NULL},
    {"change_source", change_source, METH_VARARGS, NULL},
    {"remove_source", remove_source, METH_VARARGS, NULL},
    {"reload_sources", reload_sources, METH_NOARGS, NULL},
    {"reopen", reopen, METH_NOARGS, NULL},
    {"summary", summary, METH_NOARGS, NULL},
    {"plan", plan, METH_NOARGS, NULL},
    {"tap", tap, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int mr_py_pipeline_add_type(PyObject *module) {
    static PyType_Slot slots[] = {
        {Py_tp_new, mr_py_refuse_new}, {Py_tp_dealloc, pipeline_dealloc}, {Py_tp_methods, methods}, {0, NULL}};
    static PyType_Spec spec = {"millrace._core.Pipeline", sizeof(pipeline), 0, Py_TPFLAGS_DEFAULT, slots};
    static PyMethodDef functions[] = {{"open", open_pipeline, METH_O, NULL}, {NULL, NULL, 0, NULL}};
    pipeline_type = (PyTypeObject *)mr_py_add_type(module, &spec);
    return pipeline_type ? PyModule_AddFunctions(module, functions) : -1;
}
