/* The work of streams on CUDA devices: host functions, copies, launches, and memory for kernels. */
#include "engine/device/cuda/cuda_stream.h"

#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/cuda_record.h"
#include "engine/device/cuda/cuda_use.h"
#include "engine/device/cuda/cuda_work.h"
#include "engine/device/probe/gpu.h"
#include "millrace/log.h"

enum { RESERVED = 4 }; /* records for each stream: as many calls as are most often in flight */

/* ---- work ------------------------------------------------------------------------------------------------------ */

static void CUDART_CB run_work(void *context) {
    cuda_work *self = context;
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

int mr_cuda_flush(cuda_stream *stream) {
    int status = mr_cuda_use(stream->stream.device);
    stream->given |= stream->launches.bytes || stream->waits < stream->waited.count;
    if (!status)
        status = mr_cuda_give_waits(stream);
    if (status || !stream->launches.bytes)
        return status;
    trace_work(stream);
    return mr_cuda_launches_flush(&stream->launches, stream->stream.device, stream->handle);
}

int mr_cuda_submit(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes) {
    cuda_stream *self = (cuda_stream *)stream;
    int status = mr_cuda_flush(self);
    if (status)
        return status;
    self->given = true;
    cuda_work *added = mr_cuda_add_work(self);
    if (!added)
        return MR_ERROR_MEMORY;
    added->function = function;
    if (bytes)
        memcpy(added->arguments, arguments, bytes);
    trace_work(self);
    cudaError_t error = cudaLaunchHostFunc(self->handle, run_work, added);
    /* Work that was not launched stays in the list with status MR_OK, to be recycled with the rest. */
    return error ? mr_cuda_failed(stream->device, error, "take work") : MR_OK;
}

static cudaError_t copy_row(cudaStream_t handle, void *to, const void *from, size_t bytes) {
    return from ? cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, handle) : cudaMemsetAsync(to, 0, bytes, handle);
}

/* Copies rows from one device to another: cudaMemcpy2DAsync does not document that it can. */
static cudaError_t copy_across(cudaStream_t handle, void *to, ptrdiff_t to_stride, int to_device, const void *from,
                               ptrdiff_t from_stride, int from_device, size_t bytes, size_t rows) {
    const struct cudaMemcpy3DPeerParms copy = {
        .srcPtr = {.ptr = (void *)(uintptr_t)from, .pitch = (size_t)from_stride, .xsize = bytes, .ysize = rows},
        .srcDevice = from_device,
        .dstPtr = {.ptr = to, .pitch = (size_t)to_stride, .xsize = bytes, .ysize = rows},
        .dstDevice = to_device,
        .extent = {bytes, rows, 1}};
    return cudaMemcpy3DPeerAsync(&copy, handle);
}

/* Several rows, with room between them. */
static cudaError_t copy_apart(cudaStream_t handle, void *to, ptrdiff_t to_stride, const void *from,
                              ptrdiff_t from_stride, size_t bytes, size_t rows) {
    int to_device = -1, from_device = -1;
    if (mr_cuda_has_several() && mr_cuda_is_on_device(to, &to_device) && mr_cuda_is_on_device(from, &from_device) &&
        to_device != from_device)
        return copy_across(handle, to, to_stride, to_device, from, from_stride, from_device, bytes, rows);
    return cudaMemcpy2DAsync(to, (size_t)to_stride, from, (size_t)from_stride, bytes, rows, cudaMemcpyDefault, handle);
}

/* The addresses tell which memory they are of. Rows that the hardware cannot take at once are copied one by one. */
int mr_cuda_copy_rows(mr_stream *stream, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                      size_t bytes, size_t rows) {
    cuda_stream *self = (cuda_stream *)stream;
    cudaStream_t handle = self->handle;
    int status = mr_cuda_flush(self);
    if (status)
        return status;
    cudaError_t error = cudaSuccess;
    self->given = true;
    trace_copy(self, to, from, rows * bytes);
    bool dense = to_stride == (ptrdiff_t)bytes && (!from || from_stride == (ptrdiff_t)bytes);
    if (dense)
        error = copy_row(handle, to, from, rows * bytes);
    else if (rows > 1 && from && to_stride >= (ptrdiff_t)bytes && from_stride >= (ptrdiff_t)bytes)
        error = copy_apart(handle, to, to_stride, from, from_stride, bytes, rows);
    else
        for (size_t row = 0; row < rows && !error; row++)
            error = copy_row(handle, (char *)to + (ptrdiff_t)row * to_stride,
                             from ? (const char *)from + (ptrdiff_t)row * from_stride : NULL, bytes);
    return error ? mr_cuda_failed(stream->device, error, "copy") : MR_OK;
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

/* Streams of one queue wait for each other. The driver reads the environment only once, before this. */
static void count_stream(cuda_device *self) {
    pthread_mutex_lock(&self->lock);
    bool shares = ++self->streams > self->queues && self->queues;
    int queues = self->queues;
    if (shares)
        self->queues = 0;
    pthread_mutex_unlock(&self->lock);
    if (shares)
        mr_log(MR_LOG_WARNING,
               "%s: more than %d streams share as many queues of the hardware, so that work of one may wait for "
               "another's; %s=%s in the environment, set before the program first uses CUDA, gives more",
               self->device.name, queues, MR_GPU_CONNECTIONS, MR_GPU_MOST_CONNECTIONS);
}

/* On a device without priorities both ends of the range are 0, the default for streams. */
static cudaError_t create_handle(cudaStream_t *handle, bool urgent) {
    int least = 0, greatest = 0;
    cudaError_t error = urgent ? cudaDeviceGetStreamPriorityRange(&least, &greatest) : cudaSuccess;
    return error ? error : cudaStreamCreateWithPriority(handle, cudaStreamNonBlocking, greatest);
}

static int create(mr_device *device, bool urgent, mr_stream **stream) {
    int status = mr_cuda_use(device);
    if (status)
        return status;
    cuda_stream *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "%s: no memory for a stream", device->name);
    made->stream.device = device;
    made->launches.graphs = ((cuda_device *)device)->graphs;
    made->launches.refused = &((cuda_device *)device)->refused;
    cudaError_t error = create_handle(&made->handle, urgent);
    if (error)
        status = mr_cuda_failed(device, error, "create a stream");
    count_stream((cuda_device *)device);
    if (!status)
        status = mr_cuda_widen_events(&made->waited, 1);
    if (!status)
        status = mr_cuda_widen_events(&made->taken, 1);
    if (!status)
        status = mr_cuda_reserve_records((cuda_device *)device, RESERVED);
    if (status) {
        mr_cuda_stream_destroy(&made->stream);
        return status;
    }
    *stream = &made->stream;
    return MR_OK;
}

int mr_cuda_stream_create(mr_device *device, mr_stream **stream) {
    return create(device, false, stream);
}

int mr_cuda_stream_create_urgent(mr_device *device, mr_stream **stream) {
    return create(device, true, stream);
}

/* The handle NULL is that of all streams that are not made with cudaStreamNonBlocking. */
static void finish(cuda_stream *stream) {
    mr_cuda_trace_end(&stream->piece, &stream->stream, stream->handle);
    cudaStreamSynchronize(stream->handle);
    mr_cuda_launches_fini(&stream->launches);
    cudaFree(stream->scratch);
    cudaStreamDestroy(stream->handle);
    cudaGetLastError();
}

/* Work that could not be recorded; the device is done with it by now. */
static void give_up_taken(cuda_stream *stream) {
    for (size_t i = 0; i < stream->taken.count; i++)
        mr_event_complete(stream->taken.event[i], MR_ERROR_DEVICE);
    mr_cuda_forget_events(&stream->taken);
}

void mr_cuda_stream_destroy(mr_stream *stream) {
    cuda_stream *gone = (cuda_stream *)stream;
    cuda_device *self = (cuda_device *)stream->device;
    mr_cuda_use(&self->device);
    if (gone->handle) {
        mr_cuda_flush(gone);
        finish(gone);
    }
    pthread_mutex_lock(&self->lock);
    while (gone->pending)
        pthread_cond_wait(&self->changed, &self->lock);
    pthread_mutex_unlock(&self->lock);
    give_up_taken(gone);
    mr_cuda_finish_work(&gone->work);
    pthread_mutex_lock(&self->lock);
    self->streams--;
    mr_cuda_recycle_work(self, &gone->work);
    pthread_mutex_unlock(&self->lock);
    mr_cuda_forget_events(&gone->waited);
    mr_free(gone->waited.event);
    mr_free(gone->taken.event);
    mr_free(gone);
}

/* ---- for kernels ------------------------------------------------------------------------------------------------- */

int mr_cuda_launch(mr_stream *stream, mr_cuda_launch_function *function, const void *arguments, size_t bytes,
                   int calls) {
    cuda_stream *self = (cuda_stream *)stream;
    stream->unrecorded++;
    return mr_cuda_launches_add(&self->launches, function, arguments, bytes, calls);
}

mr_cuda_graph_counts mr_cuda_graph_count(const mr_stream *stream) {
    return ((const cuda_stream *)stream)->launches.counts;
}

int mr_cuda_enter(mr_stream *stream, void **handle) {
    int status = mr_cuda_flush((cuda_stream *)stream);
    *handle = ((cuda_stream *)stream)->handle;
    ((cuda_stream *)stream)->given = true;
    if (!status)
        trace_work((cuda_stream *)stream);
    stream->unrecorded++; /* Work that bypasses this header is not counted otherwise. */
    return status;
}

/* At least doubled, so that slowly growing needs grow it seldom. */
static cudaError_t grow(cuda_stream *self, size_t bytes) {
    size_t room = bytes > 2 * self->scratch_bytes ? bytes : 2 * self->scratch_bytes;
    cudaError_t error = self->scratch ? cudaFreeAsync(self->scratch, self->handle) : cudaSuccess;
    self->scratch = NULL;
    self->scratch_bytes = 0;
    if (!error)
        error = cudaMallocAsync(&self->scratch, room, self->handle);
    if (!error)
        self->scratch_bytes = room;
    return error;
}

int mr_cuda_scratch(mr_stream *stream, size_t bytes, void **data) {
    cuda_stream *self = (cuda_stream *)stream;
    cudaError_t error = cudaSuccess;
    self->given = true;
    if (bytes > self->scratch_bytes) {
        /* Deferred launches still use the old memory. */
        int status = mr_cuda_flush(self);
        if (status)
            return status;
        error = grow(self, bytes);
    }
    *data = self->scratch;
    return error ? mr_cuda_failed(stream->device, error, "allocate scratch memory") : MR_OK;
}
