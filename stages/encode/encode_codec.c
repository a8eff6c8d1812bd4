#include "stages/encode/encode_codec.h"

#include <libavutil/opt.h>
#include <math.h>
#include <stdio.h>

#include "stages/media/media_input.h"
#include "stages/media/picture_format.h"

/* No automatic key frames: encode.c requests each one. */
enum { NO_KEY_DISTANCE = 1 << 24 };

#define IN(pixel) MR_IN_SET(MR_PIXEL_##pixel)
#define PLANAR (IN(I420) | IN(I422) | IN(I444))
#define PLANAR_10 (IN(I420_10) | IN(I422_10) | IN(I444_10))
#define PLANAR_12 (IN(I420_12) | IN(I422_12) | IN(I444_12))

static const struct {
    mr_encoder_facts facts;
    uint32_t pixels;
    int look_ahead[MR_PRESETS]; /* pictures held with latency: normal */
    const char *presets[MR_PRESETS];
    bool even;                  /* subsampled chroma needs even sizes */
} codecs[MR_CODECS] = {
    [MR_CODEC_H264] = {{"h264", "libx264", 23, 0, 51}, PLANAR | PLANAR_10 | IN(NV12), {4, 20, 50, 70},
                       {"ultrafast", "veryfast", "medium", "slower"}, true},
    [MR_CODEC_HEVC] = {{"hevc", "libx265", 26, 0, 51}, PLANAR | PLANAR_10 | PLANAR_12, {16, 32, 40, 60},
                       {"ultrafast", "veryfast", "medium", "slower"}, true},
    [MR_CODEC_VP9] = {{"vp9", "libvpx-vp9", 32, 0, 63}, PLANAR | PLANAR_10 | PLANAR_12 | IN(I440), {26, 26, 26, 26},
                      {"8", "5", "3", "1"}, false},
    [MR_CODEC_AV1] = {{"av1", "libaom-av1", 32, 0, 63}, PLANAR | PLANAR_10 | PLANAR_12, {26, 26, 26, 26},
                      {"8", "6", "4", "2"}, false},
    [MR_CODEC_MJPEG] = {{"mjpeg", "mjpeg", 4, 1, 31}, PLANAR, {0, 0, 0, 0}, {NULL, NULL, NULL, NULL}, false},
};

mr_encoder_facts mr_encoder_facts_of(int codec) {
    return codecs[codec].facts;
}

bool mr_encoder_is_here(int codec) {
    return avcodec_find_encoder_by_name(codecs[codec].facts.encoder) != NULL;
}

/* Measured: x265 computes on a separate thread even with one thread. x265 and x264 also have as many threads again for
 * lookahead or to share a picture's work. The caller counts as one. */
int mr_encoder_threads(const mr_encode_params *params) {
    if (params->threads == 1)
        return params->codec == MR_CODEC_HEVC;
    bool twice = params->codec == MR_CODEC_H264 || params->codec == MR_CODEC_HEVC;
    return twice ? 2 * params->threads : params->threads - 1;
}

int mr_encoder_delay(const mr_encode_params *params) {
    bool none = params->latency == MR_LATENCY_LOW || params->codec == MR_CODEC_MJPEG;
    return none ? 0 : codecs[params->codec].look_ahead[params->preset] + params->threads;
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

/* Layouts with the same subsampling, by depth: 8, 10 and 12 bits. */
static const mr_pixel families[3][3] = {{MR_PIXEL_I420, MR_PIXEL_I420_10, MR_PIXEL_I420_12},
                                        {MR_PIXEL_I422, MR_PIXEL_I422_10, MR_PIXEL_I422_12},
                                        {MR_PIXEL_I444, MR_PIXEL_I444_10, MR_PIXEL_I444_12}};

/* Gray and RGB become 4:2:0, which all players accept; 4:4:0 keeps its chroma columns. */
static int family_of(const mr_pixel_info *info) {
    if (info->rgb || info->components == 1 || (info->chroma_w && info->chroma_h))
        return 0;
    return info->chroma_w ? 1 : 2;
}

mr_pixel mr_encoder_pixel(int codec, mr_pixel pixel) {
    uint32_t taken = codecs[codec].pixels;
    if (taken & MR_IN_SET(pixel))
        return pixel;
    const mr_pixel_info *info = mr_pixel_describe(pixel);
    int depth = info->depth <= 8 ? 0 : info->depth <= 10 ? 1 : 2;
    const mr_pixel *family = families[family_of(info)];
    while (depth > 0 && !(taken & MR_IN_SET(family[depth])))
        depth--;
    return family[depth];
}

mr_pixel mr_encoder_decoded(mr_pixel pixel) {
    return pixel == MR_PIXEL_NV12 ? MR_PIXEL_I420 : pixel == MR_PIXEL_P010 ? MR_PIXEL_I420_10 : pixel;
}

mr_format mr_encoder_format_in(mr_pixel pixel, bool even, const mr_format *picture) {
    const mr_pixel_info *info = mr_pixel_describe(pixel);
    mr_format format = *picture;
    format.pixel = pixel;
    format.matrix = mr_format_matrix(picture);
    format.range = mr_pixel_describe(picture->pixel)->rgb ? MR_RANGE_LIMITED : mr_format_range(picture);
    if (even && info->chroma_w)
        format.width += format.width & 1;
    if (even && info->chroma_h)
        format.height += format.height & 1;
    return format;
}

mr_format mr_encoder_format(int codec, const mr_format *picture) {
    mr_format format = mr_encoder_format_in(mr_encoder_pixel(codec, picture->pixel), codecs[codec].even, picture);
    /* JPEG readers accept nothing else. */
    if (codec == MR_CODEC_MJPEG) {
        format.matrix = MR_MATRIX_BT601;
        format.range = MR_RANGE_FULL;
    }
    return format;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void describe(AVCodecContext *codec, const mr_format *format) {
    static const enum AVColorSpace spaces[] = {AVCOL_SPC_UNSPECIFIED, AVCOL_SPC_SMPTE170M, AVCOL_SPC_BT709,
                                               AVCOL_SPC_BT2020_NCL};
    static const enum AVChromaLocation places[] = {AVCHROMA_LOC_UNSPECIFIED, AVCHROMA_LOC_LEFT, AVCHROMA_LOC_CENTER,
                                                   AVCHROMA_LOC_TOPLEFT};
    codec->width = format->width;
    codec->height = format->height;
    codec->pix_fmt = mr_pixel_to_av(format->pixel);
    codec->colorspace = spaces[format->matrix];
    codec->color_range = format->range == MR_RANGE_FULL ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    codec->chroma_sample_location = places[format->siting];
    if (format->sar_num > 0 && format->sar_den > 0)
        codec->sample_aspect_ratio = (AVRational){format->sar_num, format->sar_den};
}

static void set_rate(AVCodecContext *codec, const mr_encode_params *params) {
    bool bounds = params->codec == MR_CODEC_H264 || params->codec == MR_CODEC_HEVC;
    codec->bit_rate = params->bits;
    if (params->bits && bounds && params->latency == MR_LATENCY_LOW) {
        codec->rc_max_rate = params->bits;
        codec->rc_buffer_size = (int)params->bits;
    }
    if (params->bits || params->lossless)
        return;
    if (params->codec == MR_CODEC_MJPEG) {
        codec->flags |= AV_CODEC_FLAG_QSCALE;
        codec->global_quality = (int)lround(params->quality * FF_QP2LAMBDA);
    } else {
        av_opt_set_double(codec->priv_data, "crf", params->quality, 0);
    }
}

static void set_x264(AVCodecContext *codec, const mr_encode_params *params) {
    bool low = params->latency == MR_LATENCY_LOW;
    av_opt_set(codec->priv_data, "preset", codecs[MR_CODEC_H264].presets[params->preset], 0);
    av_opt_set_int(codec->priv_data, "forced-idr", 1, 0);
    if (low)
        av_opt_set(codec->priv_data, "tune", "zerolatency", 0);
    if (params->lossless)
        av_opt_set_int(codec->priv_data, "qp", 0, 0);
}

/* Without this, x265 writes to standard error. */
static void set_x265(AVCodecContext *codec, const mr_encode_params *params) {
    char text[128], pools[16] = "none";
    if (params->threads > 1)
        snprintf(pools, sizeof pools, "%d", params->threads);
    snprintf(text, sizeof text, "log-level=none:info=0:frame-threads=%d:pools=%s%s", params->threads, pools,
             params->lossless ? ":lossless=1" : "");
    av_opt_set(codec->priv_data, "preset", codecs[MR_CODEC_HEVC].presets[params->preset], 0);
    av_opt_set_int(codec->priv_data, "forced-idr", 1, 0);
    if (params->latency == MR_LATENCY_LOW)
        av_opt_set(codec->priv_data, "tune", "zerolatency", 0);
    av_opt_set(codec->priv_data, "x265-params", text, 0);
}

/* libvpx and libaom have most options in common. */
static void set_vpx_or_aom(AVCodecContext *codec, const mr_encode_params *params) {
    bool low = params->latency == MR_LATENCY_LOW, vp9 = params->codec == MR_CODEC_VP9;
    int preset = low && params->preset == MR_PRESET_FAST ? MR_PRESET_FASTEST : params->preset;
    av_opt_set(codec->priv_data, vp9 ? "deadline" : "usage", low ? "realtime" : "good", 0);
    av_opt_set(codec->priv_data, "cpu-used", codecs[params->codec].presets[preset], 0);
    av_opt_set_int(codec->priv_data, "lag-in-frames", low ? 0 : 25, 0);
    av_opt_set_int(codec->priv_data, "row-mt", params->threads > 1, 0);
    if (low && vp9)
        av_opt_set_int(codec->priv_data, "auto-alt-ref", 0, 0);
    if (params->lossless && vp9)
        av_opt_set_int(codec->priv_data, "lossless", 1, 0);
    if (params->lossless && !vp9) {
        av_opt_set_int(codec->priv_data, "crf", 0, 0);
        av_opt_set(codec->priv_data, "aom-params", "lossless=1", 0);
    }
}

static void set_own(AVCodecContext *codec, const mr_encode_params *params) {
    switch (params->codec) {
    case MR_CODEC_H264:
        set_x264(codec, params);
        break;
    case MR_CODEC_HEVC:
        set_x265(codec, params);
        break;
    case MR_CODEC_VP9:
    case MR_CODEC_AV1:
        set_vpx_or_aom(codec, params);
        break;
    default:
        break;
    }
}

int mr_encoder_alloc(AVCodecContext **result, const char *name, const mr_encode_params *params,
                     const mr_format *format, AVRational rate) {
    const AVCodec *encoder = avcodec_find_encoder_by_name(name);
    if (!encoder)
        return mr_fail(MR_ERROR_UNAVAILABLE, "this FFmpeg has no encoder %s", name);
    AVCodecContext *codec = avcodec_alloc_context3(encoder);
    if (!codec)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    describe(codec, format);
    if (params->codec != MR_CODEC_MJPEG) {
        codec->color_primaries = params->primaries ? params->primaries : AVCOL_PRI_UNSPECIFIED;
        codec->color_trc = params->transfer ? params->transfer : AVCOL_TRC_UNSPECIFIED;
    }
    codec->framerate = rate;
    codec->time_base = av_inv_q(rate);
    codec->gop_size = NO_KEY_DISTANCE;
    /* AV1 encoders would remove the headers from all packets and attach them only to the first. */
    if (params->codec != MR_CODEC_AV1)
        codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    *result = codec;
    return MR_OK;
}

int mr_encoder_start(AVCodecContext **codec, const mr_format *format) {
    const char *name = (*codec)->codec->name;
    mr_av_forget();
    int error = avcodec_open2(*codec, NULL, NULL);
    if (error >= 0)
        return MR_OK;
    const char *complaint = mr_av_complaint();
    avcodec_free_context(codec);
    return mr_fail(MR_ERROR_DATA, "%s does not start with pictures of %dx%d: %s", name, format->width, format->height,
                   *complaint ? complaint : mr_av_words(error));
}

int mr_encoder_open(AVCodecContext **result, const mr_encode_params *params, const mr_format *format, AVRational rate) {
    AVCodecContext *codec = NULL;
    int status = mr_encoder_alloc(&codec, codecs[params->codec].facts.encoder, params, format, rate);
    if (status)
        return status;
    codec->thread_count = params->threads;
    /* libavcodec's frame threads would hold pictures back. */
    codec->thread_type = FF_THREAD_SLICE;
    set_own(codec, params);
    set_rate(codec, params);
    status = mr_encoder_start(&codec, format);
    *result = codec;
    return status;
}
