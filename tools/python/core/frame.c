#include "frame.h"

#include <string.h>

#include "array.h"
#include "results.h"

enum { ID_NAME, FILE_NAME, LABEL_NAME, NAME_COUNT };

typedef struct frame {
    PyObject_HEAD mr_py_hold *hold;
    mr_frame at; /* results, names and media are valid while the hold has the frame */
    PyObject *source;
    PyObject *results;           /* a list; NULL: not made yet */
    PyObject *names[NAME_COUNT]; /* NULL: not made yet */
} frame;

static PyTypeObject *frame_type;

PyObject *mr_py_frame(mr_py_hold *hold, const char *source) {
    frame *made = hold ? PyObject_New(frame, frame_type) : NULL;
    if (!made) {
        mr_py_hold_unref(hold);
        return NULL;
    }
    memset((char *)made + offsetof(frame, hold), 0, sizeof *made - offsetof(frame, hold));
    made->hold = hold;
    made->at = *hold->frame;
    made->source = mr_py_text(source, false);
    if (!made->source)
        Py_CLEAR(made);
    return (PyObject *)made;
}

static void frame_dealloc(PyObject *object) {
    frame *self = (frame *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->source);
    Py_XDECREF(self->results);
    for (int i = 0; i < NAME_COUNT; i++)
        Py_XDECREF(self->names[i]);
    mr_py_hold_unref(self->hold);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- metadata ---------------------------------------------------------------------------------------------------- */

typedef enum number_field { SEQ, EPOCH, SUB, PTS_NS, DURATION_NS, CAPTURED_NS, WIDTH, HEIGHT, ROTATION } number_field;

static PyObject *get_number(PyObject *object, void *closure) {
    const mr_frame *at = &((frame *)object)->at;
    switch ((number_field)(intptr_t)closure) {
    case SEQ:
        return PyLong_FromUnsignedLongLong(at->identity.seq);
    case EPOCH:
        return PyLong_FromUnsignedLong(at->identity.epoch);
    case SUB:
        return PyLong_FromUnsignedLong(at->identity.sub);
    case DURATION_NS:
        return PyLong_FromLongLong(at->duration_ns);
    case WIDTH:
        return PyLong_FromLong(at->format.width);
    case HEIGHT:
        return PyLong_FromLong(at->format.height);
    case ROTATION:
        return PyLong_FromLong(at->format.rotation);
    case CAPTURED_NS:
        if (at->captured_ns)
            return PyLong_FromLongLong(at->captured_ns);
        Py_RETURN_NONE;
    case PTS_NS:
        if (at->pts_ns != MR_NO_TIME)
            return PyLong_FromLongLong(at->pts_ns);
        Py_RETURN_NONE;
    }
    Py_RETURN_NONE;
}

static PyObject *get_pts(PyObject *object, void *closure) {
    (void)closure;
    return mr_py_seconds(((frame *)object)->at.pts_ns);
}

static PyObject *get_flag(PyObject *object, void *closure) {
    return PyBool_FromLong(((frame *)object)->at.flags & (uint32_t)(uintptr_t)closure);
}

static PyObject *get_source(PyObject *object, void *closure) {
    (void)closure;
    Py_INCREF(((frame *)object)->source);
    return ((frame *)object)->source;
}

static PyObject *get_kind(PyObject *object, void *closure) {
    (void)closure;
    return PyUnicode_FromString(mr_payload_name(((frame *)object)->at.format.payload));
}

static PyObject *get_format(PyObject *object, void *closure) {
    char text[MR_FORMAT_TEXT];
    (void)closure;
    return PyUnicode_FromString(mr_format_print(&((frame *)object)->at.format, text, sizeof text));
}

static PyObject *get_pixel(PyObject *object, void *closure) {
    const mr_format *format = &((frame *)object)->at.format;
    (void)closure;
    if (format->payload == MR_PAYLOAD_PICTURE)
        return PyUnicode_FromString(mr_pixel_describe(format->pixel)->name);
    Py_RETURN_NONE;
}

static PyObject *name_of(frame *self, int which) {
    const char *(*const ask[])(const mr_frame *) = {mr_frame_id, mr_frame_file, mr_frame_label};
    if (!self->names[which]) {
        const char *name = ask[which](self->hold->frame);
        /* As Python has paths that are not UTF-8: open(frame.file) works. */
        self->names[which] =
            which == FILE_NAME && name && *name ? PyUnicode_DecodeFSDefault(name) : mr_py_text(name, true);
    }
    Py_XINCREF(self->names[which]);
    return self->names[which];
}

static PyObject *get_name(PyObject *object, void *closure) {
    return name_of((frame *)object, (int)(intptr_t)closure);
}

static PyObject *get_results(PyObject *object, void *closure) {
    frame *self = (frame *)object;
    (void)closure;
    if (!self->results) {
        /* Python code runs: another thread may detach the frame meanwhile. */
        mr_py_hold *hold = mr_py_hold_ref(self->hold);
        PyObject *made = mr_py_results(hold, hold->frame->results, false);
        mr_py_hold_unref(hold);
        if (!made || self->results)
            Py_XDECREF(made);
        else
            self->results = made;
        if (!made)
            return NULL;
    }
    Py_INCREF(self->results);
    return self->results;
}

/* The first result of a kind. A new reference; NULL without an exception: there is none. */
static PyObject *find_result(PyObject *results, const char *wanted) {
    for (Py_ssize_t i = 0; i < PyList_Size(results); i++) {
        PyObject *result = PyList_GetItem(results, i);
        Py_INCREF(result); /* the list is the program's too */
        PyObject *kind = PyObject_GetAttrString(result, "kind");
        const bool found = kind && PyUnicode_Check(kind) && PyUnicode_CompareWithASCIIString(kind, wanted) == 0;
        Py_XDECREF(kind);
        if (found)
            return result;
        Py_DECREF(result);
        if (!kind)
            return NULL;
    }
    return NULL;
}

static PyObject *get_elements(PyObject *object, void *closure) {
    PyObject *results = get_results(object, NULL), *elements = NULL;
    PyObject *result = results ? find_result(results, closure) : NULL;
    if (result)
        elements = PyObject_GetAttrString(result, "elements");
    else if (!PyErr_Occurred())
        elements = PyList_New(0);
    Py_XDECREF(results);
    Py_XDECREF(result);
    return elements;
}

static int put_tensor(PyObject *tensors, PyObject *result) {
    PyObject *kind = PyObject_GetAttrString(result, "kind"), *name = PyObject_GetAttrString(result, "name");
    PyObject *array = PyObject_GetAttrString(result, "array");
    int status = kind && name && array ? 0 : -1;
    const bool found = !status && PyUnicode_Check(kind) && PyUnicode_CompareWithASCIIString(kind, "tensor") == 0;
    if (found && PyDict_Contains(tensors, name) == 0)
        status = PyDict_SetItem(tensors, name, array);
    Py_XDECREF(kind);
    Py_XDECREF(name);
    Py_XDECREF(array);
    return status;
}

static PyObject *get_tensors(PyObject *object, void *closure) {
    PyObject *results = get_results(object, NULL), *tensors = results ? PyDict_New() : NULL;
    (void)closure;
    for (Py_ssize_t i = 0; tensors && i < PyList_Size(results); i++) {
        PyObject *result = PyList_GetItem(results, i);
        Py_INCREF(result);
        if (put_tensor(tensors, result))
            Py_CLEAR(tensors);
        Py_DECREF(result);
    }
    Py_XDECREF(results);
    return tensors;
}

/* ---- the payload ------------------------------------------------------------------------------------------------- */

static PyObject *plane_of(const frame *self, int plane) {
    const mr_frame *at = &self->at;
    const mr_py_shape packet = {.dtype = MR_DTYPE_U8, .rank = 1, .size = {(int64_t)at->plane[0].bytes}, .stride = {1}};
    const mr_py_shape shape = at->format.payload == MR_PAYLOAD_PICTURE
                                  ? mr_py_plane_shape(&at->format, plane, at->plane[plane].stride)
                              : at->format.payload == MR_PAYLOAD_TENSOR ? mr_py_tensor_shape(&at->format)
                                                                        : packet;
    mr_py_hold *hold = mr_py_hold_ref(self->hold);
    PyObject *made = mr_py_array(hold, at->plane[plane].data, &shape);
    mr_py_hold_unref(hold);
    return made;
}

static int plane_count(const mr_format *format) {
    return format->payload == MR_PAYLOAD_RESULTS   ? 0
           : format->payload == MR_PAYLOAD_PICTURE ? mr_pixel_describe(format->pixel)->planes
                                                   : 1;
}

static PyObject *get_planes(PyObject *object, void *closure) {
    const frame *self = (frame *)object;
    PyObject *list = PyList_New(0);
    (void)closure;
    for (int i = 0; list && i < plane_count(&self->at.format); i++)
        if (mr_py_append(list, plane_of(self, i)))
            Py_CLEAR(list);
    return list;
}

static PyObject *get_array(PyObject *object, void *closure) {
    const frame *self = (frame *)object;
    const int planes = plane_count(&self->at.format);
    char text[MR_FORMAT_TEXT];
    (void)closure;
    if (planes == 1)
        return plane_of(self, 0);
    mr_format_print(&self->at.format, text, sizeof text);
    if (planes)
        PyErr_Format(PyExc_ValueError,
                     "a %s has %d planes: read frame.planes, or let preprocess make RGB (dtype: u8, layout: nhwc)",
                     text, planes);
    else
        PyErr_SetString(PyExc_ValueError, "the frame has results alone, and no picture or tensor");
    return NULL;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Gives the frame a copy of the payload, in memory of its own. */
static mr_py_hold *copy_payload(frame *self) {
    const mr_frame *from = &self->at;
    const mr_payload payload = from->format.payload;
    const bool laid = payload == MR_PAYLOAD_PICTURE || payload == MR_PAYLOAD_TENSOR;
    const size_t bytes = laid                           ? mr_packed_bytes(&from->format)
                         : payload == MR_PAYLOAD_PACKET ? from->plane[0].bytes
                                                        : 0;
    mr_plane planes[MR_MAX_PLANES] = {{0}};
    mr_py_hold *own = mr_py_hold_copy(bytes);
    if (!own)
        return NULL;
    if (laid) {
        mr_frame_pack(from, own->copy);
        mr_lay_out(&from->format, 1, own->copy, planes);
    } else if (bytes) {
        memcpy(own->copy, from->plane[0].data, bytes);
        planes[0] = (mr_plane){.data = own->copy, .bytes = bytes};
    }
    memcpy(self->at.plane, planes, sizeof planes);
    return own;
}

static int detach(frame *self) {
    if (!self->hold->frame)
        return 0;
    for (int i = 0; i < NAME_COUNT; i++) {
        PyObject *name = name_of(self, i);
        if (!name)
            return -1;
        Py_DECREF(name);
    }
    mr_py_hold *hold = mr_py_hold_ref(self->hold);
    PyObject *results = mr_py_results(hold, hold->frame->results, true), *before = NULL;
    const bool another = self->hold != hold; /* thread has detached it while Python code ran */
    mr_py_hold *own = results && !another ? copy_payload(self) : NULL;
    if (own) {
        before = self->results;
        self->results = results;
        results = NULL;
        self->hold = own;
        self->at.results = NULL;
        self->at.names = NULL;
        self->at.media = NULL;
        mr_py_hold_unref(hold);
    }
    Py_XDECREF(before);
    Py_XDECREF(results);
    mr_py_hold_unref(hold);
    return own || another ? 0 : -1;
}

static PyObject *frame_detach(PyObject *object, PyObject *none) {
    (void)none;
    if (detach((frame *)object))
        return NULL;
    Py_INCREF(object);
    return object;
}

int mr_py_frame_end_call(PyObject *object, mr_py_kept *kept) {
    frame *self = (frame *)object;
    mr_py_hold *hold = mr_py_hold_ref(self->hold);
    const int status = Py_REFCNT(object) > 1 ? detach(self) : 0;
    const bool arrays = hold->references > (self->hold == hold ? 2 : 1);
    if (arrays)
        mr_py_hold_count(hold, kept);
    mr_py_hold_unref(hold);
    return status;
}

static PyObject *frame_reduce(PyObject *object, PyObject *none) {
    (void)object, (void)none;
    PyErr_SetString(PyExc_TypeError, "a frame cannot be copied or pickled: take its results, and copies of its arrays "
                                     "(frame.array.copy()); frame.detach() keeps a frame in this process");
    return NULL;
}

static PyObject *frame_repr(PyObject *object) {
    const frame *self = (frame *)object;
    char text[MR_FORMAT_TEXT];
    mr_format_print(&self->at.format, text, sizeof text);
    return PyUnicode_FromFormat("<Frame %U %llu: %s>", self->source, (unsigned long long)self->at.identity.seq, text);
}

/* ---- the type ---------------------------------------------------------------------------------------------------- */

#define NUMBER(name, which, help)                                                                                      \
    { name, get_number, NULL, help, (void *)(intptr_t)(which) }
#define FLAG(name, flag, help)                                                                                         \
    { name, get_flag, NULL, help, (void *)(intptr_t)(flag) }
#define ELEMENTS(kind, help)                                                                                           \
    { kind, get_elements, NULL, help, kind }

static PyGetSetDef frame_fields[] = {
    {"source", get_source, NULL, "The source's id.", NULL},
    NUMBER("seq", SEQ, "The number in the source's epoch: pictures in presentation order, from 0."),
    NUMBER("epoch", EPOCH, "Rises when the source loops, seeks or reconnects."),
    NUMBER("sub", SUB, "The number among frames made from one frame, such as pictures of objects."),
    {"pts", get_pts, NULL, "Presentation time in seconds; None: not known.", NULL},
    NUMBER("pts_ns", PTS_NS, "Presentation time in nanoseconds; None: not known."),
    NUMBER("duration_ns", DURATION_NS, "Nanoseconds; 0: not known."),
    NUMBER("captured_ns", CAPTURED_NS, "When the camera took it: nanoseconds since 1970; None: not known."),
    NUMBER("width", WIDTH, "Columns of a picture as it is stored; 0 for other frames."),
    NUMBER("height", HEIGHT, "Rows of a picture as it is stored; 0 for other frames."),
    NUMBER("rotation", ROTATION, "Degrees clockwise to display the picture."),
    {"kind", get_kind, NULL, "\"packet\", \"picture\", \"tensor\" or \"results\".", NULL},
    {"format", get_format, NULL, "The format in words, such as \"picture I420 1280x720\".", NULL},
    {"pixel", get_pixel, NULL, "A picture's pixel layout, such as \"I420\"; None for other frames.", NULL},
    FLAG("key", MR_FRAME_KEY, "A packet that needs no other."),
    FLAG("corrupt", MR_FRAME_CORRUPT, "Data is missing or damaged."),
    FLAG("away", MR_FRAME_AWAY, "A picture that shows since when the source is away."),
    {"id", get_name, NULL, "The id that the sender gave it, or None.", (void *)(intptr_t)ID_NAME},
    {"file", get_name, NULL, "The picture's or video's file, or None.", (void *)(intptr_t)FILE_NAME},
    {"label", get_name, NULL, "The true class, from the folder or the sender, or None.", (void *)(intptr_t)LABEL_NAME},
    {"results", get_results, NULL, "All results, newest first: a list of Result.", NULL},
    ELEMENTS("classes", "The newest classes, best first: a list of Class."),
    ELEMENTS("objects", "The newest objects, best first: a list of Object."),
    ELEMENTS("events", "What happened in areas and on lines: a list of Event."),
    ELEMENTS("text", "Text that was read: a list of Text."),
    {"tensors", get_tensors, NULL, "The newest tensor of each name: a dict of NumPy arrays.", NULL},
    {"array", get_array, NULL, "The payload as one NumPy array, without a copy. Read-only.", NULL},
    {"planes", get_planes, NULL, "The payload's planes as NumPy arrays, without a copy. Read-only.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef frame_methods[] = {
    {"detach", frame_detach, METH_NOARGS,
     "Copies the payload and results, so that the frame keeps no memory of the pipeline. Returns the frame."},
    {"__reduce__", frame_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int mr_py_frame_add_type(PyObject *module) {
    static PyType_Slot slots[] = {{Py_tp_new, mr_py_refuse_new},
                                  {Py_tp_dealloc, frame_dealloc},
                                  {Py_tp_getset, frame_fields},
                                  {Py_tp_methods, frame_methods},
                                  {Py_tp_repr, frame_repr},
                                  {Py_tp_doc, "One frame of a pipeline."},
                                  {0, NULL}};
    static PyType_Spec spec = {"millrace._core.Frame", sizeof(frame), 0, Py_TPFLAGS_DEFAULT, slots};
    frame_type = (PyTypeObject *)mr_py_add_type(module, &spec);
    return frame_type ? 0 : -1;
}
