#include "gil.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_key_t key;
static atomic_bool ended;

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
    pthread_setspecific(key, PyEval_SaveThread());
}

int mr_py_gil_begin(void) {
    return pthread_key_create(&key, leave);
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
