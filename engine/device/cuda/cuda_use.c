#include "engine/device/cuda/cuda_use.h"

#include <pthread.h>
#include <stdatomic.h>

#include "millrace/log.h"
#include "millrace/status.h"

/* ---- errors ----------------------------------------------------------------------------------------------------- */

int mr_cuda_failed(const mr_device *device, cudaError_t error, const char *what) {
    /* The runtime would answer the next, innocent call with the error of this one. */
    cudaGetLastError();
    int status = error == cudaErrorMemoryAllocation ? MR_ERROR_MEMORY : MR_ERROR_DEVICE;
    return mr_fail(status, "%s: cannot %s: %s", device->name, what, cudaGetErrorString(error));
}

/* A library that records a graph on one thread can forbid calls on all other threads that could disturb it, even event
 * queries. This thread's calls concern only its streams. */
static void leave_others_alone(void) {
    static _Thread_local bool done;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    if (!done && cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess)
        done = true;
}

int mr_cuda_use(const mr_device *device) {
    leave_others_alone();
    cudaError_t error = cudaSetDevice(device->index);
    return error ? mr_cuda_failed(device, error, "be used") : MR_OK;
}

/* ---- other devices ---------------------------------------------------------------------------------------------- */

enum { PEERS = 64 };

static pthread_mutex_t peers_lock = PTHREAD_MUTEX_INITIALIZER;
static bool opened[PEERS]; /* at any time by this process */
static atomic_int opened_count;

bool mr_cuda_has_several(void) {
    return atomic_load_explicit(&opened_count, memory_order_relaxed) > 1;
}

/* Copies from one device to the other take the direct way from now on, if there is one; else the driver brings them
 * through the host. The thread's current device becomes `device`. */
static void reach(int device, int other) {
    int can = 0;
    cudaSetDevice(device);
    cudaError_t error = cudaDeviceCanAccessPeer(&can, device, other);
    if (!error && can)
        error = cudaDeviceEnablePeerAccess(other, 0);
    if (error && error != cudaErrorPeerAccessAlreadyEnabled)
        mr_log(MR_LOG_WARNING, "cuda:%d cannot reach the memory of cuda:%d, so copies go through the host: %s", device,
               other, cudaGetErrorString(error));
    cudaGetLastError();
}

/* Only devices that are in use: reaching one takes memory there. */
void mr_cuda_meet_others(int index) {
    pthread_mutex_lock(&peers_lock);
    for (int other = 0; other < PEERS && index < PEERS && !opened[index]; other++) {
        if (!opened[other])
            continue;
        reach(other, index);
        reach(index, other);
    }
    if (index >= PEERS || !opened[index])
        atomic_fetch_add_explicit(&opened_count, 1, memory_order_relaxed);
    if (index < PEERS)
        opened[index] = true;
    pthread_mutex_unlock(&peers_lock);
}
