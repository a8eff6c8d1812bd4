#include "traceback.h"

#include <string.h>

/* millrace._traceback.report: prints, and returns a line of text. */
static PyObject *report, *last;

int mr_py_fail_with_exception(const char *whom) {
    PyObject *type, *value, *trace, *line = NULL, *text = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value && trace)
        PyException_SetTraceback(value, trace);
    if (report && value)
        line = PyObject_CallFunctionObjArgs(report, value, NULL);
    text = line ? PyUnicode_AsUTF8String(line) : NULL;
    mr_fail(MR_ERROR_DATA, "%s raised %s", whom, text ? PyBytes_AsString(text) : "an exception");
    PyErr_Clear();
    Py_XDECREF(last);
    last = value;
    Py_XDECREF(line);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return MR_ERROR_DATA;
}

PyObject *mr_py_last_exception(void) {
    PyObject *found = last ? last : Py_None;
    Py_INCREF(found);
    return found;
}

static PyObject *set_report(PyObject *self, PyObject *function) {
    (void)self;
    Py_XDECREF(report);
    Py_INCREF(function);
    report = function;
    Py_RETURN_NONE;
}

static PyObject *take_last(PyObject *self, PyObject *none) {
    PyObject *found = mr_py_last_exception();
    (void)self, (void)none;
    Py_CLEAR(last);
    return found;
}

int mr_py_traceback_begin(PyObject *module) {
    static PyMethodDef functions[] = {
        {"set_report", set_report, METH_O, "Sets the function that reports exceptions of stages."},
        {"take_exception", take_last, METH_NOARGS, "The last exception of a stage or a subscriber; None: none."},
        {NULL, NULL, 0, NULL},
    };
    return PyModule_AddFunctions(module, functions);
}
