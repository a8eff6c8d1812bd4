#include "stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "frame.h"

/* How long a thread sleeps at most: the program's must look for Ctrl-C and the end of the run, the stage's for a stop.
 * After a source has ended, the end of the run is near. */
#define SLEEP_NS       INT64_C(50000000)
#define SHORT_SLEEP_NS INT64_C(1000000)

typedef struct entry {
    mr_frame *frame;
    const char *source;
    bool heavy; /* has buffers */
} entry;

struct mr_py_stream {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    mr_py_session *session;
    long room;                   /* for frames with buffers */
    long capacity, first, count; /* of the ring */
    long held;                   /* frames in the program's hands */
    long heavy;                  /* frames with buffers, queued or held */
    int references;
    bool closed, ended, reader_sleeps, writer_sleeps;
    bool writer_heavy; /* the frame that it has brought */
    int64_t sleep_ns;  /* the reader's next */
    entry ring[];
};

mr_py_stream *mr_py_stream_create(mr_py_session *session, long room, bool strict) {
    const long capacity = strict || room > MR_PY_LIGHT ? room : MR_PY_LIGHT;
    mr_py_stream *stream = calloc(1, sizeof *stream + (size_t)capacity * sizeof *stream->ring);
    pthread_condattr_t monotonic;
    if (!stream)
        return NULL;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->filled, &monotonic);
    pthread_cond_init(&stream->emptied, &monotonic);
    pthread_condattr_destroy(&monotonic);
    stream->room = room;
    stream->capacity = capacity;
    stream->references = 1;
    stream->sleep_ns = SLEEP_NS;
    stream->session = session;
    return stream;
}

void mr_py_stream_ref(mr_py_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    stream->references++;
    pthread_mutex_unlock(&stream->lock);
}

void mr_py_stream_unref(mr_py_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    const int left = --stream->references;
    pthread_mutex_unlock(&stream->lock);
    if (left)
        return;
    pthread_cond_destroy(&stream->filled);
    pthread_cond_destroy(&stream->emptied);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static void sleep_on(mr_py_stream *stream, pthread_cond_t *condition, int64_t ns) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(condition, &stream->lock, &until);
}

static bool is_full(const mr_py_stream *stream, bool heavy) {
    return stream->count + stream->held >= stream->capacity || (heavy && stream->heavy >= stream->room);
}

static bool has_buffers(const mr_frame *frame) {
    bool found = false;
    for (int i = 0; i < MR_MAX_PLANES; i++)
        found = found || frame->plane[i].buffer;
    for (const mr_result *result = frame->results; result && !found; result = result->next)
        found = result->buffer;
    return found;
}

/* Waking a thread costs more than a frame: a writer that waits for room sleeps until it finds some more of it. */
static void wake_writer(mr_py_stream *stream, int part) {
    if (stream->writer_sleeps && stream->count + stream->held <= stream->capacity / part &&
        stream->heavy <= stream->room / part)
        pthread_cond_signal(&stream->emptied);
}

int mr_py_stream_give(mr_py_stream *stream, const mr_stage *stage, const char *source, const mr_frame *frame) {
    const bool heavy = has_buffers(frame);
    pthread_mutex_lock(&stream->lock);
    while (is_full(stream, heavy) && !stream->closed && !mr_stage_cancelled(stage)) {
        stream->writer_sleeps = true;
        stream->writer_heavy = heavy;
        sleep_on(stream, &stream->emptied, SLEEP_NS);
    }
    stream->writer_sleeps = false;
    if (!is_full(stream, heavy) && !stream->closed) {
        mr_frame *kept;
        if (mr_frame_keep(frame, &kept)) {
            pthread_mutex_unlock(&stream->lock);
            return MR_ERROR_MEMORY;
        }
        stream->ring[(stream->first + stream->count++) % stream->capacity] = (entry){kept, source, heavy};
        stream->heavy += heavy;
        if (stream->reader_sleeps)
            pthread_cond_signal(&stream->filled);
    }
    pthread_mutex_unlock(&stream->lock);
    return MR_OK;
}

void mr_py_stream_expect_end(mr_py_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    stream->sleep_ns = SHORT_SLEEP_NS;
    pthread_cond_broadcast(&stream->filled);
    pthread_mutex_unlock(&stream->lock);
}

/* Needs the lock. */
static entry take_first(mr_py_stream *stream) {
    const entry first = stream->ring[stream->first];
    stream->first = (stream->first + 1) % stream->capacity;
    stream->count--;
    return first;
}

void mr_py_stream_close(mr_py_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    stream->closed = true;
    pthread_cond_broadcast(&stream->filled);
    pthread_cond_broadcast(&stream->emptied);
    while (stream->count) {
        mr_frame *frame = take_first(stream).frame;
        /* A frame that the program pushed takes the GIL when it is released, and threads with the GIL take the lock. */
        pthread_mutex_unlock(&stream->lock);
        mr_frame_unref(&frame);
        pthread_mutex_lock(&stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
}

void mr_py_stream_release(mr_py_stream *stream, bool heavy) {
    pthread_mutex_lock(&stream->lock);
    stream->held--;
    stream->heavy -= heavy;
    wake_writer(stream, 2);
    pthread_mutex_unlock(&stream->lock);
}

/* ---- the iterator ------------------------------------------------------------------------------------------------ */

typedef struct iterator {
    PyObject_HEAD mr_py_stream *stream;
    mr_py_session *session;
} iterator;

static PyTypeObject *iterator_type;

/* What a look into the queue finds. */
typedef enum sight { TAKEN, WAITS, ALL_HELD, OVER } sight;

static sight look(mr_py_stream *stream, entry *taken) {
    sight seen = WAITS;
    pthread_mutex_lock(&stream->lock);
    if (stream->count) {
        *taken = take_first(stream);
        stream->held++;
        seen = TAKEN;
    } else if (stream->closed || stream->ended) {
        seen = OVER;
    } else if (stream->writer_sleeps && is_full(stream, stream->writer_heavy)) {
        seen = ALL_HELD;
    }
    pthread_mutex_unlock(&stream->lock);
    return seen;
}

/* Sleeps until there is a frame, but not for long. */
static void doze(mr_py_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    if (!stream->count && !stream->closed) {
        stream->reader_sleeps = true;
        wake_writer(stream, 1);
        sleep_on(stream, &stream->filled, stream->sleep_ns);
        stream->reader_sleeps = false;
        stream->sleep_ns = stream->sleep_ns * 2 < SLEEP_NS ? stream->sleep_ns * 2 : SLEEP_NS;
    }
    pthread_mutex_unlock(&stream->lock);
}

/* True if no more frames can come. Those that came until now are in the queue. */
static bool is_over(mr_py_session *session) {
    if (mr_py_session_enter(session) != MR_PY_ENTERED)
        return true;
    const bool over =
        mr_py_session_progress(session) != MR_PY_OPEN && mr_py_session_wait(session, 0) != MR_ERROR_AGAIN;
    mr_py_session_leave(session);
    return over;
}

static PyObject *all_held(const mr_py_stream *stream) {
    PyErr_Format(mr_py.held,
                 "the program still holds %ld frames, and the pipeline has buffers for no more: let go of frames, call "
                 "frame.detach(), or give the stage a longer queue (hold=%ld)",
                 stream->held, stream->held * 4);
    return NULL;
}

static PyObject *frame_of(iterator *self, entry taken) {
    mr_py_hold *hold = mr_py_hold_create(taken.frame);
    if (!hold) {
        mr_py_stream_release(self->stream, taken.heavy);
        return NULL;
    }
    mr_py_stream_ref(self->stream);
    mr_py_session_hold(self->session);
    hold->stream = self->stream;
    hold->heavy = taken.heavy;
    hold->session = self->session;
    return mr_py_frame(hold, taken.source);
}

static PyObject *next_frame(PyObject *object) {
    iterator *self = (iterator *)object;
    if (!mr_py_session_is_ours(self->session))
        return mr_py_raise_text(MR_ERROR_USAGE, "the pipeline was started before this process was forked: start it in "
                                                "the process that reads it, or use multiprocessing's \"spawn\"");
    for (entry taken;;) {
        /* Inside, so that no close destroys the pipeline between the look and the hold. */
        if (mr_py_session_enter(self->session) != MR_PY_ENTERED)
            return NULL;
        sight seen = look(self->stream, &taken);
        PyObject *frame = seen == TAKEN ? frame_of(self, taken) : NULL;
        mr_py_session_leave(self->session);
        if (seen == TAKEN)
            return frame;
        if (seen == OVER)
            return NULL;
        bool over;
        Py_BEGIN_ALLOW_THREADS
        if (seen == WAITS)
            doze(self->stream);
        over = is_over(self->session);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals())
            return NULL;
        if (over) {
            pthread_mutex_lock(&self->stream->lock);
            self->stream->ended = true;
            pthread_mutex_unlock(&self->stream->lock);
        } else if (seen == ALL_HELD) {
            return all_held(self->stream);
        }
    }
}

static PyObject *iterate(PyObject *object) {
    Py_INCREF(object);
    return object;
}

static void iterator_dealloc(PyObject *object) {
    iterator *self = (iterator *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (mr_py_session_is_ours(self->session)) {
        mr_py_stream_unref(self->stream);
        if (mr_py_session_drop(self->session)) {
            Py_BEGIN_ALLOW_THREADS
            mr_py_session_destroy(self->session);
            Py_END_ALLOW_THREADS
        }
    }
    PyObject_Free(object);
    Py_DECREF(type);
}

PyObject *mr_py_stream_iterator(mr_py_stream *stream) {
    iterator *made = PyObject_New(iterator, iterator_type);
    if (!made)
        return NULL;
    mr_py_stream_ref(stream);
    mr_py_session_ref(stream->session);
    made->stream = stream;
    made->session = stream->session;
    return (PyObject *)made;
}

int mr_py_stream_add_type(PyObject *module) {
    static PyType_Slot slots[] = {{Py_tp_new, mr_py_refuse_new},
                                  {Py_tp_dealloc, iterator_dealloc},
                                  {Py_tp_iter, iterate},
                                  {Py_tp_iternext, next_frame},
                                  {Py_tp_doc, "The frames that reach a stage, in order."},
                                  {0, NULL}};
    static PyType_Spec spec = {"millrace._core.Stream", sizeof(iterator), 0, Py_TPFLAGS_DEFAULT, slots};
    iterator_type = (PyTypeObject *)mr_py_add_type(module, &spec);
    return iterator_type ? 0 : -1;
}
