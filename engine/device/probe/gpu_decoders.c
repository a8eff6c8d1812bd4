/* The formats that a GPU's video decoder accepts, as the decoder library reports them. */
#include <string.h>

#include "engine/device/probe/gpu.h"
#include "millrace/status.h"

/* cudaVideoCodec in order, as libavcodec calls them. Those without a separate decoder name are omitted. */
static const char *const codecs[MR_GPU_CODECS] = {"mpeg1video", "mpeg2video", "mpeg4", "vc1", "h264", "mjpeg",
                                                  NULL,         NULL,         "hevc",  "vp8", "vp9",  "av1"};

const char *mr_gpu_codec_name(int codec) {
    return codecs[codec];
}

static bool can_ask(const mr_gpu_access *access) {
    return access->has_driver && access->cuvidGetDecoderCaps && access->cuDevicePrimaryCtxRetain &&
           access->cuDevicePrimaryCtxRelease && access->cuCtxPushCurrent && access->cuCtxPopCurrent;
}

static void ask(const mr_gpu_access *access, int codec, int chroma, int depth, mr_gpu_decoder *answer) {
    mr_nvdec_caps caps = {.codec = codec, .chroma = chroma, .depth_minus_8 = 2 * (unsigned)depth};
    if (access->cuvidGetDecoderCaps(&caps) || !caps.supported)
        return;
    *answer = (mr_gpu_decoder){.supported = true,
                               .min_width = caps.min_width,
                               .min_height = caps.min_height,
                               .max_width = caps.max_width,
                               .max_height = caps.max_height,
                               .max_macroblocks = caps.max_macroblocks};
}

/* The decoder answers for the current context only. */
int mr_gpu_read_decoders(const mr_gpu_access *access, int index, mr_gpu_decoders *found) {
    void *context = NULL;
    int device = 0;
    *found = (mr_gpu_decoders){0};
    if (!can_ask(access) || access->cuInit(0) || access->cuDeviceGet(&device, index) ||
        access->cuDevicePrimaryCtxRetain(&context, device))
        return mr_fail(MR_ERROR_UNAVAILABLE, "cuda:%d the formats of its decoder cannot be read", index);
    bool current = !access->cuCtxPushCurrent(context);
    for (int codec = 0; codec < MR_GPU_CODECS && current; codec++)
        for (int chroma = 0; chroma < MR_GPU_CHROMAS; chroma++)
            for (int depth = 0; depth < MR_GPU_DEPTHS; depth++)
                ask(access, codec, chroma, depth, &found->of[codec][chroma][depth]);
    if (current)
        access->cuCtxPopCurrent(&context);
    access->cuDevicePrimaryCtxRelease(device);
    return current ? MR_OK : mr_fail(MR_ERROR_UNAVAILABLE, "cuda:%d has no context to be asked in", index);
}

const mr_gpu_decoder *mr_gpu_decoder_for(const mr_gpu_decoders *decoders, const char *codec, int chroma, int depth) {
    static const mr_gpu_decoder none;
    /* Windows Media Video 9 is VC-1 in another container. */
    const char *name = strcmp(codec, "wmv3") == 0 ? "vc1" : codec;
    if (depth < 8 || depth > 12 || depth % 2)
        return &none;
    for (int i = 0; i < MR_GPU_CODECS; i++)
        if (codecs[i] && strcmp(codecs[i], name) == 0)
            return &decoders->of[i][chroma][(depth - 8) / 2];
    return NULL;
}
