/* libavcodec codecs as `encode` and `decode` use them: on one core, and NVENC and NVDEC on a GPU. Pictures become
 * packets and packets pictures, without delay and in one thread. */
#include <libavcodec/avcodec.h>
#include <libavutil/hwcontext.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/cuda/cuda.h"
#include "millrace/status.h"
#include "stages/decode/device/nvdec.h"
#include "stages/encode/encode_codec.h"
#include "stages/encode/encode_nvenc.h"
#include "stages/media/media_cuda.h"
#include "stages/media/media_input.h"
#include "stages/media/picture_format.h"
#include "stages/operations/operation.h"

/* Pictures per call. */
enum { WIDTH = 640, HEIGHT = 360, PICTURES = 8, RATE = 30 };

typedef struct codec_state {
    AVBufferRef *card, *surfaces; /* libavcodec's, for a GPU */
    AVCodecContext *encoder, *decoder;
    AVFrame *picture[PICTURES], *decoded;
    AVPacket *packet[PICTURES], *made;
    int64_t pts;
} codec_state;

static const int codecs[MR_CODECS] = {MR_CODEC_H264, MR_CODEC_HEVC, MR_CODEC_VP9, MR_CODEC_AV1, MR_CODEC_MJPEG};

static int av_failed(const char *what, int error) {
    return error == AVERROR(ENOMEM) ? mr_fail(MR_ERROR_MEMORY, "no memory for a codec")
                                    : mr_fail(MR_ERROR_DATA, "%s: %s", what, mr_av_words(error));
}

/* ---- pictures --------------------------------------------------------------------------------------------------- */

/* Gradients that move by four pixels per picture, with a little noise, like a camera's. */
static void draw_plane(AVFrame *frame, int plane, int number) {
    const int width = plane ? WIDTH / 2 : WIDTH, height = plane ? HEIGHT / 2 : HEIGHT;
    uint32_t noise = 1 + (uint32_t)(number * 3 + plane);
    for (int y = 0; y < height; y++) {
        uint8_t *row = frame->data[plane] + (ptrdiff_t)y * frame->linesize[plane];
        for (int x = 0; x < width; x++) {
            noise = noise * 1664525u + 1013904223u;
            int wave = (x + 4 * number) & 255;
            row[x] = (uint8_t)(16 + ((wave < 128 ? wave : 255 - wave) + y * 64 / height) + (int)(noise >> 30));
        }
    }
}

static int make_picture(const codec_state *s, enum AVPixelFormat layout, int number, AVFrame **made) {
    AVFrame *frame = av_frame_alloc();
    *made = frame;
    if (!frame)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a picture");
    frame->format = layout;
    frame->width = WIDTH;
    frame->height = HEIGHT;
    frame->color_range = s->encoder->color_range;
    int error = av_frame_get_buffer(frame, 0);
    if (error < 0)
        return av_failed("a picture", error);
    for (int plane = 0; plane < 3; plane++)
        draw_plane(frame, plane, number);
    return MR_OK;
}

/* ---- encoding --------------------------------------------------------------------------------------------------- */

static int encode(codec_state *s, int number, AVPacket *packet) {
    s->picture[number]->pts = s->pts++;
    s->picture[number]->pict_type = number == 0 ? AV_PICTURE_TYPE_I : AV_PICTURE_TYPE_NONE;
    int error = avcodec_send_frame(s->encoder, s->picture[number]);
    if (error >= 0)
        error = avcodec_receive_packet(s->encoder, packet);
    return error < 0 ? av_failed(s->encoder->codec->name, error) : MR_OK;
}

static const mr_format drawn = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = WIDTH,
                                .height = HEIGHT};

static mr_encode_params params_of(int codec) {
    return (mr_encode_params){.codec = codec, .preset = MR_PRESET_FASTEST, .latency = MR_LATENCY_LOW, .threads = 1,
                              .quality = mr_encoder_facts_of(codec).quality};
}

static int open_encoder(codec_state *s, int codec) {
    const mr_format format = mr_encoder_format(codec, &drawn);
    const mr_encode_params params = params_of(codec);
    int status = mr_encoder_open(&s->encoder, &params, &format, (AVRational){RATE, 1});
    for (int i = 0; i < PICTURES && !status; i++)
        status = make_picture(s, s->encoder->pix_fmt, i, &s->picture[i]);
    return status;
}

/* ---- encoding on a GPU ------------------------------------------------------------------------------------------ */

static int open_surfaces(codec_state *s, mr_stream *stream) {
    int status = mr_av_cuda_device(&s->card, stream);
    if (status)
        return status;
    s->surfaces = av_hwframe_ctx_alloc(s->card);
    if (!s->surfaces)
        return mr_fail(MR_ERROR_MEMORY, "no memory for surfaces");
    AVHWFramesContext *about = (AVHWFramesContext *)(void *)s->surfaces->data;
    about->format = AV_PIX_FMT_CUDA;
    about->sw_format = AV_PIX_FMT_YUV420P;
    about->width = WIDTH;
    about->height = HEIGHT;
    int error = av_hwframe_ctx_init(s->surfaces);
    return error < 0 ? av_failed("surfaces", error) : MR_OK;
}

/* Draws it on the host and uploads it. */
static int make_surface(codec_state *s, int number) {
    AVFrame *picture = NULL;
    int status = make_picture(s, AV_PIX_FMT_YUV420P, number, &picture);
    s->picture[number] = status ? NULL : av_frame_alloc();
    if (!status && !s->picture[number])
        status = mr_fail(MR_ERROR_MEMORY, "no memory for a picture");
    if (!status) {
        int error = av_hwframe_get_buffer(s->surfaces, s->picture[number], 0);
        if (error >= 0)
            error = av_hwframe_transfer_data(s->picture[number], picture, 0);
        status = error < 0 ? av_failed("a surface", error) : MR_OK;
    }
    av_frame_free(&picture);
    return status;
}

static int open_nvenc(codec_state *s, int codec, mr_stream *stream) {
    const mr_encode_params params = params_of(codec);
    const mr_format format = mr_nvenc_format(codec, &drawn);
    int status = mr_nvenc_suits(&params, MR_IN_SET(MR_PIXEL_I420));
    if (!status)
        status = mr_nvenc_check();
    if (!status)
        status = open_surfaces(s, stream);
    if (!status)
        status = mr_nvenc_open(&s->encoder, &params, &format, (AVRational){RATE, 1}, s->surfaces);
    for (int i = 0; i < PICTURES && !status; i++)
        status = make_surface(s, i);
    /* GPUs differ in which codecs they encode. */
    return status && status != MR_ERROR_MEMORY ? mr_fail(MR_ERROR_UNAVAILABLE, "%s", mr_message()) : status;
}

/* ---- one call --------------------------------------------------------------------------------------------------- */

static bool is_on_card(const mr_operation_call *call) {
    return call->device->type->kind == MR_DEVICE_CUDA;
}

/* Each picture is read and its packet written, or the reverse: 3/2 bytes per pixel plus the packet's bytes. Reference
 * pictures may be in the cache. Arithmetic is not counted: encoders differ, even if they produce the same bits. */
static int open_codec(mr_operation_call *call, bool nvenc) {
    const int *codec = call->type->shape;
    codec_state *s = mr_calloc(1, sizeof *s);
    call->state = s;
    if (!s)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a codec");
    mr_av_log_capture();
    int status = nvenc ? open_nvenc(s, *codec, call->stream) : open_encoder(s, *codec);
    call->bytes = PICTURES * 1.5 * WIDTH * HEIGHT;
    for (int i = 0; i < PICTURES && !status; i++) {
        s->packet[i] = av_packet_alloc();
        status = s->packet[i] ? encode(s, i, s->packet[i]) : mr_fail(MR_ERROR_MEMORY, "no memory for a packet");
        call->bytes += status ? 0 : s->packet[i]->size;
    }
    s->made = av_packet_alloc();
    return status || s->made ? status : mr_fail(MR_ERROR_MEMORY, "no memory for a packet");
}

static int open_encoding(mr_operation_call *call) {
    return open_codec(call, is_on_card(call));
}

static void close_codec(mr_operation_call *call) {
    codec_state *s = call->state;
    if (!s)
        return;
    avcodec_free_context(&s->encoder);
    avcodec_free_context(&s->decoder);
    for (int i = 0; i < PICTURES; i++) {
        av_frame_free(&s->picture[i]);
        av_packet_free(&s->packet[i]);
    }
    av_frame_free(&s->decoded);
    av_packet_free(&s->made);
    av_buffer_unref(&s->surfaces);
    av_buffer_unref(&s->card);
    mr_free(s);
    call->state = NULL;
}

static int run_encoder(void *arguments) {
    codec_state *s = *(codec_state **)arguments;
    int status = MR_OK;
    for (int i = 0; i < PICTURES && !status; i++) {
        status = encode(s, i, s->made);
        av_packet_unref(s->made);
    }
    return status;
}

/* This thread calls NVENC and NVDEC, which work on the stream. */
static int enqueue(mr_operation_call *call, int (*function)(void *arguments)) {
    void *handle;
    if (!is_on_card(call))
        return mr_stream_submit(call->stream, function, &call->state, sizeof call->state);
    int status = mr_cuda_enter(call->stream, &handle);
    return status ? status : function(&call->state);
}

static int enqueue_encoder(mr_operation_call *call, size_t set) {
    return enqueue(call, run_encoder);
}

/* ---- decoding --------------------------------------------------------------------------------------------------- */

/* A decoder may hold pictures back, but on average one comes per packet. */
static int decode(codec_state *s, const AVPacket *packet) {
    int error = avcodec_send_packet(s->decoder, packet);
    while (error >= 0) {
        error = avcodec_receive_frame(s->decoder, s->decoded);
        av_frame_unref(s->decoded);
    }
    return error == AVERROR(EAGAIN) ? MR_OK : av_failed(s->decoder->codec->name, error);
}

static int run_decoder(void *arguments) {
    codec_state *s = *(codec_state **)arguments;
    int status = MR_OK;
    for (int i = 0; i < PICTURES && !status; i++)
        status = decode(s, s->packet[i]);
    return status;
}

/* AV_PIX_FMT_NONE if NVDEC cannot decode the stream. */
static enum AVPixelFormat choose_surfaces(AVCodecContext *codec, const enum AVPixelFormat *formats) {
    while (*formats != AV_PIX_FMT_NONE && *formats != AV_PIX_FMT_CUDA)
        formats++;
    return *formats;
}

static int use_nvdec(codec_state *s, mr_stream *stream) {
    int status = mr_nvdec_check();
    if (!status)
        status = mr_av_cuda_device(&s->card, stream);
    if (status)
        return status;
    s->decoder->get_format = choose_surfaces;
    s->decoder->hw_device_ctx = av_buffer_ref(s->card);
    return s->decoder->hw_device_ctx ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a codec");
}

static int start_decoder(codec_state *s, const AVCodec *decoder, mr_stream *card) {
    AVCodecParameters *parameters = avcodec_parameters_alloc();
    s->decoder = avcodec_alloc_context3(decoder);
    s->decoded = av_frame_alloc();
    int error = parameters && s->decoder && s->decoded ? 0 : AVERROR(ENOMEM);
    if (!error)
        error = avcodec_parameters_from_context(parameters, s->encoder);
    if (error >= 0)
        error = avcodec_parameters_to_context(s->decoder, parameters);
    avcodec_parameters_free(&parameters);
    int status = error < 0 ? av_failed(decoder->name, error) : card ? use_nvdec(s, card) : MR_OK;
    if (status)
        return status;
    s->decoder->thread_count = 1;
    s->decoder->flags |= AV_CODEC_FLAG_LOW_DELAY;
    error = avcodec_open2(s->decoder, decoder, NULL);
    return error < 0 ? av_failed(decoder->name, error) : MR_OK;
}

/* Only decoding shows whether a GPU supports a codec. */
static int open_decoding(mr_operation_call *call) {
    const bool card = is_on_card(call);
    int status = open_codec(call, false);
    if (status)
        return status;
    codec_state *s = call->state;
    const enum AVCodecID id = s->encoder->codec_id;
    const AVCodec *decoder = card ? mr_nvdec_decoder(id) : avcodec_find_decoder(id);
    if (!decoder)
        return mr_fail(MR_ERROR_UNAVAILABLE, "this FFmpeg has no decoder for %s%s", avcodec_get_name(id),
                       card ? " that works by NVDEC" : "");
    status = start_decoder(s, decoder, card ? call->stream : NULL);
    if (status || !card || !run_decoder(&call->state))
        return status;
    return mr_fail(MR_ERROR_UNAVAILABLE, "NVDEC of %s does not take %s: %s", call->device->name, avcodec_get_name(id),
                   mr_message());
}

static int enqueue_decoder(mr_operation_call *call, size_t set) {
    return enqueue(call, run_decoder);
}

/* NVDEC and NVENC are separate units. A GPU's memory and kernels are no ceilings for them: a small share is all that
 * can be known. */
#define CODEC(label, to_do, kinds, number, open_function, enqueue_function)                                            \
    {                                                                                                                  \
        .name = label, .function = to_do, .works_on = "I420 640x360, 8 pictures", .group = MR_OPERATION_CODEC,         \
        .here = kinds, .shape = &codecs[number], .open = open_function, .enqueue = enqueue_function,                   \
        .close = close_codec                                                                                           \
    }
#define BOTH(label, number, encodes)                                                                                   \
    CODEC("decode-" label, "avcodec_receive_frame", MR_HERE_CPU | MR_HERE_CUDA, number, open_decoding,                 \
          enqueue_decoder),                                                                                            \
        CODEC("encode-" label, "avcodec_receive_packet", encodes, number, open_encoding, enqueue_encoder)

/* NVENC can encode three of them. */
const mr_operation_type mr_operation_codecs[] = {
    BOTH("h264", MR_CODEC_H264, MR_HERE_CPU | MR_HERE_CUDA), BOTH("hevc", MR_CODEC_HEVC, MR_HERE_CPU | MR_HERE_CUDA),
    BOTH("vp9", MR_CODEC_VP9, MR_HERE_CPU),                  BOTH("av1", MR_CODEC_AV1, MR_HERE_CPU | MR_HERE_CUDA),
    BOTH("mjpeg", MR_CODEC_MJPEG, MR_HERE_CPU),              {0},
};
