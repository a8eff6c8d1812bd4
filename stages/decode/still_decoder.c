#include "stages/decode/still_decoder.h"

#include <libavutil/pixdesc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "stages/decode/decode_codec.h"
#include "stages/decode/decode_options.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_input.h"
#include "stages/media/still/background.h"
#include "stages/media/still/libheif.h"
#include "stages/media/still/still.h"
#include "stages/media/still/tiff.h"

int mr_still_decoder_init(mr_still_decoder *decoder) {
    *decoder = (mr_still_decoder){.packet = av_packet_alloc(), .picture = av_frame_alloc()};
    return decoder->packet && decoder->picture ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
}

static void close_codecs(mr_still_decoder *decoder) {
    for (int scale = 0; scale <= MR_REDUCED_MOST; scale++)
        avcodec_free_context(&decoder->codec[scale]);
}

void mr_still_decoder_close(mr_still_decoder *decoder) {
    mr_still_decoder_settle(decoder);
    close_codecs(decoder);
    mr_jpeg_decoder_destroy(&decoder->jpeg);
}

void mr_still_decoder_fini(mr_still_decoder *decoder) {
    mr_still_decoder_close(decoder);
    av_frame_free(&decoder->picture);
    av_packet_free(&decoder->packet);
}

void mr_still_decoder_settle(mr_still_decoder *decoder) {
    decoder->done = false;
    av_frame_unref(decoder->picture);
}

/* ---- reduced pictures -------------------------------------------------------------------------------------------- */

/* Shortens the packet to the picture's header and an end marker, but not below `least` bytes. */
static int keep_header(AVPacket *packet, size_t header, size_t least) {
    static const uint8_t end[] = {0xff, 0xd9};
    size_t bytes = header + sizeof end > least ? header + sizeof end : least;
    AVBufferRef *buffer = av_buffer_allocz(bytes + AV_INPUT_BUFFER_PADDING_SIZE);
    if (!buffer)
        return AVERROR(ENOMEM);
    memcpy(buffer->data, packet->data, header);
    memcpy(buffer->data + header, end, sizeof end);
    mr_packet_replace(packet, buffer, bytes);
    return 0;
}

/* Decodes a picture without a scan, which libavcodec accepts as complete. It refuses data that is too short for the
 * size. */
static int decode_header(AVCodecContext *codec, AVPacket *packet, const mr_frame *frame, size_t header, size_t least,
                         AVFrame *picture) {
    mr_av_forget();
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

bool mr_still_reduce(AVCodecContext *codec, mr_jpeg_decoder **jpeg, AVPacket *packet, const mr_frame *frame,
                     AVFrame *picture) {
    enum { BLOCK_SCALE = 3, BLOCKS_PER_BYTE = 4 };
    const AVCodecParameters *stream = frame->media->codec;
    const mr_plane *data = &frame->plane[0];
    if (!codec->lowres || stream->codec_tag || (!*jpeg && mr_jpeg_decoder_create(jpeg)))
        return false;
    size_t header = mr_jpeg_open(*jpeg, data->data, data->bytes);
    if (!header)
        return false;
    mr_jpeg_plane planes[3];
    int count = mr_jpeg_planes(*jpeg, codec->lowres, planes), rest = BLOCK_SCALE - codec->lowres;
    size_t blocks = (size_t)AV_CEIL_RSHIFT(planes[0].width, rest) * (size_t)AV_CEIL_RSHIFT(planes[0].height, rest);
    size_t least = (blocks + BLOCKS_PER_BYTE - 1) / BLOCKS_PER_BYTE;
    if (data->bytes >= least && decode_header(codec, packet, frame, header, least, picture) >= 0 &&
        take_memory(picture, count, planes) && mr_jpeg_decode(*jpeg, codec->lowres, planes))
        return true;
    av_frame_unref(picture);
    return false;
}

/* ---- pictures of HEIF -------------------------------------------------------------------------------------------- */

static bool is_heif(const mr_frame *frame) {
    const AVCodecParameters *stream = frame->media->codec;
    return stream->codec_id == AV_CODEC_ID_RAWVIDEO && stream->codec_tag == MR_HEIF_TAG;
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
static int decode_heif(AVCodecContext *codec, const mr_frame *frame, mr_background background, AVFrame *picture) {
    const mr_plane *file = &frame->plane[0];
    const mr_heif_target target = {.picture = picture, .allocate = allocate, .context = codec,
                                   .max_pixels = most_pixels(codec), .background = background};
    mr_av_forget();
    int status = mr_libheif_decode(file->data, file->bytes, &target);
    if (status) {
        mr_av_recall(mr_message());
        return status == MR_ERROR_MEMORY ? AVERROR(ENOMEM) : AVERROR_INVALIDDATA;
    }
    picture->key_frame = 1;
    picture->pict_type = AV_PICTURE_TYPE_I;
    return 0;
}

/* ---- all pictures ------------------------------------------------------------------------------------------------ */

/* Whether libavcodec would decode the picture wrongly without an error. */
static bool would_be_wrong(const mr_frame *frame) {
    char text[512];
    const AVCodecParameters *stream = frame->media->codec;
    return stream->codec_id == AV_CODEC_ID_TIFF &&
           mr_tiff_trouble(frame->plane[0].data, frame->plane[0].bytes, text, sizeof text);
}

/* Some decoders give a picture only when no packet follows. */
static int receive(AVCodecContext *codec, AVFrame *picture) {
    int error = avcodec_receive_frame(codec, picture);
    if (codec->codec->capabilities & AV_CODEC_CAP_DELAY) {
        if (error == AVERROR(EAGAIN) && (error = avcodec_send_packet(codec, NULL)) >= 0)
            error = avcodec_receive_frame(codec, picture);
        avcodec_flush_buffers(codec);
    }
    return error == AVERROR(EAGAIN) || error == AVERROR_EOF ? 0 : error;
}

static int decode(mr_still_decoder *decoder, AVCodecContext *codec, const mr_frame *frame, mr_background background,
                  int64_t number) {
    AVFrame *picture = decoder->picture;
    if (would_be_wrong(frame)) {
        mr_av_forget();
        return AVERROR_INVALIDDATA;
    }
    /* A picture without an aspect ratio must not inherit the previous one's. */
    codec->sample_aspect_ratio = (AVRational){0, 1};
    codec->reordered_opaque = number;
    if (is_heif(frame))
        return decode_heif(codec, frame, background, picture);
    if (mr_still_reduce(codec, &decoder->jpeg, decoder->packet, frame, picture))
        return 0;
    const int error = mr_codec_send(codec, decoder->packet, frame, number);
    return error < 0 ? error : receive(codec, picture);
}

/* Whether the picture needs a new decoder's tables or state. libavcodec's TIFF decoder keeps the last picture's
 * subsampling, and refuses the next one's strips by it. */
static bool is_used_up(const mr_frame *frame) {
    const mr_plane *plane = &frame->plane[0];
    const AVCodecParameters *stream = frame->media->codec;
    return stream->codec_id == AV_CODEC_ID_TIFF || mr_still_lacks_tables(stream->codec_id, plane->data, plane->bytes);
}

static int open_codec(mr_still_decoder *decoder, const mr_codec_params *params, const mr_frame *frame) {
    const AVCodecParameters *parameters = frame->media->codec;
    if (parameters->codec_id != decoder->id || is_used_up(frame))
        close_codecs(decoder);
    decoder->id = parameters->codec_id;
    return decoder->codec[params->scale] ? MR_OK : mr_codec_open(&decoder->codec[params->scale], params);
}

/* libavcodec loses the transparent value of a PNG of 1 bit. */
static int put_background(const mr_frame *frame, mr_background background, AVFrame *picture) {
    const mr_plane *file = &frame->plane[0];
    const AVCodecParameters *stream = frame->media->codec;
    if (stream->codec_id != AV_CODEC_ID_PNG || picture->format != AV_PIX_FMT_MONOBLACK)
        return mr_background_put(picture, background);
    const mr_still_part value = mr_png_find_chunk(file->data, file->bytes, "tRNS");
    if (value.bytes == 2)
        mr_background_put_bit(picture, value.data[1] & 1, background);
    return MR_OK;
}

/* Identifies a packet in the decoder's log. Numbers of packets in a video are positive, and -1 is reserved. */
static int64_t draw_ticket(void) {
    static _Atomic int64_t last = INT64_MIN;
    return atomic_fetch_add(&last, 1);
}

int mr_still_decode(mr_still_decoder *decoder, const mr_stage *self, mr_decode_target *target, mr_io *io) {
    const mr_decode_choices *from = self->options;
    const mr_frame *frame = mr_io_input(io);
    mr_decode_device *device = mr_decode_target_device(target);
    mr_codec_params params = {.self = self, .target = target, .media = frame->media, .stream = mr_io_stream(io),
                              .hurried = frame->deadline_ns};
    mr_pool *full = mr_decode_target_full(target);
    if (full)
        return mr_io_await_pool(io, full, 1);
    if (from->reduced != MR_REDUCED_OFF && !device)
        params.scale = mr_reduced_scale(&decoder->reduced, self, frame, mr_decode_most_pixels(self, frame->media));
    const mr_background background = (mr_background)from->background;
    int64_t ticket;
    do {
        const int status = open_codec(decoder, &params, frame);
        if (status)
            return status;
        ticket = draw_ticket();
        decoder->error = decode(decoder, decoder->codec[params.scale], frame, background, ticket);
        if (decoder->error >= 0)
            break;
        av_frame_unref(decoder->picture);
    } while (mr_decode_device_again(device) && (close_codecs(decoder), true));
    decoder->scale = params.scale;
    decoder->patched = mr_decode_log_blames(mr_decode_target_log(target), ticket);
    snprintf(decoder->complaint, sizeof decoder->complaint, "%s", mr_av_complaint());
    decoder->done = true;
    return decoder->picture->buf[0] ? put_background(frame, background, decoder->picture) : MR_OK;
}
