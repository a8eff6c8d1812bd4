#include "stages/sink/still_encoder.h"

#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <string.h>
#include <strings.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/media/picture_format.h"

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static const enum AVCodecID codecs[] = {[MR_STILL_PNG] = AV_CODEC_ID_PNG, [MR_STILL_JPEG] = AV_CODEC_ID_MJPEG,
                                        [MR_STILL_WEBP] = AV_CODEC_ID_WEBP};

mr_still_kind mr_still_kind_of(const char *name) {
    static const struct {
        const char *ending;
        mr_still_kind kind;
    } known[] = {{".png", MR_STILL_PNG}, {".jpg", MR_STILL_JPEG}, {".jpeg", MR_STILL_JPEG}, {".webp", MR_STILL_WEBP}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
        if (strcasecmp(dot, known[i].ending) == 0)
            return known[i].kind;
    return MR_STILL_NONE;
}

/* libavcodec has two WebP encoders. The animation encoder would treat one picture as the first in a series. */
static const AVCodec *find_encoder(mr_still_kind kind) {
    return kind == MR_STILL_WEBP ? avcodec_find_encoder_by_name("libwebp") : avcodec_find_encoder(codecs[kind]);
}

int mr_still_encoder_check(mr_still_kind kind) {
    if (find_encoder(kind))
        return MR_OK;
    return mr_fail(MR_ERROR_UNAVAILABLE, "this FFmpeg has no encoder for %s", avcodec_get_name(codecs[kind]));
}

/* ---- turning ----------------------------------------------------------------------------------------------------- */

/* Samples with `bytes` bytes, from a plane with width x height. */
typedef struct plane {
    const uint8_t *data;
    ptrdiff_t stride;
    int width, height, bytes;
} plane;

/* Mirrors left to right if needed, then turns clockwise. */
static void turn_plane(const plane *from, mr_upright upright, uint8_t *to, ptrdiff_t stride) {
    const bool across = upright.rotation % 180;
    const int width = across ? from->height : from->width, height = across ? from->width : from->height;
    for (int y = 0; y < height; y++) {
        uint8_t *out = to + stride * y;
        for (int x = 0; x < width; x++, out += from->bytes) {
            int u = across ? y : x, v = across ? x : y;
            if (upright.rotation == 180 || upright.rotation == 270)
                u = from->width - 1 - u;
            if (upright.rotation == 90 || upright.rotation == 180)
                v = from->height - 1 - v;
            if (upright.flip)
                u = from->width - 1 - u;
            memcpy(out, from->data + from->stride * v + (ptrdiff_t)from->bytes * u, (size_t)from->bytes);
        }
    }
}

static void turn(const AVFrame *from, mr_upright upright, AVFrame *to) {
    const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(from->format);
    const int planes = av_pix_fmt_count_planes(from->format);
    for (int i = 0; i < planes; i++) {
        const bool chroma = planes > 1 && i > 0;
        const plane one = {from->data[i], from->linesize[i],
                           AV_CEIL_RSHIFT(from->width, chroma ? about->log2_chroma_w : 0),
                           AV_CEIL_RSHIFT(from->height, chroma ? about->log2_chroma_h : 0), about->comp[i].step};
        turn_plane(&one, upright, to->data[i], to->linesize[i]);
    }
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static enum AVPixelFormat png_layout(mr_pixel pixel) {
    const mr_pixel_info *info = mr_pixel_describe(pixel);
    const AVPixFmtDescriptor *av = av_pix_fmt_desc_get(mr_pixel_to_av(pixel));
    if (pixel == MR_PIXEL_YA8)
        return AV_PIX_FMT_YA8;
    if (info->components == 1)
        return info->depth > 8 ? AV_PIX_FMT_GRAY16BE : AV_PIX_FMT_GRAY8;
    if (info->depth > 8)
        return AV_PIX_FMT_RGB48BE;
    return av->flags & AV_PIX_FMT_FLAG_ALPHA ? AV_PIX_FMT_RGBA : AV_PIX_FMT_RGB24;
}

/* Halved chroma with an odd size cannot be turned without shifting: such a picture keeps full chroma. */
static enum AVPixelFormat jpeg_layout(const mr_format *format, bool turned) {
    return turned && (format->width & 1 || format->height & 1) ? AV_PIX_FMT_YUVJ444P : AV_PIX_FMT_YUVJ420P;
}

static mr_upright upright_of(const mr_format *format) {
    return (mr_upright){format->rotation, format->flip};
}

/* Whether pixels must be turned. */
static bool is_turned(const mr_still_encoder *encoder, const mr_format *format) {
    return encoder->choices.turn && (format->rotation || format->flip);
}

static enum AVPixelFormat layout_of(const mr_still_encoder *encoder, const mr_format *format) {
    if (encoder->choices.kind == MR_STILL_PNG)
        return png_layout(format->pixel);
    return encoder->choices.kind == MR_STILL_WEBP ? AV_PIX_FMT_BGRA : jpeg_layout(format, is_turned(encoder, format));
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static void close_parts(mr_still_encoder *encoder) {
    sws_freeContext(encoder->scaler);
    encoder->scaler = NULL;
    avcodec_free_context(&encoder->codec);
    av_frame_free(&encoder->picture);
    av_frame_free(&encoder->turned);
}

void mr_still_encoder_close(mr_still_encoder *encoder) {
    close_parts(encoder);
    av_packet_free(&encoder->packet);
    mr_jpeg_encoder_close(&encoder->jpeg);
}

static AVFrame *make_picture(enum AVPixelFormat layout, int width, int height, AVRational aspect) {
    AVFrame *made = av_frame_alloc();
    if (!made)
        return NULL;
    made->format = layout;
    made->width = width;
    made->height = height;
    made->sample_aspect_ratio = aspect;
    made->color_range = AVCOL_RANGE_JPEG;
    if (av_frame_get_buffer(made, 0) < 0)
        av_frame_free(&made);
    return made;
}

static int open_codec(mr_still_encoder *encoder, const AVFrame *picture) {
    const AVCodec *type = find_encoder(encoder->choices.kind);
    AVCodecContext *codec = type ? avcodec_alloc_context3(type) : NULL;
    if (!codec)
        return type ? mr_fail(MR_ERROR_MEMORY, "out of memory") : mr_still_encoder_check(encoder->choices.kind);
    encoder->codec = codec;
    codec->width = picture->width;
    codec->height = picture->height;
    codec->pix_fmt = picture->format;
    codec->time_base = (AVRational){1, 25};
    codec->thread_count = 1;
    codec->sample_aspect_ratio = picture->sample_aspect_ratio;
    if (encoder->choices.kind == MR_STILL_PNG)
        codec->compression_level = encoder->choices.compression;
    else
        av_opt_set_double(codec->priv_data, "quality", encoder->choices.quality, 0);
    int error = avcodec_open2(codec, type, NULL);
    return error < 0 ? mr_fail(MR_ERROR_DATA, "the encoder %s does not start: error %d", type->name, error) : MR_OK;
}

static int make_pictures(mr_still_encoder *encoder, const mr_format *format, enum AVPixelFormat layout) {
    AVRational aspect = {format->sar_num > 0 && format->sar_den > 0 ? format->sar_num : 0,
                         format->sar_num > 0 && format->sar_den > 0 ? format->sar_den : 1};
    encoder->picture = make_picture(layout, format->width, format->height, aspect);
    if (!encoder->picture)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (!is_turned(encoder, format))
        return MR_OK;
    const bool across = format->rotation % 180;
    if (across && aspect.num)
        aspect = (AVRational){aspect.den, aspect.num};
    encoder->turned = make_picture(layout, across ? format->height : format->width,
                                   across ? format->width : format->height, aspect);
    return encoder->turned ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
}

/* Creates the parts for a format, unless they exist for it. */
static int prepare(mr_still_encoder *encoder, const mr_format *format) {
    const mr_still_kind kind = encoder->choices.kind;
    if (encoder->scaler && mr_format_same_picture(&encoder->format, format))
        return MR_OK;
    close_parts(encoder);
    const enum AVPixelFormat layout = layout_of(encoder, format);
    const mr_picture_target target = {format->width, format->height, layout,
                                      kind == MR_STILL_JPEG ? sws_getCoefficients(SWS_CS_ITU601)
                                                            : mr_swscale_matrix(format)};
    int status = make_pictures(encoder, format, layout);
    if (!status)
        status = mr_picture_scaler(&encoder->scaler, format, &target);
    if (!status && kind != MR_STILL_JPEG)
        status = open_codec(encoder, encoder->turned ? encoder->turned : encoder->picture);
    if (status)
        close_parts(encoder);
    encoder->format = *format;
    return status;
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

static int encode_packet(mr_still_encoder *encoder, AVFrame *picture, uint8_t **data, size_t *bytes) {
    if (!encoder->packet && !(encoder->packet = av_packet_alloc()))
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    int error = avcodec_send_frame(encoder->codec, picture);
    if (error >= 0)
        error = avcodec_receive_packet(encoder->codec, encoder->packet);
    if (error < 0)
        return mr_fail(MR_ERROR_DATA, "a picture could not be written by %s: error %d", encoder->codec->codec->name,
                       error);
    *data = mr_alloc((size_t)encoder->packet->size);
    *bytes = (size_t)encoder->packet->size;
    if (*data)
        memcpy(*data, encoder->packet->data, *bytes);
    av_packet_unref(encoder->packet);
    return *data ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
}

int mr_still_encode(mr_still_encoder *encoder, const mr_frame *frame, uint8_t **data, size_t *bytes) {
    uint8_t *planes[4];
    int strides[4];
    int status = prepare(encoder, &frame->format);
    if (status)
        return status;
    AVFrame *picture = encoder->picture, *turned = encoder->turned;
    mr_picture_planes(frame, planes, strides);
    if (av_frame_make_writable(picture) < 0 || (turned && av_frame_make_writable(turned) < 0))
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    sws_scale(encoder->scaler, (const uint8_t *const *)planes, strides, 0, frame->format.height, picture->data,
              picture->linesize);
    if (turned)
        turn(picture, upright_of(&frame->format), turned);
    if (encoder->choices.kind != MR_STILL_JPEG)
        return encode_packet(encoder, turned ? turned : picture, data, bytes);
    encoder->jpeg.quality = encoder->choices.quality;
    return mr_jpeg_encode(&encoder->jpeg, turned ? turned : picture,
                          encoder->choices.turn ? (mr_upright){0} : upright_of(&frame->format), 0, data, bytes);
}
