#include "traceback.h"

#include <string.h>

/* Exceptions are kept of this many functions; one that runs in two pipelines counts twice. */
enum { MOST_KEPT = 16, WORDS = 200 };

/* An exception keeps what its frames refer to, so a function has one at a time. */
typedef struct kept {
    const void *run;
    PyObject *exception; /* NULL: a free entry */
    char words[WORDS];   /* the message begins with them */
} kept;

static PyObject *report; /* millrace._traceback.report: prints, and returns a line of text */
static kept table[MOST_KEPT];
static size_t oldest;

/* The run's own entry, or else the oldest. */
static kept *entry_for(const void *run) {
    for (size_t i = 0; i < MOST_KEPT; i++)
        if (table[i].exception && table[i].run == run)
            return &table[i];
    return &table[oldest++ % MOST_KEPT];
}

/* Takes the reference. */
static void keep(const void *run, PyObject *exception, const char *words) {
    kept *entry = entry_for(run);
    PyObject *before = entry->exception;
    entry->run = run;
    entry->exception = exception;
    PyOS_snprintf(entry->words, sizeof entry->words, "%s", words);
    Py_XDECREF(before); /* may run code of the program, which may come here */
}

int mr_py_fail_with_exception(const char *whom, const void *run) {
    PyObject *type, *value, *trace, *line = NULL, *text = NULL;
    char words[WORDS];
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value && trace)
        PyException_SetTraceback(value, trace);
    if (report && value)
        line = PyObject_CallFunctionObjArgs(report, value, NULL);
    text = line ? PyUnicode_AsUTF8String(line) : NULL;
    PyErr_Clear();
    const char *what = text ? PyBytes_AsString(text) : "an exception";
    PyOS_snprintf(words, sizeof words, "%s raised %s", whom, what);
    keep(run, value, words);
    mr_fail(MR_ERROR_DATA, "%s raised %s", whom, what);
    Py_XDECREF(line);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return MR_ERROR_DATA;
}

static PyObject *set_report(PyObject *self, PyObject *function) {
    (void)self;
    Py_XDECREF(report);
    Py_INCREF(function);
    report = function;
    Py_RETURN_NONE;
}

static PyObject *take_exception(PyObject *self, PyObject *message) {
    const char *text = mr_py_chars(message);
    (void)self;
    if (!text)
        return NULL;
    for (size_t i = 0; i < MOST_KEPT; i++) {
        PyObject *found = table[i].exception;
        if (!found || !strstr(text, table[i].words))
            continue;
        table[i].exception = NULL;
        return found;
    }
    Py_RETURN_NONE;
}

int mr_py_traceback_begin(PyObject *module) {
    static PyMethodDef functions[] = {
        {"set_report", set_report, METH_O, "Sets the function that reports exceptions of stages."},
        {"take_exception", take_exception, METH_O,
         "The exception of a stage or a subscriber that a message tells of; None: none."},
        {NULL, NULL, 0, NULL},
    };
    return PyModule_AddFunctions(module, functions);
}
