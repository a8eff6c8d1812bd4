/* Functions that FFmpeg looks up in libcuda.so.1 before it uses any. They extend fakes/cuda.c. While pictures stay in
 * place, FFmpeg only needs those for memory, which is on the host. */
#include <stdint.h>
#include <stdlib.h>

enum { NOT_SUPPORTED = 801 };

#define MORE(X) \
    X(cuArray3DCreate_v2) X(cuArrayDestroy) X(cuCtxCreate_v2) X(cuCtxDestroy_v2) X(cuCtxGetDevice)                   \
    X(cuCtxSetLimit) X(cuDestroyExternalMemory) X(cuDestroyExternalSemaphore) X(cuDeviceComputeCapability)           \
    X(cuDeviceGetName) X(cuDevicePrimaryCtxGetState) X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxReset)         \
    X(cuDevicePrimaryCtxSetFlags) X(cuEGLStreamConsumerDisconnect) X(cuEGLStreamProducerConnect)                     \
    X(cuEGLStreamProducerDisconnect) X(cuEGLStreamProducerPresentFrame) X(cuEGLStreamProducerReturnFrame)            \
    X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventQuery) X(cuEventRecord) X(cuEventSynchronize)                     \
    X(cuExternalMemoryGetMappedBuffer) X(cuExternalMemoryGetMappedMipmappedArray) X(cuGLGetDevices_v2)               \
    X(cuGraphicsGLRegisterImage) X(cuGraphicsMapResources) X(cuGraphicsResourceGetMappedPointer_v2)                  \
    X(cuGraphicsSubResourceGetMappedArray) X(cuGraphicsUnmapResources) X(cuGraphicsUnregisterResource)               \
    X(cuImportExternalMemory) X(cuImportExternalSemaphore) X(cuLaunchKernel) X(cuLinkAddData) X(cuLinkComplete)      \
    X(cuLinkCreate) X(cuLinkDestroy) X(cuMemAllocManaged) X(cuMemAllocPitch_v2)                                      \
    X(cuMemcpy) X(cuMemcpy2DAsync_v2) X(cuMemcpy2D_v2) X(cuMemcpyAsync) X(cuMemcpyDtoDAsync_v2)                      \
    X(cuMemcpyDtoD_v2) X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyHtoD_v2)         \
    X(cuMemsetD8Async) X(cuMipmappedArrayDestroy) X(cuMipmappedArrayGetLevel) X(cuModuleGetFunction)                 \
    X(cuModuleGetGlobal) X(cuModuleLoadData) X(cuModuleUnload) X(cuSignalExternalSemaphoresAsync)                    \
    X(cuStreamAddCallback) X(cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamQuery) X(cuStreamSynchronize)           \
    X(cuTexObjectCreate) X(cuTexObjectDestroy) X(cuWaitExternalSemaphoresAsync)

#define X(name)                                                                                                        \
    int name(void);                                                                                                    \
    int name(void) {                                                                                                   \
        return NOT_SUPPORTED;                                                                                          \
    }
MORE(X)
#undef X

int cuMemAlloc_v2(unsigned long long *data, size_t bytes);
int cuMemFree_v2(unsigned long long data);

int cuMemAlloc_v2(unsigned long long *data, size_t bytes) {
    enum { OUT_OF_MEMORY = 2 };
    void *made = malloc(bytes);
    *data = (unsigned long long)(uintptr_t)made;
    return made ? 0 : OUT_OF_MEMORY;
}

int cuMemFree_v2(unsigned long long data) {
    free((void *)(uintptr_t)data);
    return 0;
}

int cuGetErrorName(int error, const char **text);
int cuGetErrorString(int error, const char **text);

int cuGetErrorName(int error, const char **text) {
    *text = "an error";
    return 0;
}

int cuGetErrorString(int error, const char **text) {
    return cuGetErrorName(error, text);
}
