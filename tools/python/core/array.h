/* Arrays in a frame's memory, for NumPy (__array_interface__) and others (__dlpack__), without a copy and read-only:
 * other stages read the same memory. An array keeps the memory alive.
 *
 * Threads: with the GIL. */
#pragma once

#include "hold.h"

enum { MR_PY_MOST_RANK = MR_MAX_RANK };

/* The shape of numbers in memory. Strides are in bytes. */
typedef struct mr_py_shape {
    mr_dtype dtype; /* ANY: 16-bit unsigned, which tensors do not have */
    int rank;
    int64_t size[MR_PY_MOST_RANK], stride[MR_PY_MOST_RANK];
} mr_py_shape;

/* The shape of a dense tensor, and of a picture's plane. */
mr_py_shape mr_py_tensor_shape(const mr_format *format);
mr_py_shape mr_py_plane_shape(const mr_format *format, int plane, ptrdiff_t stride);
/* A NumPy array, or an Array if there is no NumPy. */
PyObject *mr_py_array(mr_py_hold *hold, const void *data, const mr_py_shape *shape);
int mr_py_array_add_type(PyObject *module);

/* An array of the program, by its __array_interface__ (anything else is given to numpy.asarray first). */
typedef struct mr_py_foreign {
    PyObject *owner; /* keeps the memory */
    const uint8_t *data;
    mr_py_shape shape;
} mr_py_foreign;
/* With `like`, numbers of another type are converted to its type if that loses no kind (NumPy's "same_kind"). */
int mr_py_foreign_open(mr_py_foreign *foreign, PyObject *object, const mr_dtype *like);
/* True if the numbers lie one after another, from dimension `first` on. */
bool mr_py_is_dense(const mr_py_shape *shape, int first);
/* "uint8 480x640x3", for messages. Returns `text`. */
const char *mr_py_shape_print(const mr_py_shape *shape, char *text, size_t bytes);
