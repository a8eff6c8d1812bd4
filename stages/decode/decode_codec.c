#include "stages/decode/decode_codec.h"

#include <libavutil/opt.h>
#include <string.h>

#include "stages/decode/decode_options.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_input.h"
#include "stages/media/still/libheif.h"
#include "stages/media/still/still.h"

/* Each still picture is one packet, and so are others in such a codec: frame threads would only add delay. */
static int threads_for(const mr_stage *self, const mr_media *media, enum AVCodecID id) {
    const AVCodecDescriptor *descriptor = avcodec_descriptor_get(id);
    const bool still = media->still || (descriptor && descriptor->mime_types);
    return still || self->threads < 1 ? 1 : self->threads;
}

/* libavcodec calls it for each line it logs, on the decoding thread. */
static void take_line(void *object, int level, const char *format) {
    if (!object || *(const AVClass *const *)object != avcodec_get_class())
        return;
    const AVCodecContext *codec = object;
    mr_decode_log *log = mr_decode_target_log_of(codec);
    if (log)
        mr_decode_log_line(log, codec->reordered_opaque, level, format);
}

static bool is_ms_mpeg4(enum AVCodecID codec) {
    return (codec >= AV_CODEC_ID_MSMPEG4V1 && codec <= AV_CODEC_ID_MSMPEG4V3) || codec == AV_CODEC_ID_WMV1 ||
           codec == AV_CODEC_ID_WMV2;
}

/* A picture must not wait for later packets on other threads. */
static bool is_prompt(const mr_codec_params *params) {
    const mr_decode_choices *from = params->self->options;
    return (params->hurried || params->media->live) && strcmp(from->threads, "auto") == 0;
}

/* Sets up the decoder before it is opened. */
static void set_up(AVCodecContext *codec, const mr_codec_params *params) {
    const mr_decode_choices *from = params->self->options;
    const int32_t build = params->x264_build ? params->x264_build : params->media->x264_build;
    if (codec->codec_tag == MR_HEIF_TAG) /* the raw video decoder would take the tag for a layout */
        codec->codec_tag = 0;
    codec->pkt_timebase = (AVRational){1, 1000000000};
    codec->thread_count = threads_for(params->self, params->media, codec->codec_id);
    if (is_prompt(params))
        codec->thread_type = FF_THREAD_SLICE;
    codec->max_pixels = mr_av_max_pixels(mr_decode_most_pixels(params->self, params->media));
    codec->skip_frame = from->skip == MR_SKIP_NONREF ? AVDISCARD_NONREF : AVDISCARD_DEFAULT;
    codec->lowres = params->scale;
    /* Other decoders mark a concealed picture. The JPEG decoder reports one only if told to fail. */
    if (from->damaged == MR_DAMAGED_DROP && codec->codec_id == AV_CODEC_ID_MJPEG)
        codec->err_recognition |= AV_EF_EXPLODE;
    /* Unless told to check, MS-MPEG-4 decoders continue after an impossible sum and give wrong pictures. */
    if (is_ms_mpeg4(codec->codec_id))
        codec->err_recognition |= AV_EF_BITSTREAM;
    /* Decoders from other libraries lack this option. */
    if (build && codec->codec->priv_class && codec->codec_id == AV_CODEC_ID_H264)
        av_opt_set_int(codec->priv_data, "x264_build", build, 0);
    mr_av_log_listen(take_line);
    mr_decode_target_attach(params->target, codec);
}

static int open_with(AVCodecContext **result, const AVCodec *decoder, const mr_codec_params *params) {
    const mr_media *media = params->media;
    AVCodecContext *codec = avcodec_alloc_context3(decoder);
    if (!codec || avcodec_parameters_to_context(codec, media->codec) < 0) {
        avcodec_free_context(&codec);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    set_up(codec, params);
    int error = avcodec_open2(codec, decoder, NULL);
    if (error < 0) {
        avcodec_free_context(&codec);
        return mr_fail(mr_av_status(error), "%s: the decoder %s does not start: %s", media->path, decoder->name,
                       mr_av_words(error));
    }
    *result = codec;
    return MR_OK;
}

int mr_codec_open(AVCodecContext **codec, const mr_codec_params *params) {
    const mr_media *media = params->media;
    const AVCodecParameters *parameters = media->codec;
    const AVCodec *decoder;
    for (;;) {
        if (mr_decode_target_choose(params->target, params->stream, media, params->hurried, &decoder))
            return MR_ERROR_UNAVAILABLE;
        if (!decoder)
            return mr_fail(MR_ERROR_DATA, "%s: no decoder for %s is installed", media->path,
                           avcodec_get_name(parameters->codec_id));
        const int status = open_with(codec, decoder, params);
        if (!status || status == MR_ERROR_MEMORY || !mr_board_is(decoder))
            return status;
        mr_decode_board_fail(&params->target->board, mr_message());
    }
}

/* ---- packets --------------------------------------------------------------------------------------------------- */

/* Removes chunks that can take any amount of memory: 500 kB of compressed text took a gigabyte. */
static int strip_png(AVPacket *packet) {
    const size_t all = (size_t)packet->size, bytes = mr_png_strip(packet->data, all, NULL);
    AVBufferRef *buffer = bytes < all ? av_buffer_allocz(bytes + AV_INPUT_BUFFER_PADDING_SIZE) : NULL;
    if (!buffer)
        return bytes < all ? AVERROR(ENOMEM) : 0;
    mr_png_strip(packet->data, all, buffer->data);
    mr_packet_replace(packet, buffer, bytes);
    return 0;
}

int mr_codec_send(AVCodecContext *codec, AVPacket *packet, const mr_frame *frame, int64_t number) {
    codec->reordered_opaque = number;
    mr_av_forget();
    int error = mr_packet_lend(packet, frame);
    if (error >= 0 && codec->codec_id == AV_CODEC_ID_PNG)
        error = strip_png(packet);
    if (mr_board_is(codec->codec))
        mr_decode_board_number(packet, number);
    if (error >= 0)
        error = avcodec_send_packet(codec, packet);
    av_packet_unref(packet);
    return error;
}

/* ---- pictures -------------------------------------------------------------------------------------------------- */

/* The newest packet number with that presentation time; 0: none. */
static int64_t number_at(const mr_pending *pending, int64_t pts_ns) {
    const int64_t end = mr_pending_next(pending);
    for (int64_t number = end - 1; number + MR_PENDING_WINDOW >= end; number--) {
        const mr_frame *packet = mr_pending_find(pending, number);
        if (packet && packet->pts_ns == pts_ns)
            return number;
    }
    return 0;
}

/* VP9 and AV1 can decode a picture with one packet and show it with a later one. libavcodec then gives it the later
 * packet's time, but the first packet's number. */
static int64_t number_of(const AVCodecContext *codec, const mr_pending *pending, const AVFrame *picture) {
    bool at_once = !(codec->codec->capabilities & AV_CODEC_CAP_DELAY) &&
                   !(codec->active_thread_type & FF_THREAD_FRAME);
    int64_t number = picture->reordered_opaque;
    if (codec->codec_id != AV_CODEC_ID_VP9 && codec->codec_id != AV_CODEC_ID_AV1)
        return number;
    if (at_once)
        return codec->reordered_opaque;
    const mr_frame *packet = mr_pending_find(pending, number);
    if (picture->pts == AV_NOPTS_VALUE || (packet && packet->pts_ns == picture->pts))
        return number;
    int64_t shown = number_at(pending, picture->pts);
    return shown ? shown : number;
}

int mr_codec_receive(AVCodecContext *codec, const mr_decode_target *target, const mr_pending *pending,
                     AVFrame *picture) {
    int error = avcodec_receive_frame(codec, picture);
    if (error >= 0 && mr_board_is(codec->codec))
        mr_decode_board_describe(&target->board, codec, picture);
    else if (error >= 0)
        picture->reordered_opaque = number_of(codec, pending, picture);
    return error;
}
