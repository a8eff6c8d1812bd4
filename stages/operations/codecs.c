/* Codecs of libavcodec on one core, as `encode` and `decode` use them: pictures are made packets and packets pictures,
 * each without delay and in one thread. */
#include <libavcodec/avcodec.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/encode/encode_codec.h"
#include "stages/media/media_input.h"
#include "stages/media/picture_format.h"
#include "stages/operations/operation.h"

/* Pictures of a call. */
enum { WIDTH = 640, HEIGHT = 360, PICTURES = 8, RATE = 30 };

typedef struct codec_state {
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

/* Slopes that move by four pixels from picture to picture, with a little noise, as a camera has. */
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

static int make_picture(const codec_state *s, int number, AVFrame **made) {
    AVFrame *frame = av_frame_alloc();
    *made = frame;
    if (!frame)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a picture");
    frame->format = s->encoder->pix_fmt;
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

static int open_encoder(codec_state *s, int codec) {
    const mr_format picture = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = WIDTH, .height = HEIGHT};
    const mr_format format = mr_encoder_format(codec, &picture);
    const mr_encode_params params = {.codec = codec, .preset = MR_PRESET_FASTEST, .latency = MR_LATENCY_LOW,
                                     .threads = 1, .quality = mr_encoder_facts_of(codec).quality};
    mr_av_log_capture();
    int status = mr_encoder_open(&s->encoder, &params, &format, (AVRational){RATE, 1});
    for (int i = 0; i < PICTURES && !status; i++)
        status = make_picture(s, i, &s->picture[i]);
    for (int i = 0; i < PICTURES && !status; i++) {
        s->packet[i] = av_packet_alloc();
        status = s->packet[i] ? encode(s, i, s->packet[i]) : mr_fail(MR_ERROR_MEMORY, "no memory for a packet");
    }
    s->made = av_packet_alloc();
    return status || s->made ? status : mr_fail(MR_ERROR_MEMORY, "no memory for a packet");
}

/* Each picture is read and its packet written, or the other way round: 3/2 bytes for a pixel, and as many bytes as the
 * packets have. Pictures that others are predicted from may be in the cache. Arithmetic is not counted: there are as
 * many ways as encoders, even if the bits are the same. */
static int open_codec(mr_operation_call *call) {
    const int *codec = call->type->shape;
    codec_state *s = mr_calloc(1, sizeof *s);
    call->state = s;
    int status = s ? open_encoder(s, *codec) : mr_fail(MR_ERROR_MEMORY, "no memory for a codec");
    if (status)
        return status;
    call->bytes = PICTURES * 1.5 * WIDTH * HEIGHT;
    for (int i = 0; i < PICTURES; i++)
        call->bytes += s->packet[i]->size;
    return MR_OK;
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

static int enqueue_encoder(mr_operation_call *call, size_t set) {
    (void)set;
    return mr_stream_submit(call->stream, run_encoder, &call->state, sizeof call->state);
}

/* ---- decoding --------------------------------------------------------------------------------------------------- */

static int open_decoder(mr_operation_call *call) {
    int status = open_codec(call), error = 0;
    if (status)
        return status;
    codec_state *s = call->state;
    const AVCodec *decoder = avcodec_find_decoder(s->encoder->codec_id);
    if (!decoder)
        return mr_fail(MR_ERROR_UNAVAILABLE, "this FFmpeg has no decoder for %s",
                       avcodec_get_name(s->encoder->codec_id));
    AVCodecParameters *parameters = avcodec_parameters_alloc();
    s->decoder = avcodec_alloc_context3(decoder);
    s->decoded = av_frame_alloc();
    if (!parameters || !s->decoder || !s->decoded)
        error = AVERROR(ENOMEM);
    if (!error)
        error = avcodec_parameters_from_context(parameters, s->encoder);
    if (error >= 0)
        error = avcodec_parameters_to_context(s->decoder, parameters);
    avcodec_parameters_free(&parameters);
    if (error >= 0) {
        s->decoder->thread_count = 1;
        s->decoder->flags |= AV_CODEC_FLAG_LOW_DELAY;
        error = avcodec_open2(s->decoder, decoder, NULL);
    }
    return error < 0 ? av_failed(decoder->name, error) : MR_OK;
}

/* If a decoder holds pictures back, in the long run one comes for each packet all the same. */
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

static int enqueue_decoder(mr_operation_call *call, size_t set) {
    (void)set;
    return mr_stream_submit(call->stream, run_decoder, &call->state, sizeof call->state);
}

/* Those of a GPU have units of their own, which its memory and its kernels are no ceilings for. */
#define CODEC(label, to_do, number, open_function, enqueue_function)                                                   \
    {                                                                                                                  \
        .name = label, .function = to_do, .works_on = "I420 640x360, 8 pictures",                                      \
        .group = MR_OPERATION_CODEC, .here = MR_HERE_CPU, .shape = &codecs[number], .open = open_function,             \
        .enqueue = enqueue_function, .close = close_codec                                                              \
    }
#define BOTH(label, number)                                                                                            \
    CODEC("decode-" label, "avcodec_receive_frame", number, open_decoder, enqueue_decoder),                            \
        CODEC("encode-" label, "avcodec_receive_packet", number, open_codec, enqueue_encoder)

const mr_operation_type mr_operation_codecs[] = {
    BOTH("h264", MR_CODEC_H264), BOTH("hevc", MR_CODEC_HEVC), BOTH("vp9", MR_CODEC_VP9),
    BOTH("av1", MR_CODEC_AV1),   BOTH("mjpeg", MR_CODEC_MJPEG), {0},
};
