#include "push.h"

#include <stdlib.h>

#include "array.h"
#include "gil.h"

/* The arrays that a push reads. */
typedef struct pushed {
    int count;
    PyObject *owners[MR_MAX_PLANES];
} pushed;

static void free_pushed(pushed *arrays) {
    for (int i = 0; i < arrays->count; i++)
        Py_XDECREF(arrays->owners[i]);
    free(arrays);
}

/* Any thread. */
static void release(void *context) {
    PyGILState_STATE state = mr_py_gil_take();
    free_pushed(context);
    mr_py_gil_give(state);
}

static int wrong_shape(const char *expected, const mr_py_shape *shape) {
    char text[128];
    PyErr_Format(PyExc_ValueError, "the array is %s, but the pipeline takes %s",
                 mr_py_shape_print(shape, text, sizeof text), expected);
    return -1;
}

/* Plane 0 gives the picture's size; the others must fit. Rows may have gaps, pixels may not. */
static int add_plane(mr_push *push, int plane, const mr_py_foreign *foreign) {
    mr_format *format = &push->format;
    const mr_py_shape *shape = &foreign->shape;
    const mr_pixel_info *info = mr_pixel_describe(format->pixel);
    char expected[160], text[128];
    mr_py_shape planned = mr_py_plane_shape(format, plane, 0);
    const bool sized = plane == 0 && shape->rank >= 2 && shape->rank <= planned.rank;
    if (sized && shape->size[0] <= INT32_MAX && shape->size[1] <= INT32_MAX) {
        format->height = (int32_t)shape->size[0];
        format->width = (int32_t)shape->size[1];
        planned = mr_py_plane_shape(format, plane, 0);
    }
    bool same = shape->rank == planned.rank && shape->dtype == planned.dtype;
    for (int i = 0; same && i < planned.rank; i++)
        same = shape->size[i] == planned.size[i];
    if (!same) {
        PyOS_snprintf(expected, sizeof expected, "%s%s for plane %d of %s",
                      mr_py_shape_print(&planned, text, sizeof text),
                      format->width ? "" : " (0: any number of rows, columns)", plane, info->name);
        return wrong_shape(expected, shape);
    }
    if (!mr_py_is_dense(shape, 1)) {
        PyErr_SetString(PyExc_ValueError,
                        "the pixels of a row must lie one after another: use numpy.ascontiguousarray");
        return -1;
    }
    push->data[plane] = foreign->data;
    push->stride[plane] = (ptrdiff_t)shape->stride[0];
    return 0;
}

static int add_tensor(mr_push *push, const mr_py_foreign *foreign) {
    const mr_py_shape *shape = &foreign->shape;
    if (shape->dtype == MR_DTYPE_ANY)
        return wrong_shape("no 16-bit integers", shape);
    for (int i = 0; i < shape->rank; i++)
        if (shape->size[i] == 0)
            return wrong_shape("no empty ones", shape);
    if (!mr_py_is_dense(shape, 0)) {
        PyErr_SetString(PyExc_ValueError, "a tensor must be in C order: use numpy.ascontiguousarray");
        return -1;
    }
    push->format.dtype = shape->dtype;
    push->format.rank = shape->rank;
    for (int i = 0; i < shape->rank; i++)
        push->format.dims[i] = shape->size[i];
    push->data[0] = foreign->data;
    return 0;
}

static int add_arrays(mr_push *push, pushed *arrays, PyObject *list) {
    const Py_ssize_t count = PyList_Size(list);
    const bool picture = push->format.payload == MR_PAYLOAD_PICTURE;
    const int planes = picture ? mr_pixel_describe(push->format.pixel)->planes : 1;
    if (count != planes) {
        PyErr_Format(PyExc_ValueError, "the pipeline takes %d arrays a frame, one for each plane, and got %zd", planes,
                     count);
        return -1;
    }
    for (int i = 0; i < planes; i++) {
        mr_py_foreign foreign = {0};
        if (mr_py_foreign_open(&foreign, PyList_GetItem(list, i), NULL))
            return -1;
        arrays->owners[arrays->count++] = foreign.owner;
        if (picture ? add_plane(push, i, &foreign) : add_tensor(push, &foreign))
            return -1;
    }
    return 0;
}

/* Waits in slices, so that Ctrl-C ends it. */
static int push_patiently(mr_pipeline *pipeline, const char *source, const mr_push *push, int64_t timeout_ns) {
    const int64_t due = mr_py_due(timeout_ns);
    for (;;) {
        const int64_t slice = mr_py_slice(due);
        int status;
        Py_BEGIN_ALLOW_THREADS
        status = mr_pipeline_push(pipeline, source, push, slice);
        Py_END_ALLOW_THREADS
        if (!status)
            return 0;
        if (status != MR_ERROR_AGAIN || slice == 0) {
            mr_py_raise(status);
            return -1;
        }
        if (PyErr_CheckSignals())
            return -1;
    }
}

int mr_py_push(mr_pipeline *pipeline, PyObject *tuple) {
    const char *source;
    PyObject *list, *pts, *seconds;
    int pixel, layout, copy;
    if (!PyArg_ParseTuple(tuple, "yOiiOOp", &source, &list, &pixel, &layout, &pts, &seconds, &copy))
        return -1;
    const int64_t left = mr_py_timeout(seconds);
    mr_push push = {.format = {.payload = pixel ? MR_PAYLOAD_PICTURE : MR_PAYLOAD_TENSOR,
                               .pixel = (mr_pixel)pixel,
                               .layout = (mr_layout)layout},
                    .pts_ns = pts == Py_None ? MR_NO_TIME : PyLong_AsLongLong(pts)};
    pushed *arrays = left == -2 || PyErr_Occurred() ? NULL : calloc(1, sizeof *arrays);
    if (!arrays) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return -1;
    }
    int failed = add_arrays(&push, arrays, list);
    if (!failed && !copy) {
        push.release = release;
        push.context = arrays;
    }
    failed = failed ? failed : push_patiently(pipeline, source, &push, left);
    if (failed || copy)
        free_pushed(arrays);
    return failed;
}
