#include "stages/media/still/jpeg.h"

#include <libavutil/opt.h>
#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

/* The quantizer scale for a quality as JPEG libraries count it (100: best). FFmpeg uses MPEG-1 matrices: at 15 they are
 * about as coarse as JPEG's at 50. */
static int quantizer(int quality) {
    double scale = quality < 50 ? 50.0 / quality : 2 - quality / 50.0;
    double q = 15 * scale;
    return q < 1 ? 1 : q > 31 ? 31 : (int)lround(q);
}

static int open_codec(mr_jpeg_encoder *encoder, const AVFrame *picture) {
    encoder->count = 0;
    avcodec_free_context(&encoder->codec);
    const AVCodec *type = avcodec_find_encoder(AV_CODEC_ID_MJPEG);
    AVCodecContext *codec = type ? avcodec_alloc_context3(type) : NULL;
    if (!codec)
        return mr_fail(MR_ERROR_UNAVAILABLE, "this FFmpeg has no JPEG encoder");
    codec->width = picture->width;
    codec->height = picture->height;
    codec->pix_fmt = picture->format;
    codec->color_range = AVCOL_RANGE_JPEG;
    codec->time_base = (AVRational){1, 25};
    /* JFIF requires it. */
    codec->sample_aspect_ratio =
        picture->sample_aspect_ratio.num > 0 ? picture->sample_aspect_ratio : (AVRational){1, 1};
    codec->thread_count = 1;
    codec->flags |= AV_CODEC_FLAG_QSCALE | AV_CODEC_FLAG_BITEXACT;
    codec->qmin = 1;
    codec->global_quality = quantizer(encoder->quality) * FF_QP2LAMBDA;
    /* Optimised tables per picture would save a few percent, but need a second pass. */
    av_opt_set(codec->priv_data, "huffman", "default", 0);
    encoder->codec = codec;
    int error = avcodec_open2(codec, type, NULL);
    if (error >= 0)
        return MR_OK;
    avcodec_free_context(&encoder->codec);
    return mr_fail(MR_ERROR_DATA, "the JPEG encoder does not start: error %d", error);
}

static int copy_packet(const AVPacket *packet, mr_upright upright, size_t before, uint8_t **block, size_t *bytes) {
    const size_t marker = 2, size = (size_t)packet->size;
    const size_t exif = upright.rotation || upright.flip ? MR_EXIF_SEGMENT_BYTES : 0;
    *block = mr_alloc(before + size + exif);
    if (!*block)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    uint8_t *to = *block + before;
    memcpy(to, packet->data, marker);
    if (exif)
        mr_exif_write_segment(to + marker, upright);
    memcpy(to + marker + exif, packet->data + marker, size - marker);
    *bytes = size + exif;
    return MR_OK;
}

static bool suits(const AVCodecContext *codec, const AVFrame *picture) {
    return codec && codec->width == picture->width && codec->height == picture->height &&
           codec->pix_fmt == picture->format;
}

int mr_jpeg_encode(mr_jpeg_encoder *encoder, AVFrame *picture, mr_upright upright, size_t before, uint8_t **block,
                   size_t *bytes) {
    if (!encoder->packet && !(encoder->packet = av_packet_alloc()))
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    int status = suits(encoder->codec, picture) ? MR_OK : open_codec(encoder, picture);
    if (status)
        return status;
    /* The encoder needs rising times. */
    picture->pts = encoder->count++;
    picture->quality = encoder->codec->global_quality;
    int error = avcodec_send_frame(encoder->codec, picture);
    if (error >= 0)
        error = avcodec_receive_packet(encoder->codec, encoder->packet);
    if (error < 0 || encoder->packet->size < 4)
        status = mr_fail(MR_ERROR_DATA, "a picture could not be written as JPEG: error %d", error);
    else
        status = copy_packet(encoder->packet, upright, before, block, bytes);
    av_packet_unref(encoder->packet);
    return status;
}

void mr_jpeg_encoder_close(mr_jpeg_encoder *encoder) {
    avcodec_free_context(&encoder->codec);
    av_packet_free(&encoder->packet);
}
