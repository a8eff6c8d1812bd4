/* The extension module millrace._core: the library's functions for Python, in the limited C API of Python 3.9.
 *
 * One binary serves all versions from 3.9 (abi3). The limited API of 3.9 has no buffer protocol; arrays pass through
 * __array_interface__ and __dlpack__ instead, so NumPy is not needed to build or to import the module.
 *
 * Threads: a function needs the GIL unless its comment says otherwise. The engine's threads take the GIL only to call
 * functions of the program, and to release its memory. No thread waits for the engine while it holds the GIL.
 *
 * Errors: functions that return a Python object return NULL with an exception set; those that return int return -1. */
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include "millrace/millrace.h"

/* Set once when the module is imported; there is only one interpreter. */
typedef struct mr_py_globals {
    PyObject *failure; /* makes an exception from a status, its name, exit code and message */
    PyObject *kinds;   /* a dict: the classes for elements, by kind ("objects") or kind and field ("objects.zones") */
    PyObject *result;  /* the class for results */
    PyObject *held;    /* the exception for a program that holds too many frames */
} mr_py_globals;
extern mr_py_globals mr_py;

/* Raises the exception for a status, with this thread's mr_message. Returns NULL. */
PyObject *mr_py_raise(int status);
/* The same with another message. */
PyObject *mr_py_raise_text(int status, const char *message);
/* A text from outside, whose bytes need not be UTF-8. NULL and "" give None if `optional`. */
PyObject *mr_py_text(const char *text, bool optional);
/* The text of a bytes object. NULL, with an exception: it is none, or has a zero. */
const char *mr_py_chars(PyObject *bytes);
/* Seconds. MR_NO_TIME gives None. */
PyObject *mr_py_seconds(int64_t ns);
/* Stores a new reference in a dict and drops it. A NULL value fails. */
int mr_py_put(PyObject *dict, const char *key, PyObject *value);
/* Adds a new reference to a list and drops it. A NULL value fails. */
int mr_py_append(PyObject *list, PyObject *value);
/* Diagnostics as a list of tuples: severity, file, line, column, message, hint, exit code. */
PyObject *mr_py_diagnostics(const mr_diagnostics *diagnostics);
/* Nanoseconds from seconds; None is -1, without limit. -2 with an exception: not a number. */
int64_t mr_py_timeout(PyObject *seconds);
/* When that time is over, for mr_py_slice. */
int64_t mr_py_due(int64_t timeout_ns);
/* How long a call may wait before it takes the GIL again, which may last, and looks for Ctrl-C; 0: the time is over. */
int64_t mr_py_slice(int64_t due_ns);
/* For types that only the module makes: tp_new, which refuses. */
PyObject *mr_py_refuse_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords);
/* Creates a type and adds it to the module. */
PyObject *mr_py_add_type(PyObject *module, PyType_Spec *spec);
