#include "array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct array {
    PyObject_HEAD mr_py_hold *hold;
    const uint8_t *data;
    mr_py_shape shape;
} array;

static PyTypeObject *array_type;
static PyObject *asarray; /* numpy.asarray; None: there is no NumPy */

/* What NumPy and DLPack call a number's type. */
typedef struct number {
    const char *code, *name;
    size_t bytes;
    uint8_t dlpack; /* 0: int, 1: uint, 2: float */
} number;

static const number *number_of(mr_dtype dtype) {
    static const number words = {"<u2", "uint16", 2, 1};
    static const number table[] = {
        [MR_DTYPE_U8] = {"|u1", "uint8", 1, 1},    [MR_DTYPE_F16] = {"<f2", "float16", 2, 2},
        [MR_DTYPE_F32] = {"<f4", "float32", 4, 2}, [MR_DTYPE_I32] = {"<i4", "int32", 4, 0},
        [MR_DTYPE_I64] = {"<i8", "int64", 8, 0},
    };
    return dtype == MR_DTYPE_ANY ? &words : &table[dtype];
}

static mr_py_shape dense(mr_dtype dtype, int rank, const int64_t *size) {
    mr_py_shape shape = {.dtype = dtype, .rank = rank};
    int64_t stride = (int64_t)number_of(dtype)->bytes;
    for (int i = rank - 1; i >= 0; i--) {
        shape.size[i] = size[i];
        shape.stride[i] = stride;
        stride *= size[i];
    }
    return shape;
}

mr_py_shape mr_py_tensor_shape(const mr_format *format) {
    return dense(format->dtype, format->rank, format->dims);
}

/* Rows, columns and, if samples of several components alternate, components. */
mr_py_shape mr_py_plane_shape(const mr_format *format, int plane, ptrdiff_t stride) {
    const mr_pixel_info *info = mr_pixel_describe(format->pixel);
    const int64_t bytes = info->depth > 8 ? 2 : 1;
    int64_t step = bytes;
    for (int c = 0; c < info->components; c++)
        if (info->component[c].plane == plane)
            step = info->component[c].step;
    const int64_t row = (int64_t)mr_plane_row_bytes(format->pixel, plane, format->width);
    return (mr_py_shape){.dtype = bytes == 2 ? MR_DTYPE_ANY : MR_DTYPE_U8,
                         .rank = step > bytes ? 3 : 2,
                         .size = {mr_plane_rows(format->pixel, plane, format->height), row / step, step / bytes},
                         .stride = {stride, step, bytes}};
}

bool mr_py_is_dense(const mr_py_shape *shape, int first) {
    int64_t stride = (int64_t)number_of(shape->dtype)->bytes;
    for (int i = shape->rank - 1; i >= first; i--) {
        if (shape->size[i] > 1 && shape->stride[i] != stride)
            return false;
        stride *= shape->size[i];
    }
    return true;
}

const char *mr_py_shape_print(const mr_py_shape *shape, char *text, size_t bytes) {
    size_t used = (size_t)snprintf(text, bytes, "%s", number_of(shape->dtype)->name);
    for (int i = 0; i < shape->rank && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", i ? "x" : " ", (long long)shape->size[i]);
    return text;
}

/* ---- arrays in a frame ------------------------------------------------------------------------------------------- */

static PyObject *numbers(const int64_t *value, int count) {
    PyObject *made = PyTuple_New(count);
    for (int i = 0; made && i < count; i++) {
        PyObject *one = PyLong_FromLongLong(value[i]);
        if (!one || PyTuple_SetItem(made, i, one)) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

static PyObject *get_interface(PyObject *object, void *closure) {
    const array *self = (array *)object;
    const mr_py_shape *shape = &self->shape;
    (void)closure;
    return Py_BuildValue("{s:i,s:s,s:N,s:N,s:(NO)}", "version", 3, "typestr", number_of(shape->dtype)->code, "shape",
                         numbers(shape->size, shape->rank), "strides", numbers(shape->stride, shape->rank), "data",
                         PyLong_FromVoidPtr((void *)(uintptr_t)self->data), Py_True);
}

static PyObject *get_shape(PyObject *object, void *closure) {
    (void)closure;
    return numbers(((array *)object)->shape.size, ((array *)object)->shape.rank);
}

static PyObject *get_strides(PyObject *object, void *closure) {
    (void)closure;
    return numbers(((array *)object)->shape.stride, ((array *)object)->shape.rank);
}

static PyObject *get_dtype(PyObject *object, void *closure) {
    (void)closure;
    return PyUnicode_FromString(number_of(((array *)object)->shape.dtype)->name);
}

/* Copies dimension `at` and those after it. */
static uint8_t *pack(const mr_py_shape *shape, int at, const uint8_t *from, uint8_t *to) {
    const size_t bytes = number_of(shape->dtype)->bytes;
    if (at == shape->rank) {
        memcpy(to, from, bytes);
        return to + bytes;
    }
    if (mr_py_is_dense(shape, at)) {
        size_t all = bytes;
        for (int i = at; i < shape->rank; i++)
            all *= (size_t)shape->size[i];
        memcpy(to, from, all);
        return to + all;
    }
    for (int64_t i = 0; i < shape->size[at]; i++)
        to = pack(shape, at + 1, from + i * shape->stride[at], to);
    return to;
}

static size_t packed_bytes(const mr_py_shape *shape) {
    size_t bytes = number_of(shape->dtype)->bytes;
    for (int i = 0; i < shape->rank; i++)
        bytes *= (size_t)shape->size[i];
    return bytes;
}

static PyObject *to_bytes(PyObject *object, PyObject *none) {
    const array *self = (array *)object;
    (void)none;
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)packed_bytes(&self->shape));
    if (made)
        pack(&self->shape, 0, self->data, (uint8_t *)PyBytes_AsString(made));
    return made;
}

/* A program that was written for NumPy's arrays meets this type where NumPy is not installed. */
static PyObject *compare(PyObject *object, PyObject *other, int operation) {
    (void)object, (void)other;
    if (operation == Py_EQ || operation == Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    PyErr_SetString(PyExc_TypeError, "comparing the numbers of an array needs NumPy, which this Python does not have: "
                                     "pip install numpy");
    return NULL;
}

/* By identity. A type that compares does not inherit this. */
static Py_hash_t hash(PyObject *object) {
    return (Py_hash_t)((uintptr_t)object >> 4);
}

static void array_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    mr_py_hold_unref(((array *)object)->hold);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- DLPack (dmlc/dlpack, version 1.0) --------------------------------------------------------------------------- */

typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device; /* 1: the host */
    int32_t rank;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* strides count numbers */
    uint64_t offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags; /* 1: read-only, 2: a copy */
    dl_tensor tensor;
} dl_versioned;

typedef struct dl_export {
    union {
        dl_managed old;
        dl_versioned versioned;
    } as;
    int64_t sizes[2 * MR_PY_MOST_RANK];
    PyObject *owner; /* NULL: a copy */
    uint8_t *copy;
} dl_export;

static void dl_free(dl_export *made) {
    if (made->owner && Py_IsInitialized()) { /* a consumer may free its arrays after the interpreter's end */
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(made->owner);
        PyGILState_Release(state);
    }
    free(made->copy);
    free(made);
}

static void delete_old(dl_managed *self) {
    dl_free(self->context);
}

static void delete_versioned(dl_versioned *self) {
    dl_free(self->context);
}

/* A consumer renames the capsule that it takes over. */
static void capsule_free(PyObject *capsule) {
    static const char *const names[] = {"dltensor", "dltensor_versioned"};
    for (int i = 0; i < 2; i++)
        if (PyCapsule_IsValid(capsule, names[i]))
            dl_free(PyCapsule_GetPointer(capsule, names[i])); /* both structs begin the export */
}

static dl_tensor dl_describe(dl_export *made, const array *self) {
    const mr_py_shape shape = made->copy ? dense(self->shape.dtype, self->shape.rank, self->shape.size) : self->shape;
    const number *of = number_of(shape.dtype);
    for (int i = 0; i < shape.rank; i++) {
        made->sizes[i] = shape.size[i];
        made->sizes[MR_PY_MOST_RANK + i] = shape.stride[i] / (int64_t)of->bytes;
    }
    dl_tensor tensor = {.data = made->copy ? made->copy : (void *)(uintptr_t)self->data,
                        .device = {1, 0},
                        .rank = shape.rank,
                        .dtype = {of->dlpack, (uint8_t)(8 * of->bytes), 1},
                        .shape = made->sizes,
                        .strides = made->sizes + MR_PY_MOST_RANK};
    return tensor;
}

/* True if the caller takes DLPack 1.0, which can say that memory must not be written. */
static int takes_versions(PyObject *keywords) {
    PyObject *most = keywords ? PyDict_GetItemString(keywords, "max_version") : NULL;
    if (!most || most == Py_None)
        return 0;
    PyObject *major = PySequence_GetItem(most, 0);
    const long version = major ? PyLong_AsLong(major) : -1;
    Py_XDECREF(major);
    return version == -1 && PyErr_Occurred() ? -1 : version >= 1;
}

/* True if the caller takes memory of the host, or names no device. */
static int takes_host(PyObject *keywords) {
    PyObject *wish = keywords ? PyDict_GetItemString(keywords, "dl_device") : NULL;
    PyObject *host = wish && wish != Py_None ? Py_BuildValue("(ii)", 1, 0) : NULL;
    if (!host)
        return PyErr_Occurred() ? -1 : 1;
    const int same = PyObject_RichCompareBool(wish, host, Py_EQ);
    Py_DECREF(host);
    return same;
}

/* NULL, without an exception: no memory. */
static dl_export *export_array(PyObject *object, bool copies) {
    const array *self = (array *)object;
    dl_export *made = calloc(1, sizeof *made);
    if (made && copies) {
        const size_t bytes = packed_bytes(&self->shape);
        made->copy = malloc(bytes ? bytes : 1);
        if (!made->copy) {
            free(made);
            return NULL;
        }
        pack(&self->shape, 0, self->data, made->copy);
    } else if (made) {
        Py_INCREF(object);
        made->owner = object;
    }
    return made;
}

static PyObject *dlpack(PyObject *object, PyObject *arguments, PyObject *keywords) {
    array *self = (array *)object;
    const int versions = takes_versions(keywords), host = versions < 0 ? -1 : takes_host(keywords);
    (void)arguments;
    if (host < 0)
        return NULL;
    if (!host) {
        PyErr_SetString(PyExc_BufferError, "the memory is the host's, dl_device=(1, 0): copy it to another device");
        return NULL;
    }
    PyObject *wish = keywords ? PyDict_GetItemString(keywords, "copy") : NULL;
    const bool copies = wish == Py_True;
    if (!versions && !copies) {
        PyErr_SetString(PyExc_BufferError, "the memory must not be written, which DLPack says from version 1.0 on: "
                                           "give max_version=(1, 0), or copy=True");
        return NULL;
    }
    dl_export *made = export_array(object, copies);
    if (!made)
        return PyErr_NoMemory();
    if (versions)
        made->as.versioned = (dl_versioned){.version = {1, 0},
                                            .context = made,
                                            .deleter = delete_versioned,
                                            .flags = copies ? 2 : 1,
                                            .tensor = dl_describe(made, self)};
    else
        made->as.old = (dl_managed){.tensor = dl_describe(made, self), .context = made, .deleter = delete_old};
    PyObject *capsule = PyCapsule_New(made, versions ? "dltensor_versioned" : "dltensor", capsule_free);
    if (!capsule)
        dl_free(made);
    return capsule;
}

static PyObject *dlpack_device(PyObject *object, PyObject *none) {
    (void)object, (void)none;
    return Py_BuildValue("(ii)", 1, 0);
}

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyGetSetDef array_fields[] = {
    {"__array_interface__", get_interface, NULL, "NumPy's array interface, version 3.", NULL},
    {"shape", get_shape, NULL, "The size of each dimension.", NULL},
    {"strides", get_strides, NULL, "Bytes from one element to the next, for each dimension.", NULL},
    {"dtype", get_dtype, NULL, "NumPy's name of the element type, such as \"uint8\".", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef array_methods[] = {
    {"tobytes", to_bytes, METH_NOARGS, "A copy of all elements, in C order."},
    {"__dlpack__", (PyCFunction)(void (*)(void))dlpack, METH_VARARGS | METH_KEYWORDS, "A DLPack capsule."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "(1, 0): the memory is the host's."},
    {NULL, NULL, 0, NULL},
};

int mr_py_array_add_type(PyObject *module) {
    static PyType_Slot slots[] = {{Py_tp_new, mr_py_refuse_new},
                                  {Py_tp_dealloc, array_dealloc},
                                  {Py_tp_richcompare, compare},
                                  {Py_tp_hash, hash},
                                  {Py_tp_getset, array_fields},
                                  {Py_tp_methods, array_methods},
                                  {Py_tp_doc, "An array in a frame's memory, which must not be written."},
                                  {0, NULL}};
    static PyType_Spec spec = {"millrace._core.Array", sizeof(array), 0, Py_TPFLAGS_DEFAULT, slots};
    array_type = (PyTypeObject *)mr_py_add_type(module, &spec);
    return array_type ? 0 : -1;
}

static PyObject *find_numpy(void) {
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *found = numpy ? PyObject_GetAttrString(numpy, "asarray") : NULL;
    Py_XDECREF(numpy);
    if (!found && PyErr_ExceptionMatches(PyExc_ImportError)) {
        PyErr_Clear();
        Py_INCREF(Py_None);
        found = Py_None;
    }
    return found;
}

PyObject *mr_py_array(mr_py_hold *hold, const void *data, const mr_py_shape *shape) {
    if (!asarray)
        asarray = find_numpy();
    if (!asarray)
        return NULL;
    array *made = PyObject_New(array, array_type);
    if (!made)
        return NULL;
    made->hold = mr_py_hold_ref(hold);
    made->data = data;
    made->shape = *shape;
    if (asarray == Py_None)
        return (PyObject *)made;
    PyObject *seen = PyObject_CallFunctionObjArgs(asarray, (PyObject *)made, NULL);
    Py_DECREF(made);
    return seen;
}

/* ---- arrays of the program --------------------------------------------------------------------------------------- */

static int read_numbers(PyObject *sequence, int64_t *to) {
    const Py_ssize_t count = PySequence_Size(sequence);
    if (count < 0 || count > MR_PY_MOST_RANK) {
        if (count > 0)
            PyErr_Format(PyExc_ValueError, "an array may have at most %d dimensions", MR_PY_MOST_RANK);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *one = PySequence_GetItem(sequence, i);
        to[i] = one ? PyLong_AsLongLong(one) : -1;
        Py_XDECREF(one);
        if (PyErr_Occurred())
            return -1;
    }
    return (int)count;
}

static int read_type(PyObject *typestr, mr_dtype *dtype) {
    PyObject *text = PyUnicode_AsUTF8String(typestr);
    if (!text)
        return -1;
    const char *code = PyBytes_AsString(text);
    int found = -1;
    for (mr_dtype each = MR_DTYPE_ANY; found && each <= MR_DTYPE_I64; each++) {
        if (strcmp(number_of(each)->code, code) == 0) {
            *dtype = each;
            found = 0;
        }
    }
    if (found && *code == '>')
        PyErr_Format(PyExc_TypeError, "an array of type %s, with bytes in the order of other machines: use "
                     "array.astype(array.dtype.newbyteorder('='))", code);
    else if (found)
        PyErr_Format(PyExc_TypeError, "an array of type %s: use uint8, uint16, float16, float32, int32 or int64", code);
    Py_DECREF(text);
    return found;
}

/* The numbers could be in memory: after this check no product of sizes overflows. */
static int check_sizes(int rank, const int64_t *size, int64_t bytes) {
    bool fits = true;
    for (int i = 0; i < rank && fits; i++)
        fits = size[i] >= 0 && !__builtin_mul_overflow(bytes, size[i] ? size[i] : 1, &bytes);
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "an array interface has a size that no memory has");
    return fits ? 0 : -1;
}

static int read_interface(mr_py_foreign *foreign, PyObject *interface) {
    PyObject *shape = PyDict_GetItemString(interface, "shape"), *data = PyDict_GetItemString(interface, "data");
    PyObject *typestr = PyDict_GetItemString(interface, "typestr");
    PyObject *strides = PyDict_GetItemString(interface, "strides");
    if (!shape || !data || !typestr || !PyTuple_Check(data) || !PyTuple_Size(data) || !PyUnicode_Check(typestr)) {
        PyErr_SetString(PyExc_TypeError, "an array interface needs shape, typestr and data");
        return -1;
    }
    int64_t size[MR_PY_MOST_RANK] = {0};
    mr_dtype dtype;
    const int rank = read_numbers(shape, size);
    if (rank < 0 || read_type(typestr, &dtype) || check_sizes(rank, size, (int64_t)number_of(dtype)->bytes))
        return -1;
    foreign->shape = dense(dtype, rank, size);
    if (strides && strides != Py_None && read_numbers(strides, foreign->shape.stride) != rank) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "an array interface needs a stride for each dimension of its shape");
        return -1;
    }
    foreign->data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
    if (!foreign->data && !PyErr_Occurred() && packed_bytes(&foreign->shape))
        PyErr_SetString(PyExc_ValueError, "an array interface has numbers, and no memory: its address is 0");
    return PyErr_Occurred() ? -1 : 0;
}

/* A new reference to numpy.asarray(object), of a type if there is `like`. */
static PyObject *as_numpy(PyObject *object, const mr_dtype *like) {
    if (!asarray && !(asarray = find_numpy()))
        return NULL;
    if (asarray == Py_None) {
        PyErr_SetString(PyExc_TypeError, "an object without __array_interface__ needs NumPy: pip install numpy");
        return NULL;
    }
    PyObject *seen = PyObject_CallFunctionObjArgs(asarray, object, NULL);
    if (!seen || !like)
        return seen;
    PyObject *method = PyObject_GetAttrString(seen, "astype");
    PyObject *arguments = Py_BuildValue("(s)", number_of(*like)->name);
    PyObject *keywords = Py_BuildValue("{s:s,s:s,s:O}", "order", "C", "casting", "same_kind", "copy", Py_False);
    PyObject *made = method && arguments && keywords ? PyObject_Call(method, arguments, keywords) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    Py_DECREF(seen);
    return made;
}

int mr_py_foreign_open(mr_py_foreign *foreign, PyObject *object, const mr_dtype *like) {
    PyObject *interface = like ? NULL : PyObject_GetAttrString(object, "__array_interface__");
    PyErr_Clear();
    if (interface) {
        Py_INCREF(object);
        foreign->owner = object;
    } else {
        foreign->owner = as_numpy(object, like);
        interface = foreign->owner ? PyObject_GetAttrString(foreign->owner, "__array_interface__") : NULL;
    }
    const int status = interface ? read_interface(foreign, interface) : -1;
    Py_XDECREF(interface);
    if (status)
        Py_CLEAR(foreign->owner);
    return status;
}
