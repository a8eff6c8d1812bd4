#include "stages/encode/encode_nvenc.h"

#include <libavutil/opt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Minimum surfaces (libavcodec's minimum); with reordering, four for each picture between two P pictures, of which no
 * preset has more than four. */
enum { FEW_SURFACES = 4, MANY_SURFACES = 16 };

#define IN(pixel) MR_IN_SET(MR_PIXEL_##pixel)

static const struct {
    const char *encoder;
    uint32_t pixels;
    bool even;
} codecs[MR_CODECS] = {
    [MR_CODEC_H264] = {"h264_nvenc", IN(NV12) | IN(I420) | IN(I444), true},
    [MR_CODEC_HEVC] = {"hevc_nvenc", IN(NV12) | IN(I420) | IN(I444) | IN(P010), true},
    [MR_CODEC_AV1] = {"av1_nvenc", IN(NV12) | IN(I420) | IN(P010), true},
};

const char *mr_nvenc_name(int codec) {
    return codecs[codec].encoder;
}

static const char *first_name(uint32_t pixels) {
    int pixel = MR_PIXEL_ANY + 1;
    while (!(pixels & MR_IN_SET(pixel)))
        pixel++;
    return mr_pixel_describe((mr_pixel)pixel)->name;
}

int mr_nvenc_suits(const mr_encode_params *params, uint32_t pixels) {
    const char *encoder = codecs[params->codec].encoder, *name = mr_encoder_facts_of(params->codec).name;
    if (!encoder)
        return mr_fail(MR_ERROR_CONFIG, "NVENC does not encode %s", name);
    if (pixels && !(pixels & codecs[params->codec].pixels))
        return mr_fail(MR_ERROR_CONFIG, "NVENC takes no pictures of %s for %s", first_name(pixels), name);
    if (params->lossless && params->codec == MR_CODEC_AV1)
        return mr_fail(MR_ERROR_CONFIG, "NVENC has no lossless mode of av1");
    return avcodec_find_encoder_by_name(encoder)
               ? MR_OK
               : mr_fail(MR_ERROR_UNAVAILABLE, "this FFmpeg has no encoder %s", encoder);
}

mr_format mr_nvenc_format(int codec, const mr_format *picture) {
    return mr_encoder_format_in(picture->pixel, codecs[codec].even, picture);
}

int mr_nvenc_surfaces(const mr_encode_params *params) {
    return params->latency == MR_LATENCY_LOW ? FEW_SURFACES : MANY_SURFACES;
}

/* NVIDIA publishes no figure for the driver's memory. It must hold the reference frames that the standards allow, the
 * frame being encoded, and one packet per surface, no larger than the picture. */
int64_t mr_nvenc_bytes(const mr_encode_params *params, const mr_format_set *pictures) {
    enum { REFERENCES = 16, COLUMNS = 256, ROWS = 32 };
    mr_format_set surface = *pictures;
    surface.width.max = (surface.width.max + COLUMNS - 1) / COLUMNS * COLUMNS;
    surface.height.max = (surface.height.max + ROWS - 1) / ROWS * ROWS;
    size_t bytes = mr_format_set_most_bytes(&surface), count = (size_t)(2 * mr_nvenc_surfaces(params) + REFERENCES + 1);
    return bytes && bytes < SIZE_MAX / count ? (int64_t)(count * bytes) : MR_BYTES_UNKNOWN;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void set_quality(AVCodecContext *codec, const mr_encode_params *params) {
    if (params->quality > 0) {
        av_opt_set(codec->priv_data, "rc", "vbr", 0);
        av_opt_set_double(codec->priv_data, "cq", params->quality, 0);
    } else {
        /* To `cq` 0 is "automatic". */
        av_opt_set(codec->priv_data, "rc", "constqp", 0);
        av_opt_set_int(codec->priv_data, "qp", 0, 0);
    }
}

/* As in x264 and x265: an average; with low latency, a limit for each second. */
static void set_bits(AVCodecContext *codec, const mr_encode_params *params) {
    av_opt_set(codec->priv_data, "rc", "vbr", 0);
    codec->bit_rate = params->bits;
    if (params->latency == MR_LATENCY_LOW) {
        codec->rc_max_rate = params->bits;
        codec->rc_buffer_size = (int)params->bits;
    }
}

static void set_options(AVCodecContext *codec, const mr_encode_params *params) {
    static const char *const presets[MR_PRESETS] = {"p1", "p3", "p4", "p6"};
    bool low = params->latency == MR_LATENCY_LOW;
    codec->bit_rate = 0; /* nvenc's own default is 2 Mbit/s */
    av_opt_set(codec->priv_data, "preset", presets[params->preset], 0);
    av_opt_set(codec->priv_data, "tune", params->lossless ? "lossless" : low ? "ull" : "hq", 0);
    av_opt_set_int(codec->priv_data, "forced-idr", 1, 0);
    av_opt_set_int(codec->priv_data, "surfaces", mr_nvenc_surfaces(params), 0);
    if (low) {
        av_opt_set_int(codec->priv_data, "zerolatency", 1, 0);
        av_opt_set_int(codec->priv_data, "delay", 0, 0);
        codec->max_b_frames = 0;
    }
    if (params->bits)
        set_bits(codec, params);
    else if (!params->lossless)
        set_quality(codec, params);
}

/* FFmpeg reports only the driver's text; two common ones need an explanation. */
static int explain(int status) {
    const char *said = mr_message();
    char text[512];
    const char *what = !strstr(said, "OpenEncodeSession")  ? ""
                       : strstr(said, "out of memory")      ? "; the driver has no room for another session: GeForce "
                                                              "GPUs have few of them, for all processes together"
                       : strstr(said, "unsupported device") ? "; this GPU has no NVENC"
                                                            : "";
    snprintf(text, sizeof text, "%s%s", said, what);
    return mr_fail(status, "%s", text);
}

int mr_nvenc_open(AVCodecContext **result, const mr_encode_params *params, const mr_format *format, AVRational rate,
                  AVBufferRef *frames) {
    AVCodecContext *codec = NULL;
    int status = mr_encoder_alloc(&codec, codecs[params->codec].encoder, params, format, rate);
    if (status)
        return status;
    codec->pix_fmt = AV_PIX_FMT_CUDA;
    codec->hw_frames_ctx = av_buffer_ref(frames);
    /* Times are counts, but libavcodec shifts decoding times by whole seconds. */
    codec->time_base = (AVRational){1, (int)fmax(1, round(av_q2d(rate)))};
    set_options(codec, params);
    status = codec->hw_frames_ctx ? mr_encoder_start(&codec, format) : mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (status)
        avcodec_free_context(&codec);
    *result = codec;
    return status ? explain(status) : MR_OK;
}
