#include "summary.h"

#include <stdio.h>
#include <time.h>

#include "millrace/summary_fields.h"

static int put_fields(PyObject *dict, const mr_summary_part *part, const void *base);

static PyObject *list_of(const mr_summary_field *field, const void *base) {
    const char *element = mr_summary_list(field, base);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < mr_summary_count(field, base); i++, element += field->part->bytes) {
        if (field->has && !field->has(element))
            continue;
        PyObject *one = PyDict_New();
        const bool wrong = one && put_fields(one, field->part, element);
        if (mr_py_append(list, one) || wrong)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *part_of(const mr_summary_field *field, const void *at) {
    PyObject *dict = PyDict_New();
    if (dict && put_fields(dict, field->part, at))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *buckets_of(const uint64_t *bucket) {
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < MR_DURATION_BUCKETS; i++)
        if (mr_py_append(list, PyLong_FromUnsignedLongLong(bucket[i])))
            Py_CLEAR(list);
    return list;
}

static PyObject *date_of(int64_t ns) {
    char day[32], text[64];
    const time_t seconds = (time_t)(ns / 1000000000);
    struct tm parts;
    if (!ns)
        Py_RETURN_NONE;
    gmtime_r(&seconds, &parts);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text, sizeof text, "%s.%06dZ", day, (int)(ns % 1000000000 / 1000));
    return PyUnicode_FromString(text);
}

static PyObject *ratio_of(const mr_summary_field *field, const void *base) {
    const uint64_t part = *(const uint64_t *)(const void *)((const char *)base + field->offset);
    const uint64_t whole = *(const uint64_t *)(const void *)((const char *)base + field->count);
    return PyFloat_FromDouble(whole ? (double)part / (double)whole : 0);
}

static PyObject *value_of(const mr_summary_field *field, const void *base) {
    const void *at = (const char *)base + field->offset;
    switch (field->type) {
    case MR_SUMMARY_BOOL:
        return PyBool_FromLong(*(const bool *)at);
    case MR_SUMMARY_NONE:
        return PyBool_FromLong(*(const uint64_t *)at == 0);
    case MR_SUMMARY_INT:
        return PyLong_FromLong(*(const int *)at);
    case MR_SUMMARY_STATUS:
        return PyLong_FromLong(mr_status_exit_code(*(const int *)at));
    case MR_SUMMARY_U32:
        return PyLong_FromUnsignedLong(*(const uint32_t *)at);
    case MR_SUMMARY_U64:
        return PyLong_FromUnsignedLongLong(*(const uint64_t *)at);
    case MR_SUMMARY_F64:
        return PyFloat_FromDouble(*(const double *)at);
    case MR_SUMMARY_NS:
        return PyFloat_FromDouble((double)*(const int64_t *)at * mr_summary_scale(field));
    case MR_SUMMARY_NS_F64:
        return PyFloat_FromDouble(*(const double *)at * mr_summary_scale(field));
    case MR_SUMMARY_RATIO:
        return ratio_of(field, base);
    case MR_SUMMARY_DATE:
        return date_of(*(const int64_t *)at);
    case MR_SUMMARY_TEXT:
        return mr_py_text(*(const char *const *)at, true);
    case MR_SUMMARY_CHARS:
        return mr_py_text(at, true);
    case MR_SUMMARY_NAME:
        return mr_py_text(field->name_of(*(const int *)at), true);
    case MR_SUMMARY_BUCKETS:
        return buckets_of(at);
    case MR_SUMMARY_PART:
        return part_of(field, at);
    case MR_SUMMARY_LIST:
    case MR_SUMMARY_ARRAY:
        return list_of(field, base);
    case MR_SUMMARY_INLINE:
        break;
    }
    PyErr_Format(PyExc_SystemError, "the field %s has an unknown type", field->name);
    return NULL;
}

static int put_field(PyObject *dict, const mr_summary_field *field, const void *base) {
    const bool list = mr_summary_is_list(field);
    if (!field->has || list || field->has(base)) {
        if (field->type == MR_SUMMARY_INLINE)
            return put_fields(dict, field->part, (const char *)base + field->offset);
        if (list && field->omitted && !mr_summary_count(field, base))
            return 0;
        return mr_py_put(dict, field->name, value_of(field, base));
    }
    return field->omitted ? 0 : PyDict_SetItemString(dict, field->name, Py_None);
}

static int put_fields(PyObject *dict, const mr_summary_part *part, const void *base) {
    int status = 0;
    for (const mr_summary_field *field = part->fields; !status && field->name; field++)
        status = put_field(dict, field, base);
    return status;
}

PyObject *mr_py_summary(const mr_summary *summary) {
    PyObject *dict = PyDict_New();
    if (dict && put_fields(dict, mr_summary_fields(), summary))
        Py_CLEAR(dict);
    return dict;
}
