#include "answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "millrace/objects.h"

static int wrong_payload(const mr_py_shape *got, const mr_py_shape *wanted) {
    char a[128], b[128];
    PyErr_Format(PyExc_ValueError, "it returned an array %s, but the output takes %s",
                 mr_py_shape_print(got, a, sizeof a), mr_py_shape_print(wanted, b, sizeof b));
    return -1;
}

/* Copies an array into memory with this shape, of which rows may have gaps. */
static int fill(uint8_t *to, const mr_py_shape *wanted, PyObject *array) {
    mr_py_foreign foreign = {0};
    const mr_dtype like = wanted->dtype;
    if (mr_py_foreign_open(&foreign, array, &like))
        return -1;
    bool same = foreign.shape.rank == wanted->rank && mr_py_is_dense(&foreign.shape, 0);
    for (int i = 0; same && i < wanted->rank; i++)
        same = foreign.shape.size[i] == wanted->size[i];
    const int status = same ? 0 : wrong_payload(&foreign.shape, wanted);
    const size_t row = (size_t)(wanted->rank ? foreign.shape.stride[0] : 0);
    if (!status && mr_py_is_dense(wanted, 0))
        memcpy(to, foreign.data, row * (size_t)wanted->size[0]);
    for (int64_t y = 0; !status && !mr_py_is_dense(wanted, 0) && y < wanted->size[0]; y++)
        memcpy(to + y * wanted->stride[0], foreign.data + (size_t)y * row, row);
    Py_DECREF(foreign.owner);
    return status;
}

/* A picture with several planes is a sequence of arrays. */
static int put_payload(const mr_py_stage *stage, mr_frame *frame, PyObject *value) {
    const bool picture = frame && frame->format.payload == MR_PAYLOAD_PICTURE;
    const int planes = picture ? mr_pixel_describe(frame->format.pixel)->planes : 1;
    int status = 0;
    if (!frame || !(stage->same || stage->makes)) {
        PyErr_SetString(PyExc_ValueError,
                        "it returned an array, but the stage has no output of its own: declare output=");
        return -1;
    }
    if (planes > 1 && PySequence_Size(value) != planes) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "a picture of this layout is a list of %d arrays", planes);
        return -1;
    }
    for (int i = 0; !status && i < planes; i++) {
        const mr_py_shape wanted =
            picture ? mr_py_plane_shape(&frame->format, i, frame->plane[i].stride) : mr_py_tensor_shape(&frame->format);
        PyObject *array = planes > 1 ? PySequence_GetItem(value, i) : value;
        status = array ? fill(frame->plane[i].data, &wanted, array) : -1;
        if (planes > 1)
            Py_XDECREF(array);
    }
    return status;
}

static int put_tensor(const mr_py_stage *stage, size_t index, mr_io *io, mr_frame *frame, PyObject *value) {
    const mr_py_shape wanted = mr_py_tensor_shape(&stage->tensors[index]);
    void *data;
    if (mr_io_add_tensor(io, frame, stage->tensor_names[index], &stage->tensors[index], &data)) {
        mr_py_raise(MR_ERROR_MEMORY);
        return -1;
    }
    if (PyNumber_Check(value) && mr_tensor_count(&stage->tensors[index]) == 1 && !PySequence_Check(value)) {
        PyObject *list = Py_BuildValue("[O]", value);
        const int status = list ? fill(data, &wanted, list) : -1;
        Py_XDECREF(list);
        return status;
    }
    return fill(data, &wanted, value);
}

/* A number under a key of a dict, or an attribute of an object. */
static int number_at(PyObject *element, const char *name, double fallback, double *number) {
    PyObject *value = NULL;
    if (PyDict_Check(element)) {
        value = PyDict_GetItemString(element, name);
        Py_XINCREF(value);
    } else {
        value = PyObject_GetAttrString(element, name);
        if (!value)
            PyErr_Clear();
    }
    if (!value || value == Py_None) {
        Py_XDECREF(value);
        *number = fallback;
        if (fallback == fallback)
            return 0;
        PyErr_Format(PyExc_ValueError, "an element lacks \"%s\"", name);
        return -1;
    }
    *number = PyFloat_AsDouble(value);
    Py_DECREF(value);
    return PyErr_Occurred() ? -1 : 0;
}

static const char *label_at(const mr_py_stage *stage, int32_t index) {
    return index >= 0 && (size_t)index < stage->label_count ? stage->labels[index] : NULL;
}

/* The number is an integer of this many bits; NAN and infinity are none. */
static int check_integer(const char *name, double number, int bits) {
    if (fabs(number) < ldexp(1, bits - 1) && number == trunc(number))
        return 0;
    PyErr_Format(PyExc_ValueError, "\"%s\" must be an integer of %d bits", name, bits);
    return -1;
}

/* Sorting needs numbers. */
static int check_score(double score) {
    if (isfinite((float)score))
        return 0;
    PyErr_SetString(PyExc_ValueError, "a score must be a finite number");
    return -1;
}

/* A pair of number and score, a dict, or a Class. */
static int read_class(const mr_py_stage *stage, PyObject *element, mr_class *to) {
    double index, score;
    if (PyTuple_Check(element)) {
        if (!PyArg_ParseTuple(element, "dd", &index, &score))
            return -1;
    } else if (number_at(element, "index", (double)NAN, &index) || number_at(element, "score", (double)NAN, &score)) {
        return -1;
    }
    if (check_integer("index", index, 32) || check_score(score))
        return -1;
    *to = (mr_class){.index = (int32_t)index, .score = (float)score, .label = label_at(stage, (int32_t)index)};
    return 0;
}

static int read_object(const mr_py_stage *stage, PyObject *element, mr_object *to) {
    static const char *const names[] = {"left", "top", "right", "bottom", "score", "index", "track", "number"};
    double value[8];
    for (int i = 0; i < 8; i++)
        if (number_at(element, names[i], i < 4 ? (double)NAN : i == 4 ? 1 : 0, &value[i]))
            return -1;
    if (!(value[0] < value[2]) || !(value[1] < value[3])) {
        PyErr_SetString(PyExc_ValueError, "a box must have an area: left < right and top < bottom");
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        if (isfinite((float)value[i]))
            continue;
        PyErr_Format(PyExc_ValueError, "a box must be finite, and \"%s\" is not", names[i]);
        return -1;
    }
    if (check_score(value[4]))
        return -1;
    for (int i = 5; i < 8; i++)
        if (check_integer(names[i], value[i], i == 5 ? 32 : 54)) /* a double has no more digits */
            return -1;
    *to = (mr_object){.left = (float)value[0],
                      .top = (float)value[1],
                      .right = (float)value[2],
                      .bottom = (float)value[3],
                      .score = (float)value[4],
                      .index = (int32_t)value[5],
                      .label = label_at(stage, (int32_t)value[5]),
                      .track = (int64_t)value[6],
                      .number = (int64_t)value[7]};
    return 0;
}

static int by_score(const void *a, const void *b) {
    const float one = ((const mr_class *)a)->score, other = ((const mr_class *)b)->score;
    return (one < other) - (one > other);
}

static int objects_by_score(const void *a, const void *b) {
    const float one = ((const mr_object *)a)->score, other = ((const mr_object *)b)->score;
    return (one < other) - (one > other);
}

/* Results are listed best first. */
static int put_elements(const mr_py_stage *stage, bool objects, mr_io *io, mr_frame *frame, PyObject *list) {
    const Py_ssize_t count = PySequence_Size(list);
    mr_result *result;
    int status = count < 0 ? -1 : 0;
    if (status)
        return status;
    if (mr_io_add_result(io, frame, objects ? mr_kind_objects() : mr_kind_classes(), (size_t)count, &result)) {
        mr_py_raise(MR_ERROR_MEMORY);
        return -1;
    }
    for (Py_ssize_t i = 0; !status && i < count; i++) {
        PyObject *element = PySequence_GetItem(list, i);
        status = !element  ? -1
                 : objects ? read_object(stage, element, (mr_object *)result->data + i)
                           : read_class(stage, element, result->classes + i);
        Py_XDECREF(element);
        result->count += !status;
    }
    if (!status && objects)
        qsort(result->data, result->count, sizeof(mr_object), objects_by_score);
    else if (!status)
        qsort(result->data, result->count, sizeof(mr_class), by_score);
    return status;
}

static int put_named(const mr_py_stage *stage, mr_io *io, mr_frame *frame, const char *name, PyObject *value) {
    if (strcmp(name, "output") == 0)
        return put_payload(stage, frame, value);
    if (frame && stage->classes && strcmp(name, "classes") == 0)
        return put_elements(stage, false, io, frame, value);
    if (frame && stage->objects && strcmp(name, "objects") == 0)
        return put_elements(stage, true, io, frame, value);
    for (size_t i = 0; frame && i < stage->tensor_count; i++)
        if (strcmp(name, stage->tensor_names[i]) == 0)
            return put_tensor(stage, i, io, frame, value);
    PyErr_Format(PyExc_KeyError,
                 "it returned \"%s\", which the stage does not declare (output=, tensors=, classes=, "
                 "objects=)",
                 name);
    return -1;
}

static int put_results(const mr_py_stage *stage, mr_io *io, mr_frame *frame, PyObject *dict) {
    PyObject *items = PyDict_Items(dict); /* reading a value runs code of the program, which may change the dict */
    int status = items ? 0 : -1;
    for (Py_ssize_t i = 0; !status && i < PyList_Size(items); i++) {
        PyObject *item = PyList_GetItem(items, i), *name = PyUnicode_AsUTF8String(PyTuple_GetItem(item, 0));
        status = name ? put_named(stage, io, frame, PyBytes_AsString(name), PyTuple_GetItem(item, 1)) : -1;
        Py_XDECREF(name);
    }
    Py_XDECREF(items);
    return status;
}

/* A payload that the function did not give would be undefined memory. */
static int lacks_payload(const mr_py_stage *stage, PyObject *answer) {
    if (!stage->same && !stage->makes)
        return 0;
    if (PyDict_Check(answer) && PyDict_GetItemString(answer, "output"))
        return 0;
    PyErr_SetString(PyExc_ValueError, "it returned no array for the output that the stage declares");
    return -1;
}

static bool is_truth(PyObject *answer) {
    if (PyBool_Check(answer))
        return true;
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(answer), "__name__");
    const bool numpy = name && (PyUnicode_CompareWithASCIIString(name, "bool_") == 0 ||
                                PyUnicode_CompareWithASCIIString(name, "bool") == 0);
    PyErr_Clear();
    Py_XDECREF(name);
    return numpy;
}

int mr_py_answer(const mr_py_stage *stage, mr_io *io, mr_frame *frame, PyObject *answer, bool *passes) {
    const bool truth = is_truth(answer);
    const int yes = truth ? PyObject_IsTrue(answer) : 1;
    if (yes < 0)
        return -1;
    *passes = yes;
    if (!yes || !frame)
        return 0;
    if (answer == Py_None || truth)
        return lacks_payload(stage, answer);
    if (!PyDict_Check(answer))
        return put_payload(stage, frame, answer);
    return lacks_payload(stage, answer) ? -1 : put_results(stage, io, frame, answer);
}
