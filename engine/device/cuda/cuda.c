/* CUDA devices, through the runtime, which is linked statically: a program starts with and without a driver. The
 * primary context is used as it is and never reset: libraries share it. */
#include "engine/device/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/device/pixel_memory.h"
#include "engine/device/cuda/cuda_record.h"
#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/cuda/cuda_use.h"
#include "engine/device/probe/gpu.h"
#include "millrace/log.h"

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static int cuda_allocate(mr_device *device, mr_memory memory, size_t bytes, void **data) {
    size_t at_least_one = bytes ? bytes : 1;
    *data = NULL;
    if (memory == MR_MEMORY_HOST) {
        *data = mr_alloc_pixels(at_least_one);
        return *data ? MR_OK : mr_fail(MR_ERROR_MEMORY, "%s: no memory for %zu bytes", device->name, bytes);
    }
    int status = mr_cuda_use(device);
    if (status)
        return status;
    cudaError_t error = memory == MR_MEMORY_PINNED ? cudaHostAlloc(data, at_least_one, cudaHostAllocPortable)
                                                   : cudaMalloc(data, at_least_one);
    return error ? mr_cuda_failed(device, error, memory == MR_MEMORY_PINNED ? "pin host memory" : "allocate memory")
                 : MR_OK;
}

static void cuda_free(mr_device *device, mr_memory memory, void *data) {
    if (memory == MR_MEMORY_HOST) {
        mr_free(data);
        return;
    }
    if (mr_cuda_use(device))
        return;
    cudaError_t error = memory == MR_MEMORY_PINNED ? cudaFreeHost(data) : cudaFree(data);
    if (error)
        mr_cuda_failed(device, error, "free memory");
}

static bool cuda_is_pinned(mr_device *device, const void *data) {
    struct cudaPointerAttributes about = {0};
    if (mr_cuda_use(device))
        return false;
    bool pinned = !cudaPointerGetAttributes(&about, data) && about.type == cudaMemoryTypeHost;
    cudaGetLastError();
    return pinned;
}

/* ---- the device ------------------------------------------------------------------------------------------------- */

static void free_unused(cuda_device *self) {
    while (self->unused_records) {
        cuda_record *gone = self->unused_records;
        self->unused_records = gone->next;
        cudaEventDestroy(gone->point);
        mr_free(gone->waited.event);
        mr_free(gone->events.event);
        mr_cuda_launches_fini(&gone->launches);
        mr_free(gone);
    }
    while (self->unused_work) {
        cuda_work *gone = self->unused_work;
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
    if (self->late)
        cudaStreamDestroy(self->late);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
    mr_free(self);
}

static const mr_device_type cuda_type = {
    .kind = MR_DEVICE_CUDA,
    .allocate = cuda_allocate,
    .free = cuda_free,
    .is_pinned = cuda_is_pinned,
    .stream_create = mr_cuda_stream_create,
    .stream_create_urgent = mr_cuda_stream_create_urgent,
    .stream_destroy = mr_cuda_stream_destroy,
    .submit = mr_cuda_submit,
    .copy_rows = mr_cuda_copy_rows,
    .record = mr_cuda_record,
    .wait = mr_cuda_wait,
    .hand_on = mr_cuda_hand_on,
    .settle = mr_cuda_settle,
    .range_begin = mr_cuda_range_begin,
    .range_end = mr_cuda_range_end,
    .destroy = cuda_destroy,
};

/* A driver that is too old gives the same error as a missing one. */
static int refuse_driver(int index) {
    int driver = 0;
    if (cudaDriverGetVersion(&driver) || driver == 0)
        return mr_fail(MR_ERROR_UNAVAILABLE,
                       "cuda:%d: this machine has no NVIDIA driver; \"millrace devices\" says more", index);
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "cuda:%d: the NVIDIA driver supports CUDA up to %d.%d, but this build uses CUDA %d.%d; \"millrace "
                   "devices\" says which driver is needed",
                   index, driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

/* Reports what is missing: a driver, any device, or this one. */
static int find_device(int index) {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    cudaGetLastError();
    if (error == cudaErrorInsufficientDriver)
        return refuse_driver(index);
    if (error == cudaErrorNoDevice)
        return mr_fail(MR_ERROR_UNAVAILABLE, "cuda:%d: the NVIDIA driver finds no device", index);
    if (error)
        return mr_fail(MR_ERROR_DEVICE, "cuda:%d: cannot count devices: %s", index, cudaGetErrorString(error));
    if (index >= count)
        return mr_fail(MR_ERROR_UNAVAILABLE, "cuda:%d: this machine has %d CUDA device%s, numbered from 0", index,
                       count, count == 1 ? "" : "s");
    return MR_OK;
}

/* Whether there are kernels for it; no other error tells before the first of them is to run. */
static int check_code(int index, const struct cudaDeviceProp *about) {
    const int *architectures = mr_gpu_architectures();
    char list[128];
    if (!architectures[0] || mr_gpu_has_code(architectures, 10 * about->major + about->minor))
        return MR_OK;
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "cuda:%d: its compute capability is %d.%d, and this build has kernels for %s; configure it "
                   "with -DMILLRACE_CUDA_ARCHITECTURES=%d%d",
                   index, about->major, about->minor, mr_gpu_print_architectures(architectures, list, sizeof list),
                   about->major, about->minor);
}

static int ask(int index, struct cudaDeviceProp *about) {
    int status = find_device(index);
    if (status)
        return status;
    cudaError_t error = cudaGetDeviceProperties(about, index);
    cudaGetLastError();
    return error ? mr_fail(MR_ERROR_DEVICE, "cuda:%d: its properties cannot be read: %s", index,
                           cudaGetErrorString(error))
                 : check_code(index, about);
}

int mr_cuda_probe(int index, uint64_t *memory_bytes) {
    struct cudaDeviceProp about = {0};
    int status = ask(index, &about);
    *memory_bytes = about.totalGlobalMem;
    return status;
}

int mr_cuda_capability(int index) {
    struct cudaDeviceProp about = {0};
    return ask(index, &about) ? 0 : 10 * about.major + about.minor;
}

mr_cuda_facts mr_cuda_about(const mr_device *device) {
    return ((const cuda_device *)device)->facts;
}

/* Graphs do the same as launches, so this is for comparing the two, and for tools that need to see launches. */
static bool wants_graphs(void) {
    const char *said = getenv("MILLRACE_CUDA_GRAPHS");
    return !said || strcmp(said, "0") != 0;
}

/* The driver's default number of queues if the program does not set one; 0 if it does. */
static int queues_unsaid(void) {
    enum { UNSAID = 8 };
    return getenv(MR_GPU_CONNECTIONS) ? 0 : UNSAID;
}

int mr_cuda_create(mr_device **device, int index) {
    struct cudaDeviceProp about = {0};
    *device = NULL;
    int status = ask(index, &about);
    if (status)
        return status;
    cuda_device *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for cuda:%d", index);
    made->device = (mr_device){.type = &cuda_type, .index = index};
    snprintf(made->device.name, sizeof made->device.name, "cuda:%d", index);
    made->facts.capability = 10 * about.major + about.minor;
    snprintf(made->facts.model, sizeof made->facts.model, "%.63s", about.name);
    made->graphs = wants_graphs();
    made->queues = queues_unsaid();
    made->arrived_end = &made->arrived;
    made->timeline = (mr_cuda_timeline){.lock = &made->lock, .device = &made->device};
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    mr_cuda_meet_others(index);
    status = mr_cuda_use(&made->device);
    if (status)
        goto fail;
    cudaError_t error = cudaStreamCreateWithFlags(&made->late, cudaStreamNonBlocking);
    if (error) {
        status = mr_cuda_failed(&made->device, error, "create a stream");
        goto fail;
    }
    const int refused = mr_thread_create(&made->thread, mr_cuda_ask, made);
    if (refused) {
        status = mr_thread_fail(refused, "the thread of %s", made->device.name);
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
