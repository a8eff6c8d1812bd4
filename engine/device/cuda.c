/* CUDA devices, through the runtime, which is linked statically: a program starts with and without a driver.
 *
 * An event of ours is a CUDA event that a thread of the device asks for, so that a device that fails still completes
 * what was recorded on it (host functions are not called any more once a context has failed). Work on the host is a host
 * function of the stream; it and what was waited for belong to the next record, which takes its status from them. The
 * primary context is used as it is and never reset: libraries share it. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "engine/base/memory.h"
#include "engine/device/cuda.h"
#include "engine/device/cuda_trace.h"

enum { POLL_NS = 20000, SLACK_NS = 1000, WAITED_START = 4 };

typedef struct work {
    mr_work_function *function;
    void (*after)(void *context); /* instead of `function`: called when the work is recycled */
    void *context;
    atomic_int status;
    struct work *next;
    _Alignas(16) unsigned char arguments[MR_WORK_BYTES];
} work;

/* Events that a stream was told to wait for; one reference each. */
typedef struct waited {
    mr_event **event;
    size_t count, capacity;
} waited;

typedef struct cuda_stream cuda_stream;

/* A point in a stream that is not known to be reached yet, or that is not in use. */
typedef struct record {
    cudaEvent_t point;
    cuda_stream *stream;
    mr_event *event;
    work *work;      /* on the host, since the record before */
    waited waited;   /* since the record before */
    int status;      /* what is known to have failed already */
    struct record *next;
} record;

struct cuda_stream {
    mr_stream stream;
    cudaStream_t handle;
    work *work;
    waited waited;
    int status;
    void *scratch;
    size_t scratch_bytes;
    mr_cuda_piece *piece; /* that it is at; NULL where nobody traces */
    int pending; /* records that are not done; under the device's lock */
};

typedef struct cuda_device {
    mr_device device;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread, ending;
    record *pending; /* in the order of recording; only the device's thread takes some away */
    record *unused_records;
    work *unused_work;
    mr_cuda_timeline timeline;
} cuda_device;

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static int failed(const mr_device *device, cudaError_t error, const char *what) {
    /* The runtime would answer the next, innocent call with the error of this one. */
    cudaGetLastError();
    int status = error == cudaErrorMemoryAllocation ? MR_ERROR_MEMORY : MR_ERROR_DEVICE;
    return mr_fail(status, "%s: cannot %s: %s", device->name, what, cudaGetErrorString(error));
}

/* Every call is about the thread's current device. */
static int enter(const mr_device *device) {
    cudaError_t error = cudaSetDevice(device->index);
    return error ? failed(device, error, "be used") : MR_OK;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static int cuda_allocate(mr_device *device, mr_memory memory, size_t bytes, void **data) {
    size_t at_least_one = bytes ? bytes : 1;
    *data = NULL;
    if (memory == MR_MEMORY_HOST) {
        *data = mr_alloc_aligned(64, at_least_one);
        return *data ? MR_OK : mr_fail(MR_ERROR_MEMORY, "%s: no memory for %zu bytes", device->name, bytes);
    }
    int status = enter(device);
    if (status)
        return status;
    cudaError_t error = memory == MR_MEMORY_PINNED ? cudaHostAlloc(data, at_least_one, cudaHostAllocPortable)
                                                   : cudaMalloc(data, at_least_one);
    return error ? failed(device, error, memory == MR_MEMORY_PINNED ? "pin host memory" : "allocate memory") : MR_OK;
}

static void cuda_free(mr_device *device, mr_memory memory, void *data) {
    if (memory == MR_MEMORY_HOST) {
        mr_free(data);
        return;
    }
    if (enter(device))
        return;
    cudaError_t error = memory == MR_MEMORY_PINNED ? cudaFreeHost(data) : cudaFree(data);
    if (error)
        failed(device, error, "free memory");
}

/* ---- work and what was waited for ------------------------------------------------------------------------------- */

static work *take_work(cuda_device *self) {
    pthread_mutex_lock(&self->lock);
    work *taken = self->unused_work;
    if (taken)
        self->unused_work = taken->next;
    pthread_mutex_unlock(&self->lock);
    return taken ? taken : mr_alloc(sizeof *taken);
}

/* The newest is put in front; what came first is told first. */
static void reverse(work **list) {
    work *reversed = NULL;
    while (*list) {
        work *moved = *list;
        *list = moved->next;
        moved->next = reversed;
        reversed = moved;
    }
    *list = reversed;
}

/* Empties a list of work into the free list and returns the status of the last piece that failed, MR_OK where none has.
 * Called with the lock, once all of it is done: those who want to know that are told. */
static int recycle_work(cuda_device *self, work **list) {
    int status = MR_OK;
    reverse(list);
    while (*list) {
        work *gone = *list;
        int its_status = atomic_load_explicit(&gone->status, memory_order_acquire);
        status = its_status ? its_status : status;
        if (gone->after)
            gone->after(gone->context);
        *list = gone->next;
        gone->next = self->unused_work;
        self->unused_work = gone;
    }
    return status;
}

/* A piece of work that belongs to the stream's next record. */
static work *add_work(cuda_stream *stream) {
    work *added = take_work((cuda_device *)stream->stream.device);
    if (!added) {
        mr_fail(MR_ERROR_MEMORY, "%s: no memory for work", stream->stream.device->name);
        return NULL;
    }
    added->after = NULL;
    atomic_store_explicit(&added->status, MR_OK, memory_order_relaxed);
    added->next = stream->work;
    stream->work = added;
    return added;
}

static void CUDART_CB run_work(void *context) {
    work *self = context;
    atomic_store_explicit(&self->status, self->function(self->arguments), memory_order_release);
}

/* All that is launched until something else happens on the stream. */
static void trace_work(cuda_stream *stream) {
    cuda_device *device = (cuda_device *)stream->stream.device;
    if (device->device.trace)
        mr_cuda_trace_begin(&device->timeline, &stream->piece, &stream->stream, stream->handle, MR_ENGINE_COMPUTE, 0);
}

static void trace_copy(cuda_stream *stream, const void *to, const void *from, size_t bytes) {
    cuda_device *device = (cuda_device *)stream->stream.device;
    if (device->device.trace)
        mr_cuda_trace_copy(&device->timeline, &stream->piece, &stream->stream, stream->handle, to, from, bytes);
}

static int cuda_submit(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes) {
    cuda_stream *self = (cuda_stream *)stream;
    int status = enter(stream->device);
    if (status)
        return status;
    work *added = add_work(self);
    if (!added)
        return MR_ERROR_MEMORY;
    added->function = function;
    if (bytes)
        memcpy(added->arguments, arguments, bytes);
    trace_work(self);
    cudaError_t error = cudaLaunchHostFunc(self->handle, run_work, added);
    /* What was not launched stays in the list with status MR_OK, to be recycled with the rest. */
    return error ? failed(stream->device, error, "take work") : MR_OK;
}

static cudaError_t copy_row(cudaStream_t handle, void *to, const void *from, size_t bytes) {
    return from ? cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, handle) : cudaMemsetAsync(to, 0, bytes, handle);
}

/* The addresses tell which memory they are of. Rows that the hardware cannot take at once are copied one by one. */
static int cuda_copy_rows(mr_stream *stream, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                          size_t bytes, size_t rows) {
    cudaStream_t handle = ((cuda_stream *)stream)->handle;
    int status = enter(stream->device);
    if (status)
        return status;
    cudaError_t error = cudaSuccess;
    trace_copy((cuda_stream *)stream, to, from, rows * bytes);
    if (rows > 1 && from && to_stride >= (ptrdiff_t)bytes && from_stride >= (ptrdiff_t)bytes)
        error = cudaMemcpy2DAsync(to, (size_t)to_stride, from, (size_t)from_stride, bytes, rows, cudaMemcpyDefault, handle);
    else
        for (size_t row = 0; row < rows && !error; row++)
            error = copy_row(handle, (char *)to + (ptrdiff_t)row * to_stride,
                             from ? (const char *)from + (ptrdiff_t)row * from_stride : NULL, bytes);
    return error ? failed(stream->device, error, "copy") : MR_OK;
}

static int keep_waited(waited *list, mr_event *event) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : WAITED_START;
        mr_event **grown = mr_realloc(list->event, capacity * sizeof(mr_event *));
        if (!grown)
            return mr_fail(MR_ERROR_MEMORY, "no memory to wait for an event");
        list->event = grown;
        list->capacity = capacity;
    }
    list->event[list->count++] = mr_event_ref(event);
    return MR_OK;
}

static void forget_waited(waited *list) {
    while (list->count)
        mr_event_unref(&list->event[--list->count]);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static record *pending_record_of(const cuda_device *self, const mr_event *event) {
    for (record *found = self->pending; found; found = found->next)
        if (found->event == event)
            return found;
    return NULL;
}

static int make_record(cuda_device *self, record **made) {
    pthread_mutex_lock(&self->lock);
    *made = self->unused_records;
    if (*made)
        self->unused_records = (*made)->next;
    pthread_mutex_unlock(&self->lock);
    if (*made)
        return MR_OK;
    if (!(*made = mr_calloc(1, sizeof **made)))
        return mr_fail(MR_ERROR_MEMORY, "%s: no memory for a record", self->device.name);
    cudaError_t error = cudaEventCreateWithFlags(&(*made)->point, cudaEventDisableTiming);
    if (!error)
        return MR_OK;
    mr_free(*made);
    return failed(&self->device, error, "create an event");
}

static void recycle_record(cuda_device *self, record *gone) {
    gone->next = self->unused_records;
    self->unused_records = gone;
}

/* Hands over to the record what has happened on the stream since the one before. */
static void fill_record(record *to, cuda_stream *stream, mr_event *event) {
    waited empty = to->waited;
    *to = (record){.point = to->point,
                   .stream = stream,
                   .event = mr_event_ref(event),
                   .work = stream->work,
                   .waited = stream->waited,
                   .status = stream->status};
    stream->work = NULL;
    stream->waited = empty;
    stream->status = MR_OK;
}

static int cuda_record(mr_stream *stream, mr_event *event) {
    cuda_stream *self = (cuda_stream *)stream;
    cuda_device *device = (cuda_device *)stream->device;
    record *made;
    int status = enter(stream->device);
    if (!status)
        status = make_record(device, &made);
    if (status)
        return status;
    mr_cuda_trace_end(&self->piece, stream, self->handle);
    cudaError_t error = cudaEventRecord(made->point, self->handle);
    pthread_mutex_lock(&device->lock);
    if (error) {
        recycle_record(device, made);
    } else {
        fill_record(made, self, event);
        self->pending++;
        record **end = &device->pending;
        while (*end)
            end = &(*end)->next;
        *end = made;
        pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->lock);
    return error ? failed(stream->device, error, "record an event") : MR_OK;
}

/* An event that is not done keeps its CUDA event while the lock is held. */
static int wait_for_pending(cuda_device *device, cuda_stream *self, mr_event *event) {
    record *found = pending_record_of(device, event);
    if (!found)
        return mr_fail(MR_ERROR_INTERNAL, "%s: told to wait for an event that is neither done nor recorded here",
                       device->device.name);
    int status = keep_waited(&self->waited, event);
    if (status)
        return status;
    cudaError_t error = cudaStreamWaitEvent(self->handle, found->point, 0);
    return error ? failed(&device->device, error, "wait for an event") : MR_OK;
}

static int cuda_wait(mr_stream *stream, mr_event *event) {
    cuda_stream *self = (cuda_stream *)stream;
    cuda_device *device = (cuda_device *)stream->device;
    int status = enter(stream->device);
    if (status)
        return status;
    mr_cuda_trace_end(&self->piece, stream, self->handle);
    pthread_mutex_lock(&device->lock);
    if (!mr_event_done(event))
        status = wait_for_pending(device, self, event);
    else if (mr_event_status(event))
        self->status = mr_event_status(event);
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* ---- the thread that asks --------------------------------------------------------------------------------------- */

/* True once a record can be told. Events that its stream waited for are told first, since their status counts. */
static bool reached(const cuda_device *self, record *asked) {
    cudaError_t error = cudaEventQuery(asked->point);
    if (error == cudaErrorNotReady)
        return false;
    if (error)
        asked->status = failed(&self->device, error, "go on");
    for (size_t i = 0; i < asked->waited.count && !error; i++)
        if (!mr_event_done(asked->waited.event[i]))
            return false;
    return true;
}

static int status_of(cuda_device *self, record *done) {
    int status = recycle_work(self, &done->work);
    if (done->status)
        return done->status;
    for (size_t i = 0; i < done->waited.count && !status; i++)
        if (mr_event_done(done->waited.event[i]))
            status = mr_event_status(done->waited.event[i]);
    return status;
}

/* Tells one record; called with the lock, which is given up meanwhile. The record stays in the list until its event is
 * done, so that whoever waits for the event finds the one or the other. */
static void tell(cuda_device *self, record *done) {
    int status = status_of(self, done);
    pthread_mutex_unlock(&self->lock);
    mr_event_complete(done->event, status);
    pthread_mutex_lock(&self->lock);
    record **link = &self->pending;
    while (*link != done)
        link = &(*link)->next;
    *link = done->next;
    done->stream->pending--;
    mr_event_unref(&done->event);
    forget_waited(&done->waited);
    recycle_record(self, done);
    pthread_cond_broadcast(&self->changed);
}

static void nap(cuda_device *self) {
    pthread_mutex_unlock(&self->lock);
    nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    pthread_mutex_lock(&self->lock);
}

static void *ask(void *context) {
    cuda_device *self = context;
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    enter(&self->device);
    pthread_mutex_lock(&self->lock);
    while (!self->ending) {
        record *done = self->pending;
        while (done && !reached(self, done))
            done = done->next;
        if (done)
            tell(self, done);
        else if (self->pending)
            nap(self);
        else
            pthread_cond_wait(&self->changed, &self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

static int cuda_stream_create(mr_device *device, mr_stream **stream) {
    int status = enter(device);
    if (status)
        return status;
    cuda_stream *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "%s: no memory for a stream", device->name);
    made->stream.device = device;
    cudaError_t error = cudaStreamCreateWithFlags(&made->handle, cudaStreamNonBlocking);
    if (error) {
        mr_free(made);
        return failed(device, error, "create a stream");
    }
    *stream = &made->stream;
    return MR_OK;
}

static void cuda_stream_destroy(mr_stream *stream) {
    cuda_stream *gone = (cuda_stream *)stream;
    cuda_device *self = (cuda_device *)stream->device;
    enter(&self->device);
    mr_cuda_trace_end(&gone->piece, stream, gone->handle);
    cudaStreamSynchronize(gone->handle);
    pthread_mutex_lock(&self->lock);
    while (gone->pending)
        pthread_cond_wait(&self->changed, &self->lock);
    recycle_work(self, &gone->work);
    pthread_mutex_unlock(&self->lock);
    forget_waited(&gone->waited);
    mr_free(gone->waited.event);
    cudaFree(gone->scratch);
    cudaStreamDestroy(gone->handle);
    cudaGetLastError();
    mr_free(gone);
}

/* ---- for kernels ------------------------------------------------------------------------------------------------- */

int mr_cuda_enter(mr_stream *stream, void **handle) {
    int status = enter(stream->device);
    *handle = ((cuda_stream *)stream)->handle;
    if (!status)
        trace_work((cuda_stream *)stream);
    stream->unrecorded++; /* What is launched there is not seen here. */
    return status;
}

/* At least doubled, so that slowly growing needs grow it seldom. */
int mr_cuda_scratch(mr_stream *stream, size_t bytes, void **data) {
    cuda_stream *self = (cuda_stream *)stream;
    cudaError_t error = cudaSuccess;
    int status = enter(stream->device);
    if (status)
        return status;
    if (bytes > self->scratch_bytes) {
        size_t room = bytes > 2 * self->scratch_bytes ? bytes : 2 * self->scratch_bytes;
        if (self->scratch)
            error = cudaFreeAsync(self->scratch, self->handle);
        self->scratch = NULL;
        self->scratch_bytes = 0;
        if (!error)
            error = cudaMallocAsync(&self->scratch, room, self->handle);
        if (!error)
            self->scratch_bytes = room;
    }
    *data = self->scratch;
    return error ? failed(stream->device, error, "allocate scratch memory") : MR_OK;
}

int mr_cuda_after(mr_stream *stream, void (*function)(void *context), void *context) {
    work *added = add_work((cuda_stream *)stream);
    if (!added)
        return MR_ERROR_MEMORY;
    added->after = function;
    added->context = context;
    return MR_OK;
}

/* ---- the device ------------------------------------------------------------------------------------------------- */

static void free_unused(cuda_device *self) {
    while (self->unused_records) {
        record *gone = self->unused_records;
        self->unused_records = gone->next;
        cudaEventDestroy(gone->point);
        mr_free(gone->waited.event);
        mr_free(gone);
    }
    while (self->unused_work) {
        work *gone = self->unused_work;
        self->unused_work = gone->next;
        mr_free(gone);
    }
    mr_cuda_timeline_fini(&self->timeline);
}

static void cuda_destroy(mr_device *device) {
    cuda_device *self = (cuda_device *)device;
    if (self->has_thread) {
        pthread_mutex_lock(&self->lock);
        self->ending = true;
        pthread_cond_broadcast(&self->changed);
        pthread_mutex_unlock(&self->lock);
        pthread_join(self->thread, NULL);
    }
    free_unused(self);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
    mr_free(self);
}

static const mr_device_type cuda_type = {
    .kind = MR_DEVICE_CUDA,
    .allocate = cuda_allocate,
    .free = cuda_free,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .submit = cuda_submit,
    .copy_rows = cuda_copy_rows,
    .record = cuda_record,
    .wait = cuda_wait,
    .range_begin = mr_cuda_range_begin,
    .range_end = mr_cuda_range_end,
    .destroy = cuda_destroy,
};

/* Says what is missing: a driver, any device, or this one. */
static int find_device(int index) {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    cudaGetLastError();
    if (error == cudaErrorInsufficientDriver)
        return mr_fail(MR_ERROR_UNAVAILABLE, "cuda:%d: this machine has no NVIDIA driver, or one that is too old for "
                       "CUDA %d.%d", index, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    if (error == cudaErrorNoDevice)
        return mr_fail(MR_ERROR_UNAVAILABLE, "cuda:%d: the NVIDIA driver finds no device", index);
    if (error)
        return mr_fail(MR_ERROR_DEVICE, "cuda:%d: cannot count devices: %s", index, cudaGetErrorString(error));
    if (index >= count)
        return mr_fail(MR_ERROR_UNAVAILABLE, "cuda:%d: this machine has %d CUDA device%s, numbered from 0", index,
                       count, count == 1 ? "" : "s");
    return MR_OK;
}

int mr_cuda_probe(int index, uint64_t *memory_bytes) {
    struct cudaDeviceProp about;
    *memory_bytes = 0;
    int status = find_device(index);
    if (status)
        return status;
    cudaError_t error = cudaGetDeviceProperties(&about, index);
    cudaGetLastError();
    if (error)
        return mr_fail(MR_ERROR_DEVICE, "cuda:%d: cannot be asked for its memory: %s", index, cudaGetErrorString(error));
    *memory_bytes = about.totalGlobalMem;
    return MR_OK;
}

int mr_cuda_create(mr_device **device, int index) {
    *device = NULL;
    int status = find_device(index);
    if (status)
        return status;
    cuda_device *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for cuda:%d", index);
    made->device = (mr_device){.type = &cuda_type, .index = index};
    snprintf(made->device.name, sizeof made->device.name, "cuda:%d", index);
    made->timeline = (mr_cuda_timeline){.lock = &made->lock, .device = &made->device};
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    status = enter(&made->device);
    if (status)
        goto fail;
    if (pthread_create(&made->thread, NULL, ask, made)) {
        status = mr_fail(MR_ERROR_MEMORY, "cannot start the thread of %s", made->device.name);
        goto fail;
    }
    made->has_thread = true;
    pthread_setname_np(made->thread, made->device.name);
    *device = &made->device;
    return MR_OK;
fail:
    cuda_destroy(&made->device);
    return status;
}
