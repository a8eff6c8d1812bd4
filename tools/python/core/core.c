#include "core.h"

#include <dlfcn.h>
#include <string.h>
#include <time.h>

#include "array.h"
#include "ending.h"
#include "frame.h"
#include "gil.h"
#include "millrace/command.h"
#include "millrace/devices.h"
#include "millrace/log.h"
#include "millrace/plugin.h"
#include "params.h"
#include "pipeline.h"
#include "plan.h"
#include "session.h"
#include "stage.h"
#include "stream.h"
#include "traceback.h"

mr_py_globals mr_py;

/* ---- helpers for the other files --------------------------------------------------------------------------------- */

PyObject *mr_py_raise_text(int status, const char *message) {
    PyObject *exception = NULL;
    PyObject *text = mr_py_text(message, false);
    if (mr_py.failure && text)
        exception = PyObject_CallFunction(mr_py.failure, "isiO", status, mr_status_words(status),
                                          mr_status_exit_code(status), text);
    if (exception)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    Py_XDECREF(text);
    return NULL;
}

PyObject *mr_py_raise(int status) {
    return mr_py_raise_text(status, mr_message());
}

PyObject *mr_py_text(const char *text, bool optional) {
    if (optional && (!text || !*text))
        Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(text ? text : "", (Py_ssize_t)(text ? strlen(text) : 0), "replace");
}

const char *mr_py_chars(PyObject *bytes) {
    char *text;
    return PyBytes_AsStringAndSize(bytes, &text, NULL) ? NULL : text;
}

PyObject *mr_py_seconds(int64_t ns) {
    if (ns == MR_NO_TIME)
        Py_RETURN_NONE;
    return PyFloat_FromDouble((double)ns / 1e9);
}

int mr_py_put(PyObject *dict, const char *key, PyObject *value) {
    const int status = value ? PyDict_SetItemString(dict, key, value) : -1;
    Py_XDECREF(value);
    return status;
}

int mr_py_append(PyObject *list, PyObject *value) {
    const int status = value ? PyList_Append(list, value) : -1;
    Py_XDECREF(value);
    return status;
}

int64_t mr_py_timeout(PyObject *seconds) {
    if (seconds == Py_None)
        return -1;
    const double value = PyFloat_AsDouble(seconds);
    if (PyErr_Occurred())
        return -2;
    if (!(value >= 0)) {
        PyErr_SetString(PyExc_ValueError, "a timeout must be at least 0 seconds, or None");
        return -2;
    }
    return value > 1e9 ? -1 : (int64_t)(value * 1e9);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int64_t mr_py_due(int64_t timeout_ns) {
    return timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
}

int64_t mr_py_slice(int64_t due_ns) {
    const int64_t most_ns = 50000000, left_ns = due_ns - now_ns();
    return left_ns > most_ns ? most_ns : left_ns > 0 ? left_ns : 0;
}

PyObject *mr_py_diagnostics(const mr_diagnostics *diagnostics) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < diagnostics->count; i++) {
        const mr_diagnostic *each = &diagnostics->item[i];
        if (mr_py_append(list, Py_BuildValue("(sNiiNNi)", each->severity == MR_SEVERITY_ERROR ? "error" : "warning",
                                             mr_py_text(each->place.file, true), each->place.line, each->place.column,
                                             mr_py_text(each->message, false), mr_py_text(each->hint, true),
                                             mr_status_exit_code(each->status))))
            Py_CLEAR(list);
    }
    return list;
}

PyObject *mr_py_refuse_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    (void)type, (void)arguments, (void)keywords;
    PyErr_SetString(PyExc_TypeError, "objects of this type come from pipelines");
    return NULL;
}

PyObject *mr_py_add_type(PyObject *module, PyType_Spec *spec) {
    PyObject *type = PyType_FromSpec(spec);
    if (!type)
        return NULL;
    Py_INCREF(type);
    if (PyModule_AddObject(module, strrchr(spec->name, '.') + 1, type)) {
        Py_DECREF(type);
        Py_CLEAR(type);
    }
    return type;
}

/* ---- functions of the module ------------------------------------------------------------------------------------- */

static PyObject *connect(PyObject *module, PyObject *arguments) {
    PyObject *failure, *kinds, *result, *held;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOO", &failure, &kinds, &result, &held))
        return NULL;
    Py_INCREF(failure);
    Py_INCREF(kinds);
    Py_INCREF(result);
    Py_INCREF(held);
    mr_py = (mr_py_globals){failure, kinds, result, held};
    Py_RETURN_NONE;
}

/* A tuple of the plan or None, the status, and the diagnostics. */
static PyObject *make_plan(PyObject *module, PyObject *dict) {
    mr_py_params read = {0};
    mr_diagnostics wrong = {0};
    mr_type_list types = {0};
    const mr_plan_view *view = NULL;
    (void)module;
    int status = mr_py_stage_types(&types);
    if (!status && !mr_py_params_read(&read, dict)) {
        read.params.types = types.item;
        Py_BEGIN_ALLOW_THREADS
        status = mr_plan_view_open(&view, &read.params, &wrong);
        Py_END_ALLOW_THREADS
    }
    PyObject *list = NULL, *plan = NULL;
    if (status && !wrong.errors)
        mr_py_raise(status);
    else if (!PyErr_Occurred())
        list = mr_py_diagnostics(&wrong);
    if (list && view)
        plan = mr_py_plan(view);
    mr_plan_view_close(&view);
    mr_diagnostics_fini(&wrong);
    mr_py_params_fini(&read);
    mr_type_list_fini(&types);
    if (!list || PyErr_Occurred()) {
        Py_XDECREF(list);
        return NULL;
    }
    if (!plan) {
        Py_INCREF(Py_None);
        plan = Py_None;
    }
    return Py_BuildValue("(NiN)", plan, status, list);
}

static PyObject *set_log_level(PyObject *module, PyObject *name) {
    mr_log_level level;
    const char *text = mr_py_chars(name);
    (void)module;
    if (!text)
        return NULL;
    const int status = mr_log_parse_level(text, &level);
    if (status)
        return mr_py_raise(status);
    mr_log_set_level(level);
    Py_RETURN_NONE;
}

/* Plugins look for the library's functions among those of the whole process, and Python loads modules apart. */
static PyObject *load_plugin(PyObject *module, PyObject *path) {
    const char *text = mr_py_chars(path);
    const mr_plugin *plugin;
    Dl_info library;
    (void)module;
    if (!text)
        return NULL;
    if (dladdr((const void *)(uintptr_t)mr_version, &library))
        dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    const int status = mr_plugin_load(text, &plugin);
    if (status)
        return mr_py_raise(status);
    Py_RETURN_NONE;
}

typedef struct named {
    const char *name;
    int number;
} named;

static PyObject *dict_of(const named *table, size_t count) {
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < count; i++)
        if (mr_py_put(dict, table[i].name, PyLong_FromLong(table[i].number)))
            Py_CLEAR(dict);
    return dict;
}

/* Numbers by their names, in a dict for each kind. */
static PyObject *names(PyObject *module, PyObject *none) {
    static const named layouts[] = {{"nchw", MR_LAYOUT_NCHW}, {"nhwc", MR_LAYOUT_NHWC}, {"flat", MR_LAYOUT_FLAT}};
    static const named options[] = {
        {"bool", MR_OPTION_BOOL}, {"int", MR_OPTION_INT}, {"float", MR_OPTION_DOUBLE}, {"str", MR_OPTION_STRING}};
#define X(name, value, code, words) {#name, name},
    static const named statuses[] = {MR_STATUS_LIST(X)};
#undef X
    static const named limits[] = {{"rank", MR_MAX_RANK}};
    named pixels[MR_PIXEL_COUNT], dtypes[MR_DTYPE_I64 + 1], payloads[MR_PAYLOAD_RESULTS + 1];
    size_t pixel_count = 0, dtype_count = 0, payload_count = 0;
    (void)module, (void)none;
    for (mr_pixel each = MR_PIXEL_GRAY8; each < MR_PIXEL_COUNT; each++)
        pixels[pixel_count++] = (named){mr_pixel_describe(each)->name, (int)each};
    for (mr_dtype each = MR_DTYPE_U8; each <= MR_DTYPE_I64; each++)
        dtypes[dtype_count++] = (named){mr_dtype_name(each), (int)each};
    for (mr_payload each = MR_PAYLOAD_PACKET; each <= MR_PAYLOAD_RESULTS; each++)
        payloads[payload_count++] = (named){mr_payload_name(each), (int)each};
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N,s:N}", "limits", dict_of(limits, 1), "pixels",
                         dict_of(pixels, pixel_count), "dtypes", dict_of(dtypes, dtype_count), "payloads",
                         dict_of(payloads, payload_count), "layouts",
                         dict_of(layouts, sizeof layouts / sizeof *layouts), "options",
                         dict_of(options, sizeof options / sizeof *options), "statuses",
                         dict_of(statuses, sizeof statuses / sizeof *statuses));
}

/* For the end of the interpreter: its threads could not take the GIL any more. */
static PyObject *close_all(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    mr_py_close_all();
    mr_py_gil_end();
    Py_RETURN_NONE;
}

/* Runs the command with the program's stage types. It does not return to the program's work: it takes over signals. */
static PyObject *run_command(PyObject *module, PyObject *list) {
    const Py_ssize_t count = PyList_Size(list);
    char **argv = count < 0 ? NULL : PyMem_Calloc((size_t)count + 1, sizeof *argv);
    int code;
    (void)module;
    for (Py_ssize_t i = 0; argv && i < count; i++)
        argv[i] = PyBytes_AsString(PyList_GetItem(list, i));
    if (!argv || PyErr_Occurred()) {
        PyMem_Free(argv);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    code = mr_main((int)count, argv, mr_py_own_types());
    Py_END_ALLOW_THREADS
    PyMem_Free(argv);
    return PyLong_FromLong(code);
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"connect", connect, METH_VARARGS, NULL},
    {"plan", make_plan, METH_O, NULL},
    {"set_log_level", set_log_level, METH_O, NULL},
    {"load_plugin", load_plugin, METH_O, NULL},
    {"names", names, METH_NOARGS, NULL},
    {"close_all", close_all, METH_NOARGS, NULL},
    {"main", run_command, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module) {
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "millrace works in the main interpreter alone, not in a sub-interpreter");
        return -1;
    }
    if (strcmp(mr_version(), MILLRACE_VERSION) != 0) {
        PyErr_Format(PyExc_ImportError,
                     "the module is of millrace %s, and the library that it found is of %s: install one "
                     "version of both",
                     MILLRACE_VERSION, mr_version());
        return -1;
    }
    if (mr_py_sessions_begin()) {
        PyErr_NoMemory();
        return -1;
    }
    return mr_py_gil_begin(module) || mr_py_array_add_type(module) || mr_py_frame_add_type(module) ||
                   mr_py_stream_add_type(module) || mr_py_pipeline_add_type(module) || mr_py_closer_add_type(module) ||
                   mr_py_stage_add_functions(module) || mr_py_traceback_begin(module) ||
                   PyModule_AddStringConstant(module, "version", MILLRACE_VERSION)
               ? -1
               : 0;
}

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};
    static PyModuleDef definition = {
        PyModuleDef_HEAD_INIT, .m_name = "millrace._core", .m_doc = "The library libmillrace.",
        .m_size = 0,           .m_methods = functions,     .m_slots = slots};
    return PyModuleDef_Init(&definition);
}
