#include "params.h"

#include <string.h>

/* NULL: missing, or None. */
static const char *text_of(PyObject *dict, const char *key) {
    PyObject *value = PyDict_GetItemString(dict, key);
    return value && value != Py_None ? mr_py_chars(value) : NULL;
}

static long long number_of(PyObject *dict, const char *key) {
    PyObject *value = PyDict_GetItemString(dict, key);
    return value && value != Py_None ? PyLong_AsLongLong(value) : 0;
}

static bool truth_of(PyObject *dict, const char *key) {
    PyObject *value = PyDict_GetItemString(dict, key);
    return value && PyObject_IsTrue(value) == 1;
}

mr_override *mr_py_overrides(PyObject *list, size_t *count) {
    const Py_ssize_t length = PyList_Size(list);
    mr_override *made = length < 0 ? NULL : PyMem_Calloc((size_t)length + 1, sizeof *made);
    for (Py_ssize_t i = 0; made && i < length; i++) {
        PyObject *pair = PyList_GetItem(list, i);
        if (!PyArg_ParseTuple(pair, "yy", &made[i].key, &made[i].value)) {
            PyMem_Free(made);
            return NULL;
        }
    }
    if (!made && !PyErr_Occurred())
        PyErr_NoMemory();
    *count = made ? (size_t)length : 0;
    return made;
}

static const char **texts_of(PyObject *dict, const char *key, size_t *count) {
    PyObject *list = PyDict_GetItemString(dict, key);
    const Py_ssize_t length = list && list != Py_None ? PyList_Size(list) : 0;
    const char **made = length < 0 ? NULL : PyMem_Calloc((size_t)length + 1, sizeof *made);
    for (Py_ssize_t i = 0; made && i < length; i++)
        made[i] = mr_py_chars(PyList_GetItem(list, i));
    if (!made && !PyErr_Occurred())
        PyErr_NoMemory();
    *count = made ? (size_t)length : 0;
    return made;
}

int mr_py_params_read(mr_py_params *to, PyObject *dict) {
    mr_pipeline_params *params = &to->params;
    PyObject *overrides = PyDict_GetItemString(dict, "overrides");
    params->path = text_of(dict, "path");
    params->text = text_of(dict, "text");
    params->output = text_of(dict, "output");
    params->trace = text_of(dict, "trace");
    params->resume = text_of(dict, "resume");
    params->profile = text_of(dict, "profile");
    params->workers = (int)number_of(dict, "workers");
    params->jobs = (int)number_of(dict, "jobs");
    params->grace_ns = number_of(dict, "grace_ns");
    params->plugins = truth_of(dict, "plugins");
    params->offline = truth_of(dict, "offline");
    params->connect = truth_of(dict, "connect");
    params->force = truth_of(dict, "force");
    params->quiet_sources = true;
    to->inputs = texts_of(dict, "inputs", &params->input_count);
    params->inputs = to->inputs;
    to->assume = texts_of(dict, "assume", &params->assume_count);
    params->assume = to->assume;
    if (overrides && !PyErr_Occurred())
        to->overrides = mr_py_overrides(overrides, &params->override_count);
    params->overrides = to->overrides;
    return PyErr_Occurred() ? -1 : 0;
}

void mr_py_params_fini(mr_py_params *params) {
    PyMem_Free(params->overrides);
    PyMem_Free(params->inputs);
    PyMem_Free(params->assume);
    memset(params, 0, sizeof *params);
}
