#include "stages/decode/decode_codec.h"

#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <string.h>

#include "stages/media/media_codec.h"
#include "stages/media/media_input.h"
#include "stages/media/still/libheif.h"
#include "stages/media/still/still.h"
#include "stages/media/still/tiff.h"

/* Each still image is one packet: frame threads would only add delay. */
static int threads_for(const mr_codec_params *params, const mr_media *media, enum AVCodecID id) {
    const AVCodecDescriptor *descriptor = avcodec_descriptor_get(id);
    bool still = media->still || (descriptor && descriptor->mime_types);
    return still ? 1 : params->threads;
}

/* libavcodec calls it for each line it logs, on the decoding thread. */
static void hear(void *object, int level, const char *format) {
    if (!object || *(const AVClass *const *)object != avcodec_get_class())
        return;
    const AVCodecContext *codec = object;
    mr_heard *heard = mr_decode_target_heard_of(codec);
    if (heard)
        mr_heard_line(heard, codec->reordered_opaque, level, format);
}

static bool is_ms_mpeg4(enum AVCodecID codec) {
    return (codec >= AV_CODEC_ID_MSMPEG4V1 && codec <= AV_CODEC_ID_MSMPEG4V3) || codec == AV_CODEC_ID_WMV1 ||
           codec == AV_CODEC_ID_WMV2;
}

int mr_codec_open(AVCodecContext **result, const mr_codec_params *params, const mr_media *media) {
    const AVCodecParameters *parameters = media->codec;
    const AVCodec *decoder;
    if (mr_decode_device_choose(mr_decode_target_device(params->target), parameters->codec_id, params->io, &decoder))
        return MR_ERROR_UNAVAILABLE;
    if (!decoder)
        return mr_fail(MR_ERROR_DATA, "%s: no decoder for %s is installed", media->path,
                       avcodec_get_name(parameters->codec_id));
    AVCodecContext *codec = avcodec_alloc_context3(decoder);
    if (!codec || avcodec_parameters_to_context(codec, parameters) < 0) {
        avcodec_free_context(&codec);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    if (parameters->codec_tag == MR_HEIF_TAG) /* the raw video decoder would take the tag for a layout */
        codec->codec_tag = 0;
    codec->pkt_timebase = (AVRational){1, 1000000000};
    codec->thread_count = threads_for(params, media, parameters->codec_id);
    if (params->prompt)
        codec->thread_type = FF_THREAD_SLICE;
    codec->max_pixels = mr_av_max_pixels(params->max_pixels);
    codec->skip_frame = params->skip;
    codec->lowres = params->scale;
    /* Other decoders mark a concealed picture. The JPEG decoder reports one only if told to fail. */
    if (params->strict && parameters->codec_id == AV_CODEC_ID_MJPEG)
        codec->err_recognition |= AV_EF_EXPLODE;
    /* Unless told to check, MS-MPEG-4 decoders continue after an impossible sum and give wrong pictures. */
    if (is_ms_mpeg4(parameters->codec_id))
        codec->err_recognition |= AV_EF_BITSTREAM;
    /* Decoders from other libraries lack this option. */
    if (params->x264_build && decoder->priv_class && parameters->codec_id == AV_CODEC_ID_H264)
        av_opt_set_int(codec->priv_data, "x264_build", params->x264_build, 0);
    mr_av_log_listen(hear);
    mr_decode_target_attach(params->target, codec);
    int error = avcodec_open2(codec, decoder, NULL);
    if (error < 0) {
        avcodec_free_context(&codec);
        return mr_fail(mr_av_status(error), "%s: the decoder %s does not start: %s", media->path, decoder->name,
                       mr_av_words(error));
    }
    *result = codec;
    return MR_OK;
}

/* ---- packets --------------------------------------------------------------------------------------------------- */

/* libavcodec's TIFF decoder keeps the subsampling of the last picture, and refuses the next one's strips by it. */
bool mr_codec_is_used_up(const mr_frame *frame) {
    const mr_plane *plane = &frame->plane[0];
    const AVCodecParameters *stream = frame->media->codec;
    return frame->media->still && (stream->codec_id == AV_CODEC_ID_TIFF ||
                                   mr_still_lacks_tables(stream->codec_id, plane->data, plane->bytes));
}

static void announce(AVCodecContext *codec, const mr_frame *frame, int64_t number) {
    /* A still picture without an aspect ratio must not inherit the previous one's. */
    if (frame->media->still && !(codec->active_thread_type & FF_THREAD_FRAME))
        codec->sample_aspect_ratio = (AVRational){0, 1};
    codec->reordered_opaque = number;
    mr_av_forget();
}

/* Takes the buffer. */
static void set_data(AVPacket *packet, AVBufferRef *buffer, size_t bytes) {
    av_buffer_unref(&packet->buf);
    packet->buf = buffer;
    packet->data = buffer->data;
    packet->size = (int)bytes;
}

/* Removes chunks that can take any amount of memory: 500 kB of compressed text took a gigabyte. */
static int strip_png(AVPacket *packet) {
    const size_t all = (size_t)packet->size, bytes = mr_png_strip(packet->data, all, NULL);
    AVBufferRef *buffer = bytes < all ? av_buffer_allocz(bytes + AV_INPUT_BUFFER_PADDING_SIZE) : NULL;
    if (!buffer)
        return bytes < all ? AVERROR(ENOMEM) : 0;
    mr_png_strip(packet->data, all, buffer->data);
    set_data(packet, buffer, bytes);
    return 0;
}

int mr_codec_send(AVCodecContext *codec, AVPacket *packet, const mr_frame *frame, int64_t number) {
    announce(codec, frame, number);
    int error = mr_packet_lend(packet, frame);
    if (error >= 0 && codec->codec_id == AV_CODEC_ID_PNG)
        error = strip_png(packet);
    if (error >= 0)
        error = avcodec_send_packet(codec, packet);
    av_packet_unref(packet);
    return error;
}

/* ---- pictures -------------------------------------------------------------------------------------------------- */

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
    int64_t shown = mr_pending_number_at(pending, picture->pts);
    return shown ? shown : number;
}

int mr_codec_receive(AVCodecContext *codec, const mr_pending *pending, AVFrame *picture) {
    int error = avcodec_receive_frame(codec, picture);
    if (error >= 0)
        picture->reordered_opaque = number_of(codec, pending, picture);
    return error;
}

/* ---- reduced pictures ------------------------------------------------------------------------------------------ */

/* Shortens the packet to the picture's header and an end marker, but not below `least` bytes. */
static int keep_header(AVPacket *packet, size_t header, size_t least) {
    static const uint8_t end[] = {0xff, 0xd9};
    size_t bytes = header + sizeof end > least ? header + sizeof end : least;
    AVBufferRef *buffer = av_buffer_allocz(bytes + AV_INPUT_BUFFER_PADDING_SIZE);
    if (!buffer)
        return AVERROR(ENOMEM);
    memcpy(buffer->data, packet->data, header);
    memcpy(buffer->data + header, end, sizeof end);
    set_data(packet, buffer, bytes);
    return 0;
}

/* Decodes a picture without a scan, which libavcodec accepts as complete. It refuses data that is too short for the
 * size. */
static int decode_header(AVCodecContext *codec, AVPacket *packet, const mr_frame *frame, size_t header, int64_t number,
                         size_t least, AVFrame *picture) {
    announce(codec, frame, number);
    int error = mr_packet_lend(packet, frame);
    if (error >= 0)
        error = keep_header(packet, header, least);
    if (error >= 0)
        error = avcodec_send_packet(codec, packet);
    av_packet_unref(packet);
    return error < 0 ? error : avcodec_receive_frame(codec, picture);
}

static bool take_memory(const AVFrame *picture, int count, mr_jpeg_plane planes[3]) {
    const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(picture->format);
    if (!about || about->nb_components != count || about->flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL) ||
        about->comp[0].depth != 8 || picture->interlaced_frame)
        return false;
    for (int i = 0; i < count; i++) {
        int right = i ? about->log2_chroma_w : 0, down = i ? about->log2_chroma_h : 0;
        if (planes[i].width != AV_CEIL_RSHIFT(picture->width, right) ||
            planes[i].height != AV_CEIL_RSHIFT(picture->height, down) || about->comp[i].plane != i)
            return false;
        planes[i].data = picture->data[i];
        planes[i].stride = picture->linesize[i];
    }
    return true;
}

bool mr_codec_reduce(AVCodecContext *codec, mr_jpeg_decoder **jpeg, AVPacket *packet, const mr_frame *frame,
                       int64_t number, AVFrame *picture) {
    enum { BLOCK_SCALE = 3, BLOCKS_PER_BYTE = 4 };
    const AVCodecParameters *stream = frame->media->codec;
    const mr_plane *data = &frame->plane[0];
    if (!codec->lowres || !frame->media->still || stream->codec_tag || (!*jpeg && mr_jpeg_decoder_create(jpeg)))
        return false;
    size_t header = mr_jpeg_open(*jpeg, data->data, data->bytes);
    if (!header)
        return false;
    mr_jpeg_plane planes[3];
    int count = mr_jpeg_planes(*jpeg, codec->lowres, planes), rest = BLOCK_SCALE - codec->lowres;
    size_t blocks = (size_t)AV_CEIL_RSHIFT(planes[0].width, rest) * (size_t)AV_CEIL_RSHIFT(planes[0].height, rest);
    size_t least = (blocks + BLOCKS_PER_BYTE - 1) / BLOCKS_PER_BYTE;
    if (data->bytes >= least && decode_header(codec, packet, frame, header, number, least, picture) >= 0 &&
        take_memory(picture, count, planes) && mr_jpeg_decode(*jpeg, codec->lowres, planes))
        return true;
    av_frame_unref(picture);
    return false;
}

/* ---- pictures of HEIF -------------------------------------------------------------------------------------------- */

static bool is_heif(const mr_frame *frame) {
    const AVCodecParameters *stream = frame->media->codec;
    return frame->media->still && stream->codec_id == AV_CODEC_ID_RAWVIDEO && stream->codec_tag == MR_HEIF_TAG;
}

/* How many pixels the decoder's limit means (mr_av_max_pixels). */
static int64_t most_pixels(const AVCodecContext *codec) {
    const int64_t padding = 65536;
    return codec->max_pixels < INT32_MAX ? (2 * (codec->max_pixels - padding) + 1) / 3 : INT32_MAX;
}

/* libheif's memory comes from the decoder's buffers. */
static int allocate(void *context, AVFrame *picture) {
    AVCodecContext *codec = context;
    codec->width = picture->width;
    codec->height = picture->height;
    codec->pix_fmt = picture->format;
    return codec->get_buffer2(codec, picture, 0);
}

/* Returns an AVERROR on failure; mr_av_complaint has the reason. */
static int decode_heif(AVCodecContext *codec, const mr_frame *frame, int64_t number, AVFrame *picture) {
    const mr_plane *file = &frame->plane[0];
    announce(codec, frame, number);
    int status = mr_libheif_decode(file->data, file->bytes, most_pixels(codec), picture, allocate, codec);
    if (status) {
        mr_av_recall(mr_message());
        return status == MR_ERROR_MEMORY ? AVERROR(ENOMEM) : AVERROR_INVALIDDATA;
    }
    picture->reordered_opaque = number;
    picture->key_frame = 1;
    picture->pict_type = AV_PICTURE_TYPE_I;
    picture->pts = picture->best_effort_timestamp = frame->pts_ns == MR_NO_TIME ? AV_NOPTS_VALUE : frame->pts_ns;
    return 0;
}

/* Whether libavcodec would decode a still picture wrongly without an error. */
static bool would_be_wrong(const mr_frame *frame) {
    char text[512];
    const AVCodecParameters *stream = frame->media->codec;
    return frame->media->still && stream->codec_id == AV_CODEC_ID_TIFF &&
           mr_tiff_trouble(frame->plane[0].data, frame->plane[0].bytes, text, sizeof text);
}

int mr_codec_decode(AVCodecContext *codec, mr_jpeg_decoder **jpeg, AVPacket *packet, const mr_frame *frame,
                      int64_t number, AVFrame *picture) {
    if (would_be_wrong(frame)) {
        mr_av_forget();
        return AVERROR_INVALIDDATA;
    }
    if (is_heif(frame))
        return decode_heif(codec, frame, number, picture);
    if (mr_codec_reduce(codec, jpeg, packet, frame, number, picture))
        return 0;
    return mr_codec_send(codec, packet, frame, number);
}
