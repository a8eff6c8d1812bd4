#include "stage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "frame.h"
#include "gil.h"
#include "inside.h"
#include "millrace/objects.h"
#include "subscription.h"
#include "traceback.h"

/* Frames that wait are given together, without `batch:`, while all workers are busy. */
enum { GATHERS = 16 };

static const mr_stage_type *own_types[MR_PY_MOST_STAGES + 1];
static size_t stage_count;

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int promise_labels(const mr_py_stage *stage, mr_negotiation *n,
                          int (*promise)(mr_negotiation *, size_t, const mr_planned_classes *)) {
    const mr_planned_classes classes = {
        .count = stage->label_count, .labels = (const char *const *)stage->labels, .most_score = (double)INFINITY};
    return stage->label_count ? promise(n, 0, &classes) : MR_OK;
}

static int promise_results(const mr_py_stage *stage, mr_negotiation *n) {
    int status = MR_OK;
    for (size_t i = 0; !status && i < stage->tensor_count; i++) {
        const mr_format_set set = mr_format_set_of(&stage->tensors[i]);
        status = mr_promise_result(n, 0, mr_kind_tensor(), stage->tensor_names[i], &set);
    }
    if (!status && stage->classes)
        status = stage->label_count ? promise_labels(stage, n, mr_promise_classes)
                                    : mr_promise_result(n, 0, mr_kind_classes(), NULL, NULL);
    if (!status && stage->objects) {
        status = mr_promise_result(n, 0, mr_kind_objects(), NULL, NULL);
        status = status ? status : promise_labels(stage, n, mr_promise_labels);
    }
    return status;
}

static int negotiate(mr_negotiation *n) {
    const mr_py_stage *stage = (const mr_py_stage *)n->type;
    if (!stage->type.outputs)
        return MR_OK;
    if (stage->makes) {
        n->outputs[0].set = mr_format_set_of(&stage->output);
    } else {
        n->outputs[0].follows = 0;
        if (!stage->same)
            n->outputs[0].shares = 0;
    }
    return promise_results(stage, n);
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

/* The outputs of a call, one for each input. */
typedef struct batch {
    size_t count;
    mr_frame **outputs;
    bool *passes;
} batch;

static int make_output(const mr_py_stage *stage, mr_io *io, const mr_frame *input, mr_frame **output) {
    if (!stage->type.outputs)
        return MR_OK;
    if (stage->same)
        return mr_io_acquire(io, 0, &input->format, input, output);
    return stage->makes ? mr_io_acquire(io, 0, &stage->output, input, output) : mr_io_share(io, input, output);
}

static PyObject *frames_of(const mr_stage *self, mr_io *io, size_t count) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < count; i++) {
        const mr_frame *input = mr_io_input_at(io, 0, i);
        mr_py_hold *hold = mr_py_hold_keep(input);
        PyObject *frame = hold ? mr_py_frame(hold, mr_stage_source_id(self, input->identity.source)) : NULL;
        if (mr_py_append(list, frame))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *option_of(const mr_option *option, const void *options) {
    const void *at = (const char *)options + option->offset;
    switch (option->kind) {
    case MR_OPTION_BOOL:
        return PyBool_FromLong(*(const bool *)at);
    case MR_OPTION_INT:
        return PyLong_FromLongLong(*(const int64_t *)at);
    case MR_OPTION_DOUBLE:
        return PyFloat_FromDouble(*(const double *)at);
    default:
        return mr_py_text(*(const char *const *)at, true);
    }
}

static PyObject *options_of(const mr_py_stage *stage, const void *options) {
    PyObject *keywords = PyDict_New();
    for (const mr_option *option = stage->type.options; keywords && option && option->name; option++)
        if (mr_py_put(keywords, option->name, option_of(option, options)))
            Py_CLEAR(keywords);
    return keywords;
}

static int read_answers(const mr_py_stage *stage, mr_io *io, const batch *made, PyObject *answers) {
    if (answers == Py_None && !stage->same && !stage->makes) {
        for (size_t i = 0; i < made->count; i++)
            made->passes[i] = true;
        return 0;
    }
    const Py_ssize_t length = answers == Py_None ? -1 : PySequence_Size(answers);
    if (length < 0 || (size_t)length != made->count) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "it must return a list with one item for each of the %zu frames", made->count);
        return -1;
    }
    int status = 0;
    for (Py_ssize_t i = 0; !status && i < length; i++) {
        PyObject *answer = PySequence_GetItem(answers, i);
        status = answer ? mr_py_answer(stage, io, made->outputs[i], answer, &made->passes[i]) : -1;
        Py_XDECREF(answer);
    }
    return status;
}

/* The frames are the program's while it is called, and no longer. */
static int end_frames(PyObject *frames, mr_py_kept *kept) {
    int status = 0;
    while (!status && PyList_Size(frames)) {
        PyObject *frame = PyList_GetItem(frames, 0);
        Py_INCREF(frame);
        status = PyList_SetSlice(frames, 0, 1, NULL);
        status = status ? status : mr_py_frame_end_call(frame, kept);
        Py_DECREF(frame);
    }
    return status;
}

static int call(mr_py_stage *stage, const mr_stage *self, mr_io *io, const batch *made) {
    char whom[128];
    mr_py_kept *kept = *(mr_py_kept **)self->state;
    mr_py_call inside;
    PyGILState_STATE state = mr_py_gil_take();
    PyObject *frames = frames_of(self, io, made->count), *keywords = options_of(stage, self->options);
    PyObject *arguments = frames ? Py_BuildValue("(O)", frames) : NULL, *answers = NULL;
    int status = MR_OK;
    mr_py_call_begin(&inside, self->id);
    PyOS_snprintf(whom, sizeof whom, "the function of the stage %s", self->id);
    if (kept->frames > MR_PY_MOST_KEPT)
        PyErr_Format(mr_py.held, "it keeps arrays of %ld earlier frames: copy what it keeps", kept->frames);
    else if (arguments && keywords)
        answers = PyObject_Call(stage->function, arguments, keywords);
    if (!answers || read_answers(stage, io, made, answers))
        status = mr_py_fail_with_exception(whom, kept);
    Py_XDECREF(answers);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    if (frames && end_frames(frames, kept))
        status = mr_py_fail_with_exception(whom, kept);
    Py_XDECREF(frames);
    mr_py_call_end(&inside);
    mr_py_gil_give(state);
    return status;
}

static void release_from(batch *made, size_t first) {
    for (size_t i = first; i < made->count; i++)
        mr_frame_unref(&made->outputs[i]);
}

static int emit_all(const mr_py_stage *stage, mr_io *io, batch *made) {
    for (size_t i = 0; i < made->count; i++) {
        int status = MR_OK;
        mr_frame *output = made->outputs[i];
        made->outputs[i] = NULL;
        if (made->passes[i] && output) {
            status = mr_io_emit(io, 0, output);
        } else if (!made->passes[i]) {
            mr_frame_unref(&output);
            mr_io_absorb(io, mr_io_input_at(io, 0, i), stage->type.outputs ? "left out" : "ignored");
        }
        if (status) {
            release_from(made, i + 1);
            return status;
        }
    }
    return MR_DONE;
}

static int open_stage(mr_stage *self) {
    mr_py_kept *kept = mr_py_kept_create();
    *(mr_py_kept **)self->state = kept;
    return kept ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a stage");
}

static void close_stage(mr_stage *self) {
    mr_py_kept_unref(*(mr_py_kept **)self->state);
}

static int process(mr_stage *self, mr_io *io) {
    mr_py_stage *stage = (mr_py_stage *)(uintptr_t)self->type;
    batch made = {.count = mr_io_count(io)};
    made.outputs = calloc(made.count, sizeof(mr_frame *));
    made.passes = calloc(made.count, sizeof(bool));
    int status = made.outputs && made.passes ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a batch");
    for (size_t i = 0; !status && i < made.count; i++)
        status = make_output(stage, io, mr_io_input_at(io, 0, i), &made.outputs[i]);
    if (!status)
        status = call(stage, self, io, &made);
    if (!status)
        status = emit_all(stage, io, &made);
    else if (made.outputs)
        release_from(&made, 0);
    free(made.outputs);
    free(made.passes);
    return status;
}

/* ---- making types ------------------------------------------------------------------------------------------------ */

/* A copy that lives as long as the process. */
static char *keep_text(PyObject *value) {
    const char *text = value && value != Py_None ? mr_py_chars(value) : NULL;
    return text ? strdup(text) : NULL;
}

static long number_at(PyObject *dict, const char *key) {
    PyObject *value = PyDict_GetItemString(dict, key);
    return value ? PyLong_AsLong(value) : 0;
}

/* A format from a dict with payload, pixel, width, height, dtype, layout and dims. */
static mr_format format_from(PyObject *dict) {
    PyObject *dims = PyDict_GetItemString(dict, "dims");
    mr_format format = {.payload = (mr_payload)number_at(dict, "payload"),
                        .pixel = (mr_pixel)number_at(dict, "pixel"),
                        .width = (int32_t)number_at(dict, "width"),
                        .height = (int32_t)number_at(dict, "height"),
                        .dtype = (mr_dtype)number_at(dict, "dtype"),
                        .layout = (mr_layout)number_at(dict, "layout")};
    for (Py_ssize_t i = 0; dims && i < PyList_Size(dims) && i < MR_MAX_RANK; i++, format.rank++)
        format.dims[i] = PyLong_AsLongLong(PyList_GetItem(dims, i));
    return format;
}

static int read_accepts(mr_py_stage *stage, PyObject *list) {
    const Py_ssize_t count = PyList_Size(list);
    if (count <= 0)
        return (int)count;
    stage->accepts = calloc((size_t)count + 1, sizeof *stage->accepts);
    for (Py_ssize_t i = 0; stage->accepts && i < count; i++) {
        const mr_format format = format_from(PyList_GetItem(list, i));
        stage->accepts[i] = mr_format_set_of(&format);
    }
    return stage->accepts ? 0 : -1;
}

static int read_labels(mr_py_stage *stage, PyObject *list) {
    const Py_ssize_t count = PyList_Size(list);
    if (count <= 0)
        return (int)count;
    stage->labels = calloc((size_t)count, sizeof *stage->labels);
    for (Py_ssize_t i = 0; stage->labels && i < count; i++)
        stage->labels[stage->label_count++] = keep_text(PyList_GetItem(list, i));
    return stage->labels ? 0 : -1;
}

static int read_tensors(mr_py_stage *stage, PyObject *list) {
    const Py_ssize_t count = PyList_Size(list);
    if (count <= 0)
        return (int)count;
    stage->tensors = calloc((size_t)count, sizeof *stage->tensors);
    stage->tensor_names = calloc((size_t)count, sizeof *stage->tensor_names);
    for (Py_ssize_t i = 0; stage->tensors && stage->tensor_names && i < count; i++) {
        PyObject *pair = PyList_GetItem(list, i);
        stage->tensor_names[i] = keep_text(PyTuple_GetItem(pair, 0));
        stage->tensors[i] = format_from(PyTuple_GetItem(pair, 1));
        stage->tensor_count++;
    }
    return stage->tensors && stage->tensor_names ? 0 : -1;
}

/* Options from a list of (name, kind, default, help); each has eight bytes of the struct. */
static int read_options(mr_py_stage *stage, PyObject *list) {
    const Py_ssize_t count = PyList_Size(list);
    if (count <= 0)
        return (int)count;
    mr_option *table = calloc((size_t)count + 1, sizeof *table);
    for (Py_ssize_t i = 0; table && i < count; i++) {
        PyObject *row = PyList_GetItem(list, i);
        table[i] = (mr_option){.name = keep_text(PyTuple_GetItem(row, 0)),
                               .kind = (mr_option_kind)PyLong_AsLong(PyTuple_GetItem(row, 1)),
                               .offset = (size_t)i * sizeof(int64_t),
                               .fallback = keep_text(PyTuple_GetItem(row, 2)),
                               .required = PyTuple_GetItem(row, 2) == Py_None,
                               .help = keep_text(PyTuple_GetItem(row, 3))};
    }
    stage->type.options = table;
    stage->type.options_bytes = (size_t)count * sizeof(int64_t);
    return table ? 0 : -1;
}

static void describe(mr_py_stage *stage, PyObject *dict) {
    stage->type.name = keep_text(PyDict_GetItemString(dict, "name"));
    stage->type.summary = keep_text(PyDict_GetItemString(dict, "summary"));
    stage->type.help = keep_text(PyDict_GetItemString(dict, "help"));
    stage->inputs[0] = (mr_port){.name = "in", .accepts = stage->accepts};
    stage->outputs[0] = (mr_port){.name = "out"};
    stage->type.inputs = stage->inputs;
    stage->type.outputs = number_at(dict, "sink") ? NULL : stage->outputs;
    stage->type.entry = MR_ENTRY_SHARED;
    stage->type.blocking = stage->type.batches = true;
    stage->type.gathers = GATHERS;
    stage->type.negotiate = negotiate;
    stage->type.state_bytes = sizeof(mr_py_kept *);
    stage->type.open = open_stage;
    stage->type.close = close_stage;
    stage->type.process = process;
    stage->same = number_at(dict, "same");
    stage->classes = number_at(dict, "classes");
    stage->objects = number_at(dict, "objects");
    PyObject *output = PyDict_GetItemString(dict, "output");
    stage->makes = output && output != Py_None;
    if (stage->makes)
        stage->output = format_from(output);
}

/* Whether a type may join those of the library and of the program. */
static int check_new(const mr_stage_type *type) {
    const mr_stage_type *const added[] = {type, NULL};
    mr_type_list list = {0};
    int status = mr_py_stage_types(&list);
    if (!status)
        status = mr_type_list_add(&list, added, true);
    mr_type_list_fini(&list);
    return status;
}

/* The place of the type that a new one replaces, or that after all types. */
static size_t place_of(const mr_py_stage *stage, bool replaces) {
    size_t at = replaces ? 0 : stage_count;
    while (at < stage_count && strcmp(own_types[at]->name, stage->type.name) != 0)
        at++;
    return at;
}

/* Types are few and live as long as the process, since pipelines may still run one that was replaced. */
static PyObject *add_stage(PyObject *module, PyObject *arguments) {
    PyObject *dict, *function;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO", &dict, &function))
        return NULL;
    static const char *const lists[] = {"accepts", "labels", "tensors", "options"};
    for (int i = 0; i < 4; i++) {
        PyObject *list = PyDict_Check(dict) ? PyDict_GetItemString(dict, lists[i]) : NULL;
        if (!list || !PyList_Check(list)) {
            PyErr_Format(PyExc_TypeError, "a stage needs a list of %s", lists[i]);
            return NULL;
        }
    }
    mr_py_stage *stage = calloc(1, sizeof *stage);
    if (!stage)
        return PyErr_NoMemory();
    if (read_accepts(stage, PyDict_GetItemString(dict, "accepts")) ||
        read_labels(stage, PyDict_GetItemString(dict, "labels")) ||
        read_tensors(stage, PyDict_GetItemString(dict, "tensors")) ||
        read_options(stage, PyDict_GetItemString(dict, "options")))
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    describe(stage, dict);
    if (PyErr_Occurred())
        return NULL;
    int status = mr_stage_type_check(&stage->type);
    const size_t at = status ? 0 : place_of(stage, number_at(dict, "replaces"));
    if (!status && at == stage_count)
        status = check_new(&stage->type);
    if (!status && at == MR_PY_MOST_STAGES)
        status = mr_fail(MR_ERROR_USAGE, "a process can have %d stage types in Python", MR_PY_MOST_STAGES);
    if (status)
        return mr_py_raise(status);
    Py_INCREF(function);
    stage->function = function;
    own_types[at] = &stage->type;
    stage_count += at == stage_count;
    Py_RETURN_NONE;
}

int mr_py_stage_types(mr_type_list *list) {
    size_t count = 0;
    int status = MR_OK;
    while (mr_stage_types()[count])
        count++;
    const mr_stage_type **all = calloc(count + 1, sizeof(mr_stage_type *));
    if (!all)
        return mr_fail(MR_ERROR_MEMORY, "no memory for stage types");
    for (size_t i = 0; i < count; i++) {
        const mr_stage_type *type = mr_stage_types()[i];
        all[i] = strcmp(type->name, mr_py_callback_stage.name) == 0 ? &mr_py_callback_stage : type;
    }
    status = mr_type_list_add(list, all, false);
    free(all);
    return status ? status : mr_type_list_add(list, own_types, false);
}

const mr_stage_type *const *mr_py_own_types(void) {
    return own_types;
}

int mr_py_stage_add_functions(PyObject *module) {
    static PyMethodDef functions[] = {{"add_stage", add_stage, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
    return PyModule_AddFunctions(module, functions);
}
