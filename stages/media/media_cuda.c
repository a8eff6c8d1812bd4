#include "stages/media/media_cuda.h"

#include <dlfcn.h>
#include <libavutil/hwcontext.h>
#include <libavutil/hwcontext_cuda.h>

#include "engine/device/cuda/cuda.h"
#include "millrace/status.h"
#include "stages/media/media_input.h"

static int check(const char *what, const char *name) {
    void *library = dlopen(name, RTLD_LAZY);
    if (!library)
        return mr_fail(MR_ERROR_UNAVAILABLE,
                       "%s's library %s was not found; it comes with the NVIDIA driver (in containers only with "
                       "NVIDIA_DRIVER_CAPABILITIES=compute,video,utility)", what, name);
    dlclose(library);
    return MR_OK;
}

int mr_nvdec_check(void) {
    return check("NVDEC", "libnvcuvid.so.1");
}

int mr_nvenc_check(void) {
    return check("NVENC", "libnvidia-encode.so.1");
}

/* The CUDA context that this thread's runtime uses: the device's primary one. The runtime has loaded the driver. */
static CUcontext current_context(void) {
    CUcontext context = NULL;
    CUresult (*get_current)(CUcontext *);
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    *(void **)&get_current = driver ? dlsym(driver, "cuCtxGetCurrent") : NULL;
    if (get_current && get_current(&context) != CUDA_SUCCESS)
        context = NULL;
    if (driver)
        dlclose(driver);
    return context;
}

int mr_av_cuda_device(AVBufferRef **device, mr_stream *stream) {
    void *handle = NULL;
    int status = mr_cuda_enter(stream, &handle);
    if (status)
        return status;
    CUcontext context = current_context();
    if (!context)
        return mr_fail(MR_ERROR_DEVICE, "%s has no CUDA context for libavcodec", stream->device->name);
    AVBufferRef *made = av_hwdevice_ctx_alloc(AV_HWDEVICE_TYPE_CUDA);
    if (!made)
        return mr_fail(MR_ERROR_UNAVAILABLE, "this libavutil was built without CUDA devices");
    AVCUDADeviceContext *cuda = ((AVHWDeviceContext *)(void *)made->data)->hwctx;
    cuda->cuda_ctx = context;
    cuda->stream = handle;
    int error = av_hwdevice_ctx_init(made);
    if (error < 0) {
        av_buffer_unref(&made);
        return mr_fail(MR_ERROR_UNAVAILABLE, "libavutil cannot use %s: %s", stream->device->name, mr_av_words(error));
    }
    *device = made;
    return MR_OK;
}
