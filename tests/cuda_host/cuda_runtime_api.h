/* Two CUDA devices made of the host's processor, for tests of the kernels' source and of the code around them where there is no
 * GPU. It stands before the toolkit's header of this name: what the engine, the kernels and their tests use of it is declared
 * here, and every launch runs each thread of the grid, block after block, switching between the threads of a block at
 * barriers. So the arithmetic, the indices and the barriers are those of the real source; what nvcc and a GPU make of it
 * is not tested.
 *
 * Work is done when a call returns; events are done when they are recorded. A block's threads run in ascending order in
 * one launch and in descending order in the next: a missing barrier shows as a difference. Device memory is filled with
 * 0xcd when it is allocated, and ends where it ends, for the address sanitizer. Launches of several threads take turns. */
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
    cudaErrorNotReady = 600,
    cudaErrorPeerAccessAlreadyEnabled = 704
} cudaError_t;
typedef enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
} cudaMemcpyKind;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef void (*cudaHostFn_t)(void *context);
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
};
enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeHost = 1, cudaMemoryTypeDevice = 2 };
struct cudaPointerAttributes {
    enum cudaMemoryType type;
    int device;
};
enum { cudaHostAllocPortable = 1, cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };

cudaError_t cudaGetDeviceCount(int *count);
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
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes, size_t rows,
                              cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *about, const void *data);
cudaError_t cudaMemset(void *to, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
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

/* ---- for tests ---------------------------------------------------------------------------------------------------- */

/* From now on no event is done, until it is called with false. */
void mr_host_hold(bool held);
/* How often access from one device to the other's memory was enabled. */
int mr_host_peers(int device, int other);

#ifdef __cplusplus
}

#include <math.h>

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __shared__ static /* blocks run one after the other */

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned across = 1, unsigned down = 1, unsigned deep = 1) : x(across), y(down), z(deep) {}
};
/* Of the thread that runs now. */
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();
uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector);
template <typename T> static inline T atomicAdd(T *to, T value) {
    T old = *to;
    *to = old + value;
    return old;
}

/* The block's own memory of the size that the launch tells. */
void *mr_host_shared();
/* Calls thread(context) as each thread of the grid. */
void mr_host_launch(dim3 grid, dim3 block, size_t shared_bytes, void (*thread)(void *context), void *context);

template <typename F> static void mr_host_call(void *context) {
    (*static_cast<F *>(context))();
}
template <typename F> static void mr_host_run(dim3 grid, dim3 block, size_t shared_bytes, F body) {
    mr_host_launch(grid, block, shared_bytes, mr_host_call<F>, &body);
}
#define MR_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                      \
    ((void)(stream), mr_host_run((grid), (block), (shared_bytes), [&] { kernel(__VA_ARGS__); }))
#define MR_DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(mr_host_shared())
#endif
#endif
