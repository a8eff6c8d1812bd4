#include "stages/preview/shrink.h"

#include <libavutil/opt.h>
#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "stages/media/picture_format.h"

/* Rows for each column of the width that was asked for, at most. */
enum { TALLEST = 4 };

/* ---- shrinking ------------------------------------------------------------------------------------------------- */

static int32_t rounded(double value, int32_t most) {
    return value < 1 ? 1 : value > most ? most : (int32_t)lround(value);
}

mr_size mr_shrink_size(const mr_format *format, int32_t width) {
    double wide = format->width, high = format->height;
    if (format->sar_num > 0 && format->sar_den > 0)
        wide *= (double)format->sar_num / format->sar_den;
    double scale = fmin(1, fmin(width / wide, (double)width * TALLEST / high));
    return (mr_size){rounded(wide * scale, width), rounded(high * scale, width * TALLEST)};
}

static bool same_pictures(const mr_format *a, const mr_format *b) {
    return a->pixel == b->pixel && a->width == b->width && a->height == b->height && a->matrix == b->matrix &&
           a->range == b->range && a->siting == b->siting && a->sar_num == b->sar_num && a->sar_den == b->sar_den;
}

static int prepare(mr_shrinker *shrinker, const mr_format *format, int32_t width) {
    if (shrinker->scaler && same_pictures(&shrinker->format, format))
        return MR_OK;
    mr_shrinker_close(shrinker);
    mr_size size = mr_shrink_size(format, width);
    const mr_picture_target target = {size.width, size.height, AV_PIX_FMT_YUV420P,
                                      sws_getCoefficients(SWS_CS_ITU601)};
    int status = mr_picture_scaler(&shrinker->scaler, format, &target);
    shrinker->format = *format;
    shrinker->width = size.width;
    shrinker->height = size.height;
    return status;
}

static int make_room(const mr_shrinker *shrinker, AVFrame *to) {
    if (to->buf[0] && to->width == shrinker->width && to->height == shrinker->height && av_frame_is_writable(to) > 0)
        return MR_OK;
    av_frame_unref(to);
    to->format = AV_PIX_FMT_YUVJ420P;
    to->color_range = AVCOL_RANGE_JPEG;
    to->width = shrinker->width;
    to->height = shrinker->height;
    return av_frame_get_buffer(to, 0) < 0 ? mr_fail(MR_ERROR_MEMORY, "out of memory") : MR_OK;
}

int mr_shrink(mr_shrinker *shrinker, const mr_frame *frame, int32_t width, AVFrame *to) {
    uint8_t *planes[4];
    int strides[4];
    int status = prepare(shrinker, &frame->format, width);
    if (!status)
        status = make_room(shrinker, to);
    if (status)
        return status;
    mr_picture_planes(frame, planes, strides);
    int rows = sws_scale(shrinker->scaler, (const uint8_t *const *)planes, strides, 0, frame->format.height, to->data,
                         to->linesize);
    return rows == shrinker->height ? MR_OK : mr_fail(MR_ERROR_DATA, "a picture could not be made smaller");
}

void mr_shrinker_close(mr_shrinker *shrinker) {
    sws_freeContext(shrinker->scaler);
    *shrinker = (mr_shrinker){0};
}

/* ---- JPEG ------------------------------------------------------------------------------------------------------ */

/* The factor of the quantization matrices for a quality, as JPEG libraries count it (100: best). FFmpeg's matrices are
 * those of MPEG-1, which at 15 are about as coarse as JPEG's own at 50. */
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
    codec->pix_fmt = AV_PIX_FMT_YUVJ420P;
    codec->color_range = AVCOL_RANGE_JPEG;
    codec->time_base = (AVRational){1, 25};
    codec->sample_aspect_ratio = (AVRational){1, 1}; /* else it would not be JFIF */
    codec->thread_count = 1;
    codec->flags |= AV_CODEC_FLAG_QSCALE | AV_CODEC_FLAG_BITEXACT;
    codec->qmin = 1;
    codec->global_quality = quantizer(encoder->quality) * FF_QP2LAMBDA;
    /* Tables of its own for each picture would save some percent, and take a second pass. */
    av_opt_set(codec->priv_data, "huffman", "default", 0);
    encoder->codec = codec;
    int error = avcodec_open2(codec, type, NULL);
    if (error >= 0)
        return MR_OK;
    avcodec_free_context(&encoder->codec);
    return mr_fail(MR_ERROR_DATA, "the JPEG encoder does not start: error %d", error);
}

enum { EXIF_BYTES = 36, ORIENTATION_AT = 29 };

/* The orientation of TIFF 6.0 (tag 274) for a picture that is mirrored, if it is, and then turned clockwise. */
static uint8_t orientation(mr_upright upright) {
    static const uint8_t turned[] = {1, 6, 3, 8}, mirrored[] = {2, 7, 4, 5};
    int quarter = (upright.rotation % 360 + 360) % 360 / 90;
    return upright.flip ? mirrored[quarter] : turned[quarter];
}

/* An EXIF segment with one entry. */
static void write_exif(uint8_t to[EXIF_BYTES], uint8_t value) {
    static const uint8_t segment[EXIF_BYTES] = {0xff, 0xe1, 0, EXIF_BYTES - 2, 'E', 'x', 'i', 'f', 0, 0,
                                                'M', 'M', 0, 42, 0, 0, 0, 8, /* big-endian; the directory follows */
                                                0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(to, segment, EXIF_BYTES);
    to[ORIENTATION_AT] = value;
}

static uint8_t *copy_packet(const AVPacket *packet, mr_upright upright, size_t before, size_t *bytes) {
    const size_t marker = 2, size = (size_t)packet->size;
    const uint8_t value = orientation(upright);
    const size_t exif = value == 1 ? 0 : EXIF_BYTES;
    uint8_t *block = mr_alloc(before + size + exif);
    if (!block) {
        mr_fail(MR_ERROR_MEMORY, "out of memory");
        return NULL;
    }
    uint8_t *to = block + before;
    memcpy(to, packet->data, marker);
    if (exif)
        write_exif(to + marker, value);
    memcpy(to + marker + exif, packet->data + marker, size - marker);
    *bytes = size + exif;
    return block;
}

uint8_t *mr_jpeg_encode(mr_jpeg_encoder *encoder, AVFrame *picture, mr_upright upright, size_t before, size_t *bytes) {
    AVCodecContext *codec = encoder->codec;
    uint8_t *block = NULL;
    if (!encoder->packet && !(encoder->packet = av_packet_alloc())) {
        mr_fail(MR_ERROR_MEMORY, "out of memory");
        return NULL;
    }
    if ((!codec || codec->width != picture->width || codec->height != picture->height) && open_codec(encoder, picture))
        return NULL;
    /* The encoder takes pictures in the order of their times only. */
    picture->pts = encoder->count++;
    picture->quality = encoder->codec->global_quality;
    int error = avcodec_send_frame(encoder->codec, picture);
    if (error >= 0)
        error = avcodec_receive_packet(encoder->codec, encoder->packet);
    if (error < 0 || encoder->packet->size < 4)
        mr_fail(MR_ERROR_DATA, "a picture could not be written as JPEG: error %d", error);
    else
        block = copy_packet(encoder->packet, upright, before, bytes);
    av_packet_unref(encoder->packet);
    return block;
}

void mr_jpeg_encoder_close(mr_jpeg_encoder *encoder) {
    avcodec_free_context(&encoder->codec);
    av_packet_free(&encoder->packet);
}
