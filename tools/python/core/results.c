#include "results.h"

#include <stdio.h>
#include <string.h>

#include "array.h"

static PyObject *element_of(const mr_result *result, const mr_field *fields, const char *element, const char *name);

static PyObject *items_of(const mr_result *result, const mr_field *field, mr_items items, const char *name) {
    const char *at = mr_result_items(result, items);
    const uint32_t count = at ? items.count : 0;
    char nested[128];
    PyObject *list = PyList_New(0);
    snprintf(nested, sizeof nested, "%s.%s", name, field->name);
    for (uint32_t i = 0; list && i < count; i++) {
        PyObject *one = field->type == MR_FIELD_F32S ? PyFloat_FromDouble((double)((const float *)(const void *)at)[i])
                        : field->type == MR_FIELD_I32S
                            ? PyLong_FromLong(((const int32_t *)(const void *)at)[i])
                            : element_of(result, field->fields, at + i * field->item_bytes, nested);
        if (mr_py_append(list, one))
            Py_CLEAR(list);
    }
    return list;
}

/* A STRING ends at a zero, as in records. */
static PyObject *string_of(const mr_result *result, mr_items items) {
    const char *text = mr_result_items(result, items);
    return text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strnlen(text, items.count), "replace")
                : PyUnicode_FromString("");
}

static PyObject *date_of(int64_t ns) {
    if (ns)
        return PyFloat_FromDouble((double)ns / 1e9);
    Py_RETURN_NONE;
}

static PyObject *id_of(int64_t id) {
    if (id)
        return PyLong_FromLongLong(id);
    Py_RETURN_NONE;
}

static PyObject *value_of(const mr_result *result, const mr_field *field, const char *element, const char *name) {
    const void *at = element + field->offset;
    switch (field->type) {
    case MR_FIELD_BOOL:
        return PyBool_FromLong(*(const bool *)at);
    case MR_FIELD_I32:
        return PyLong_FromLong(*(const int32_t *)at);
    case MR_FIELD_I64:
        return PyLong_FromLongLong(*(const int64_t *)at);
    case MR_FIELD_F32:
        return PyFloat_FromDouble((double)*(const float *)at);
    case MR_FIELD_F64:
        return PyFloat_FromDouble(*(const double *)at);
    case MR_FIELD_TEXT:
        return mr_py_text(*(const char *const *)at, true);
    case MR_FIELD_TIME:
        return mr_py_seconds(*(const int64_t *)at);
    case MR_FIELD_DATE:
        return date_of(*(const int64_t *)at);
    case MR_FIELD_ID:
        return id_of(*(const int64_t *)at);
    case MR_FIELD_STRING:
        return string_of(result, *(const mr_items *)at);
    case MR_FIELD_F32S:
    case MR_FIELD_I32S:
    case MR_FIELD_LIST:
        return items_of(result, field, *(const mr_items *)at, name);
    case MR_FIELD_TYPES:
        break;
    }
    PyErr_Format(PyExc_SystemError, "the field %s has an unknown type", field->name);
    return NULL;
}

/* An object of the class for `name`, or a dict: kinds of plugins have none. */
static PyObject *element_of(const mr_result *result, const mr_field *fields, const char *element, const char *name) {
    PyObject *type = PyDict_GetItemString(mr_py.kinds, name), *values = PyDict_New(), *none = NULL, *made = NULL;
    for (const mr_field *field = fields; values && field->name; field++)
        if (mr_py_put(values, field->name, value_of(result, field, element, name)))
            Py_CLEAR(values);
    if (!type || !values)
        return values;
    none = PyTuple_New(0);
    made = none ? PyObject_Call(type, none, values) : NULL;
    Py_XDECREF(none);
    Py_DECREF(values);
    return made;
}

static PyObject *elements_of(const mr_result *result) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < result->count; i++)
        if (mr_py_append(list,
                         element_of(result, result->kind->fields,
                                    (const char *)result->data + i * result->kind->element_bytes, result->kind->name)))
            Py_CLEAR(list);
    return list;
}

static PyObject *array_of(mr_py_hold *hold, const mr_result *result, bool copied) {
    const mr_py_shape shape = mr_py_tensor_shape(&result->format);
    if (!copied)
        return mr_py_array(hold, result->data, &shape);
    const size_t bytes = mr_result_bytes(result);
    mr_py_hold *own = mr_py_hold_copy(bytes);
    if (!own)
        return NULL;
    memcpy(own->copy, result->data, bytes);
    PyObject *made = mr_py_array(own, own->copy, &shape);
    mr_py_hold_unref(own);
    return made;
}

static PyObject *result_of(mr_py_hold *hold, const mr_result *result, bool copied) {
    const bool elements = result->kind->fields;
    PyObject *kind = PyUnicode_FromString(result->kind->name), *stage = mr_py_text(result->stage, true);
    PyObject *name = mr_py_text(result->name, true);
    PyObject *list = elements ? elements_of(result) : PyList_New(0);
    PyObject *array = elements ? Py_BuildValue("") : array_of(hold, result, copied);
    PyObject *made = NULL;
    if (kind && stage && name && list && array)
        made = PyObject_CallFunctionObjArgs(mr_py.result, kind, stage, name, list, array,
                                            result->cut ? Py_True : Py_False, NULL);
    Py_XDECREF(kind);
    Py_XDECREF(stage);
    Py_XDECREF(name);
    Py_XDECREF(list);
    Py_XDECREF(array);
    return made;
}

PyObject *mr_py_results(mr_py_hold *hold, const mr_result *results, bool copied) {
    PyObject *list = PyList_New(0);
    for (const mr_result *result = results; list && result; result = result->next)
        if (mr_py_append(list, result_of(hold, result, copied)))
            Py_CLEAR(list);
    return list;
}
