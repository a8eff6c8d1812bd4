/* Replaces NVDEC and NVENC in a build without CUDA. */
#include "millrace/status.h"
#include "stages/media/media_cuda.h"

int mr_nvdec_check(void) {
    return mr_fail(MR_ERROR_UNAVAILABLE, "this build of millrace has no CUDA, and so no NVDEC");
}

int mr_nvenc_check(void) {
    return mr_fail(MR_ERROR_UNAVAILABLE, "this build of millrace has no CUDA, and so no NVENC");
}

int mr_av_cuda_device(AVBufferRef **device, mr_stream *stream) {
    *device = NULL;
    return mr_fail(MR_ERROR_UNAVAILABLE, "this build of millrace has no CUDA");
}
