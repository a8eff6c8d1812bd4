/* The place of NVDEC in a build without CUDA. */
#include "millrace/status.h"
#include "stages/decode/decode_nvdec.h"

int mr_nvdec_check(void) {
    return mr_fail(MR_ERROR_UNAVAILABLE, "this build of millrace has no CUDA, and so no NVDEC");
}

int mr_nvdec_device(AVBufferRef **device, mr_stream *stream) {
    (void)stream;
    *device = NULL;
    return mr_nvdec_check();
}
