#include "gil.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_key_t key;
static atomic_bool ended;
static PyObject *thread_begin; /* millrace._traceback.trace_thread */

/* Runs when a thread ends. Python's own thread-local pointer to the state may be gone already. */
static void leave(void *state) {
    if (atomic_load(&ended))
        return;
    PyEval_RestoreThread(state);
    PyThreadState_Clear(state);
    PyEval_SaveThread();
    PyThreadState_Delete(state);
}

static void keep(void) {
    PyGILState_Ensure();
    PyObject *done = thread_begin ? PyObject_CallObject(thread_begin, NULL) : NULL;
    if (!done && PyErr_Occurred())
        PyErr_WriteUnraisable(thread_begin);
    Py_XDECREF(done);
    pthread_setspecific(key, PyEval_SaveThread());
}

static PyObject *set_thread_begin(PyObject *module, PyObject *function) {
    (void)module;
    Py_XDECREF(thread_begin);
    Py_INCREF(function);
    thread_begin = function;
    Py_RETURN_NONE;
}

int mr_py_gil_begin(PyObject *module) {
    static PyMethodDef functions[] = {
        {"set_thread_begin", set_thread_begin, METH_O, "Sets a function that a thread of the engine calls first."},
        {NULL, NULL, 0, NULL},
    };
    if (pthread_key_create(&key, leave)) {
        PyErr_NoMemory();
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}

PyGILState_STATE mr_py_gil_take(void) {
    if (!PyGILState_GetThisThreadState())
        keep();
    return PyGILState_Ensure();
}

void mr_py_gil_give(PyGILState_STATE state) {
    PyGILState_Release(state);
}

void mr_py_gil_end(void) {
    atomic_store(&ended, true);
}
