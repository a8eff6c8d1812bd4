/* Stands in for libnvcuvid.so.1: the decoder of cuda:0 takes H.264 4:2:0 of 8 bits from 48x16 to 4096x4096, of at most
 * 65536 macroblocks, and HEVC 4:2:0 and 4:4:4 of 8 and 10 bits up to 8192x8192; that of cuda:1 takes VC-1 alone.
 * Without a current context nobody is told anything. */
#include <string.h>

#include "engine/device/gpu.h"

enum { VC1 = 3, H264 = 4, HEVC = 8, NO_CONTEXT = 201 };

int cuCtxGetCurrent(void **context);
int cuvidGetDecoderCaps(mr_nvdec_caps *caps);

static int takes(int device, const mr_nvdec_caps *caps) {
    if (device == 1)
        return caps->codec == VC1 && caps->chroma == MR_GPU_420 && caps->depth_minus_8 == 0;
    if (caps->codec == H264)
        return caps->chroma == MR_GPU_420 && caps->depth_minus_8 == 0;
    return caps->codec == HEVC && (caps->chroma == MR_GPU_420 || caps->chroma == MR_GPU_444) &&
           caps->depth_minus_8 <= 2;
}

int cuvidGetDecoderCaps(mr_nvdec_caps *caps) {
    void *context = NULL;
    if (cuCtxGetCurrent(&context) || !context)
        return NO_CONTEXT;
    caps->supported = (unsigned char)takes(*(const int *)context, caps);
    caps->min_width = 48;
    caps->min_height = 16;
    caps->max_width = caps->max_height = caps->codec == HEVC ? 8192 : 4096;
    caps->max_macroblocks = caps->max_width * caps->max_height / 256;
    return 0;
}
