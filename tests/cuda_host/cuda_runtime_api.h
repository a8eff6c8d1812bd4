/* Two CUDA devices imitated by the host's processor, for tests of the kernels' source and the code around them without
 * a GPU. This header replaces the toolkit's header with the same name and declares what the engine, kernels and tests
 * use. Every launch runs each thread in the grid, block after block, and switches between a block's threads at
 * barriers. So arithmetic, indices and barriers are the real source's; nvcc and a GPU are not tested.
 *
 * Work is done when a call returns; events are done when they are recorded. A block's threads run in ascending order in
 * one launch and in descending order in the next: a missing barrier shows as a difference. Allocated device memory is
 * filled with 0xcd, and ends exactly, for the address sanitizer. Launches from several threads take turns. */
#ifndef MILLRACE_TESTS_CUDA_HOST_H
#define MILLRACE_TESTS_CUDA_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000
#define CUDART_CB

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorStreamCaptureUnsupported = 900
} cudaError_t;
typedef enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
} cudaMemcpyKind;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef void (*cudaHostFn_t)(void *context);
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeThreadLocal = 1 };
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    int major, minor, l2CacheSize;
};
enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeHost = 1, cudaMemoryTypeDevice = 2 };
struct cudaPointerAttributes {
    enum cudaMemoryType type;
    int device;
};
struct cudaArray;
struct cudaPos {
    size_t x, y, z;
};
struct cudaPitchedPtr {
    void *ptr;
    size_t pitch, xsize, ysize;
};
struct cudaExtent {
    size_t width, height, depth;
};
struct cudaMemcpy3DPeerParms {
    struct cudaArray *srcArray;
    struct cudaPos srcPos;
    struct cudaPitchedPtr srcPtr;
    int srcDevice;
    struct cudaArray *dstArray;
    struct cudaPos dstPos;
    struct cudaPitchedPtr dstPtr;
    int dstDevice;
    struct cudaExtent extent;
};
enum { cudaHostAllocPortable = 1, cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int other);
cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned flags);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *about, int device);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaMalloc(void **data, size_t bytes);
cudaError_t cudaFree(void *data);
cudaError_t cudaMallocAsync(void **data, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *data, cudaStream_t stream);
cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *data);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes,
                              size_t rows, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *copy, cudaStream_t stream);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *about, const void *data);
cudaError_t cudaMemset(void *to, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *context);
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);

/* ---- for tests --------------------------------------------------------------------------------------------------- */

/* Calls so far: those that allocate, free or create; those that wait, and copies with unpinned memory, for which the
 * real runtime makes the caller wait; copies from the host to devices and back; host functions; kernels and memsets
 * launched one by one; graphs; and events recorded, waited for by a stream, and queried. */
typedef struct mr_host_counts {
    unsigned long long allocations, waits, pageable, uploads, downloads, host_functions, launches, graphs, records,
        stream_waits, queries;
} mr_host_counts;
mr_host_counts mr_host_count(void);
/* From now on, this device's work with that number fails, whether kernel, copy or host function. Then every call for
 * the device fails, until this is called with 0. */
void mr_host_break(int device, long after);
/* From now on no kernel is launched, as if none were compiled for the device, until it is called with false. */
void mr_host_lack_kernels(bool lacking);
/* What the devices and the driver are from now on: a compute capability (90: 9.0; 0: the newest that the build has
 * kernels for, 90 if it is without CUDA), and the newest CUDA that it runs (0: there is no driver). At first 0 and
 * CUDART_VERSION. */
void mr_host_be(int capability, int driver);
/* Sets whether devices know stream priorities, as they do at first. Counts streams, and those with the highest
 * priority. */
void mr_host_have_priorities(bool have);
int mr_host_streams(bool urgent);
/* From now on no event is done, until it is called with false. */
void mr_host_hold(bool held);
/* How many events were asked for since then, each counted once. */
int mr_host_asked(void);
/* From now on who asks for an event gets no answer, until it is called with false, but at most for some seconds; and
 * whether somebody waits for one. */
void mr_host_stall(bool stalled);
bool mr_host_is_stalled(void);
/* How often access from one device to the other's memory was enabled. */
int mr_host_peers(int device, int other);
/* From now on nothing can be recorded as a graph, until it is called with false. */
void mr_host_refuse_capture(bool refused);
/* Graphs that can be launched and were not destroyed. */
int mr_host_graphs(void);

#ifdef __cplusplus
}

#include <functional>
#include <math.h>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __shared__ static /* blocks run one after the other */

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned across = 1, unsigned down = 1, unsigned deep = 1) : x(across), y(down), z(deep) {}
};
/* For the current thread. */
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

#define __launch_bounds__(...)
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

void __syncthreads();
uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector);
/* Whole words are read where they stand aligned, as a device has it: UBSan sees one that does not. */
template <typename T> static inline T __ldcs(const T *from) {
    return *from;
}
static inline uint32_t __float_as_uint(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline int min(int a, int b) {
    return a < b ? a : b;
}
static inline int max(int a, int b) {
    return a > b ? a : b;
}
static inline uint32_t __umulhi(uint32_t a, uint32_t b) {
    return (uint32_t)((uint64_t)a * b >> 32);
}
static inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t shift) {
    return (uint32_t)(((uint64_t)high << 32 | low) >> (shift & 31));
}
template <typename T> static inline T atomicAdd(T *to, T value) {
    T old = *to;
    *to = old + value;
    return old;
}

/* The block's shared memory, with the launch's size. */
void *mr_host_shared();
/* Whether there are kernels for the device; else that is the thread's last error. */
bool mr_host_can_launch();
/* Runs the work at once, or adds it to the graph that the stream is recorded to. */
void mr_host_do(void *stream, std::function<void()> work);
/* Calls thread(context) as each thread in the grid. */
void mr_host_launch(dim3 grid, dim3 block, size_t shared_bytes, void (*thread)(void *context), void *context);

template <typename F> static void mr_host_call(void *context) {
    (*static_cast<F *>(context))();
}
/* The arguments are copied, as a launch does. */
template <typename... P, typename... A>
static void mr_host_run(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, void *stream,
                        A &&...arguments) {
    std::tuple<std::decay_t<P>...> copies(arguments...);
    if (!mr_host_can_launch())
        return;
    mr_host_do(stream, [=] {
        auto body = [&] { std::apply(kernel, copies); };
        mr_host_launch(grid, block, shared_bytes, mr_host_call<decltype(body)>, &body);
    });
}
#define MR_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                      \
    mr_host_run(kernel, (grid), (block), (shared_bytes), (void *)(stream), __VA_ARGS__)
#define MR_DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(mr_host_shared())
#endif
#endif
