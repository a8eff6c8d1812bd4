#include "stages/media/picture_format.h"

#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <limits.h>
#include <math.h>

static const struct {
    enum AVPixelFormat av;
    mr_pixel pixel;
} layouts[] = {
    {AV_PIX_FMT_YUV420P, MR_PIXEL_I420},        {AV_PIX_FMT_YUVJ420P, MR_PIXEL_I420},
    {AV_PIX_FMT_YUV422P, MR_PIXEL_I422},        {AV_PIX_FMT_YUVJ422P, MR_PIXEL_I422},
    {AV_PIX_FMT_YUV440P, MR_PIXEL_I440},        {AV_PIX_FMT_YUVJ440P, MR_PIXEL_I440},
    {AV_PIX_FMT_YUV444P, MR_PIXEL_I444},        {AV_PIX_FMT_YUVJ444P, MR_PIXEL_I444},
    {AV_PIX_FMT_YUV420P10LE, MR_PIXEL_I420_10}, {AV_PIX_FMT_YUV422P10LE, MR_PIXEL_I422_10},
    {AV_PIX_FMT_YUV444P10LE, MR_PIXEL_I444_10}, {AV_PIX_FMT_YUV420P12LE, MR_PIXEL_I420_12},
    {AV_PIX_FMT_YUV422P12LE, MR_PIXEL_I422_12}, {AV_PIX_FMT_YUV444P12LE, MR_PIXEL_I444_12},
    {AV_PIX_FMT_NV12, MR_PIXEL_NV12},           {AV_PIX_FMT_P010LE, MR_PIXEL_P010},
    {AV_PIX_FMT_GRAY8, MR_PIXEL_GRAY8},         {AV_PIX_FMT_GRAY10LE, MR_PIXEL_GRAY10},
    {AV_PIX_FMT_GRAY12LE, MR_PIXEL_GRAY12},     {AV_PIX_FMT_GRAY16LE, MR_PIXEL_GRAY16},
    {AV_PIX_FMT_YA8, MR_PIXEL_YA8},             {AV_PIX_FMT_RGB24, MR_PIXEL_RGB24},
    {AV_PIX_FMT_BGR24, MR_PIXEL_BGR24},         {AV_PIX_FMT_RGBA, MR_PIXEL_RGBA},
    {AV_PIX_FMT_BGRA, MR_PIXEL_BGRA},           {AV_PIX_FMT_ARGB, MR_PIXEL_ARGB},
    {AV_PIX_FMT_ABGR, MR_PIXEL_ABGR},           {AV_PIX_FMT_RGB0, MR_PIXEL_RGBA},
    {AV_PIX_FMT_BGR0, MR_PIXEL_BGRA},           {AV_PIX_FMT_0RGB, MR_PIXEL_ARGB},
    {AV_PIX_FMT_0BGR, MR_PIXEL_ABGR},           {AV_PIX_FMT_GBRP, MR_PIXEL_GBR},
    {AV_PIX_FMT_GBRP10LE, MR_PIXEL_GBR_10},     {AV_PIX_FMT_GBRP12LE, MR_PIXEL_GBR_12},
    {AV_PIX_FMT_GBRAP, MR_PIXEL_GBR},           {AV_PIX_FMT_GBRAP10LE, MR_PIXEL_GBR_10},
    {AV_PIX_FMT_GBRAP12LE, MR_PIXEL_GBR_12},    {AV_PIX_FMT_YUVA420P, MR_PIXEL_I420},
    {AV_PIX_FMT_YUVA422P, MR_PIXEL_I422},       {AV_PIX_FMT_YUVA444P, MR_PIXEL_I444},
    {AV_PIX_FMT_YUVA420P10LE, MR_PIXEL_I420_10}, {AV_PIX_FMT_YUVA422P10LE, MR_PIXEL_I422_10},
    {AV_PIX_FMT_YUVA444P10LE, MR_PIXEL_I444_10}, {AV_PIX_FMT_YUVA422P12LE, MR_PIXEL_I422_12},
    {AV_PIX_FMT_YUVA444P12LE, MR_PIXEL_I444_12}};

mr_pixel mr_pixel_from_av(enum AVPixelFormat format) {
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].av == format)
            return layouts[i].pixel;
    return MR_PIXEL_ANY;
}

enum AVPixelFormat mr_pixel_to_av(mr_pixel pixel) {
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].pixel == pixel)
            return layouts[i].av;
    return AV_PIX_FMT_NONE;
}

static enum AVPixelFormat nearest_gray(int depth) {
    return depth <= 8 ? AV_PIX_FMT_GRAY8 : depth <= 10 ? AV_PIX_FMT_GRAY10LE : depth <= 12 ? AV_PIX_FMT_GRAY12LE
                                                                                          : AV_PIX_FMT_GRAY16LE;
}

/* Chroma must not lose more than one direction: 4:1:1 keeps its rows, 4:1:0 becomes halves. */
static enum AVPixelFormat nearest_yuv(const AVPixFmtDescriptor *from) {
    static const enum AVPixelFormat formats[3][3] = {
        {AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUV420P10LE, AV_PIX_FMT_YUV420P12LE},
        {AV_PIX_FMT_YUV422P, AV_PIX_FMT_YUV422P10LE, AV_PIX_FMT_YUV422P12LE},
        {AV_PIX_FMT_YUV444P, AV_PIX_FMT_YUV444P10LE, AV_PIX_FMT_YUV444P12LE}};
    int depth = from->comp[0].depth;
    int chroma = from->log2_chroma_w == 0 ? 2 : from->log2_chroma_h == 0 ? 1 : 0;
    return formats[chroma][depth <= 8 ? 0 : depth <= 10 ? 1 : 2];
}

static enum AVPixelFormat nearest_rgb(const AVPixFmtDescriptor *from) {
    int depth = from->comp[0].depth;
    if (depth <= 8 || from->flags & AV_PIX_FMT_FLAG_PAL)
        return from->flags & AV_PIX_FMT_FLAG_ALPHA ? AV_PIX_FMT_RGBA : AV_PIX_FMT_RGB24;
    return depth <= 10 ? AV_PIX_FMT_GBRP10LE : AV_PIX_FMT_GBRP12LE;
}

mr_pixel mr_pixel_nearest(enum AVPixelFormat format, enum AVPixelFormat *converted) {
    const AVPixFmtDescriptor *from = av_pix_fmt_desc_get(format);
    *converted = AV_PIX_FMT_NONE;
    if (!from || from->flags & AV_PIX_FMT_FLAG_HWACCEL)
        return MR_PIXEL_ANY;
    if (from->flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BAYER))
        *converted = nearest_rgb(from);
    else if (from->nb_components <= 2)
        *converted = nearest_gray(from->comp[0].depth);
    else
        *converted = nearest_yuv(from);
    return mr_pixel_from_av(*converted);
}

mr_pixel mr_pixel_carried(enum AVPixelFormat format) {
    enum AVPixelFormat converted;
    mr_pixel pixel = mr_pixel_from_av(format);
    return pixel ? pixel : mr_pixel_nearest(format, &converted);
}

enum AVPixelFormat mr_pixel_av_at(size_t index, mr_pixel *pixel) {
    if (index >= sizeof layouts / sizeof *layouts)
        return AV_PIX_FMT_NONE;
    *pixel = layouts[index].pixel;
    return layouts[index].av;
}

/* ---- colour ---------------------------------------------------------------------------------------------------- */

/* ANY if the stream does not specify it. */
static mr_matrix matrix_of(const AVFrame *picture) {
    switch (picture->colorspace) {
    case AVCOL_SPC_BT709:
    case AVCOL_SPC_SMPTE240M:
        return MR_MATRIX_BT709;
    case AVCOL_SPC_BT470BG:
    case AVCOL_SPC_SMPTE170M:
    case AVCOL_SPC_FCC:
        return MR_MATRIX_BT601;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL:
        return MR_MATRIX_BT2020;
    default:
        return MR_MATRIX_ANY;
    }
}

static bool is_jpeg_yuv(enum AVPixelFormat format) {
    return format == AV_PIX_FMT_YUVJ420P || format == AV_PIX_FMT_YUVJ422P || format == AV_PIX_FMT_YUVJ440P ||
           format == AV_PIX_FMT_YUVJ444P || format == AV_PIX_FMT_YUVJ411P;
}

static mr_range range_of(const AVFrame *picture, const mr_pixel_info *info, const AVCodecContext *codec,
                         mr_range untagged) {
    if (info->rgb || picture->color_range == AVCOL_RANGE_JPEG || is_jpeg_yuv(picture->format) ||
        codec->codec_id == AV_CODEC_ID_TIFF)
        return MR_RANGE_FULL;
    if (picture->color_range == AVCOL_RANGE_MPEG)
        return MR_RANGE_LIMITED;
    if (untagged != MR_RANGE_ANY)
        return untagged;
    return info->components == 1 && codec->codec_id != AV_CODEC_ID_H264 ? MR_RANGE_FULL : MR_RANGE_LIMITED;
}

static mr_siting siting_of(const AVFrame *picture, const mr_pixel_info *info, const AVCodecContext *codec) {
    if (info->chroma_w == 0 && info->chroma_h == 0)
        return MR_SITING_ANY;
    switch (picture->chroma_location) {
    case AVCHROMA_LOC_LEFT:
        return MR_SITING_LEFT;
    case AVCHROMA_LOC_CENTER:
        return MR_SITING_CENTER;
    case AVCHROMA_LOC_TOPLEFT:
        return MR_SITING_TOPLEFT;
    default:
        break;
    }
    bool centred = codec->codec_id == AV_CODEC_ID_MJPEG || codec->codec_id == AV_CODEC_ID_MPEG1VIDEO ||
                   codec->codec_id == AV_CODEC_ID_WEBP || codec->codec_id == AV_CODEC_ID_TIFF;
    return centred ? MR_SITING_CENTER : MR_SITING_LEFT;
}

/* A display matrix is [a b; c d] on (x, y), y downwards. An optional mirroring in x, then a clockwise turn by t, gives
 * a, b = +-(cos t, sin t) and c, d = (-sin t, cos t). The second row gives t, the determinant's sign gives the
 * mirroring. */
bool mr_rotation_from_matrix(const int32_t *matrix, int16_t *rotation, bool *flip) {
    double a = matrix[0], b = matrix[1], c = matrix[3], d = matrix[4];
    double determinant = a * d - b * c;
    if (determinant == 0)
        return false;
    int quarter = (int)lround(atan2(-c, d) / (M_PI / 2));
    *rotation = (int16_t)((quarter + 4) % 4 * 90);
    *flip = determinant < 0;
    return true;
}

static AVRational aspect_of(const AVFrame *picture, const mr_media *media) {
    const AVCodecParameters *stream = media ? media->codec : NULL;
    AVRational aspect = picture->sample_aspect_ratio;
    if (stream && stream->sample_aspect_ratio.num > 0 && stream->sample_aspect_ratio.den > 0)
        aspect = stream->sample_aspect_ratio;
    if (aspect.num <= 0 || aspect.den <= 0)
        return (AVRational){0, 0};
    av_reduce(&aspect.num, &aspect.den, aspect.num, aspect.den, INT_MAX);
    return aspect;
}

void mr_format_describe(mr_format *format, const AVFrame *picture, mr_pixel pixel, const AVCodecContext *codec,
                        const mr_media *media, mr_untagged untagged) {
    const mr_pixel_info *info = mr_pixel_describe(pixel);
    AVRational aspect = aspect_of(picture, media);
    *format = (mr_format){.payload = MR_PAYLOAD_PICTURE, .pixel = pixel, .width = picture->width,
                          .height = picture->height, .matrix = info->rgb ? MR_MATRIX_ANY : matrix_of(picture),
                          .range = range_of(picture, info, codec, untagged.range),
                          .siting = siting_of(picture, info, codec),
                          .sar_num = aspect.num, .sar_den = aspect.den};
    if (codec->lowres) {
        format->reduced = (uint8_t)codec->lowres;
        format->whole_width = codec->coded_width;
        format->whole_height = codec->coded_height;
    }
    if (!info->rgb && format->matrix == MR_MATRIX_ANY)
        format->matrix = untagged.matrix;
    if (!info->rgb)
        format->matrix = mr_format_matrix(format);
    if (media) {
        format->rotation = media->rotation;
        format->flip = media->flip;
    }
    const AVFrameSideData *side = av_frame_get_side_data(picture, AV_FRAME_DATA_DISPLAYMATRIX);
    if (side && side->size >= 9 * sizeof(int32_t))
        mr_rotation_from_matrix((const int32_t *)(const void *)side->data, &format->rotation, &format->flip);
}

/* ---- conversion ------------------------------------------------------------------------------------------------ */

const int *mr_swscale_matrix(const mr_format *format) {
    static const int names[] = {
        [MR_MATRIX_BT601] = SWS_CS_ITU601, [MR_MATRIX_BT709] = SWS_CS_ITU709, [MR_MATRIX_BT2020] = SWS_CS_BT2020};
    return sws_getCoefficients(names[mr_format_matrix(format)]);
}

/* In 1/256 luma sample, as swscale counts; -513: swscale decides. */
static int siting_h(mr_siting siting) {
    return siting == MR_SITING_ANY ? -513 : siting == MR_SITING_CENTER ? 128 : 0;
}

static int siting_v(mr_siting siting) {
    return siting == MR_SITING_ANY ? -513 : siting == MR_SITING_TOPLEFT ? 0 : 128;
}

static void set_sizes(struct SwsContext *scaler, const mr_format *from, const mr_picture_target *to) {
    bool smaller = to->width < from->width || to->height < from->height;
    av_opt_set_int(scaler, "srcw", from->width, 0);
    av_opt_set_int(scaler, "srch", from->height, 0);
    av_opt_set_int(scaler, "src_format", mr_pixel_to_av(from->pixel), 0);
    av_opt_set_int(scaler, "dstw", to->width, 0);
    av_opt_set_int(scaler, "dsth", to->height, 0);
    av_opt_set_int(scaler, "dst_format", to->format, 0);
    av_opt_set_int(scaler, "sws_flags", (smaller ? SWS_AREA : SWS_BILINEAR) | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT |
                                            SWS_FULL_CHR_H_INP, 0);
}

int mr_picture_scaler(struct SwsContext **result, const mr_format *from, const mr_picture_target *to) {
    struct SwsContext *scaler = sws_alloc_context();
    const AVPixFmtDescriptor *made = av_pix_fmt_desc_get(to->format);
    if (!scaler || !made) {
        sws_freeContext(scaler);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    bool halved = mr_pixel_describe(from->pixel)->chroma_h;
    set_sizes(scaler, from, to);
    av_opt_set_int(scaler, "src_h_chr_pos", siting_h(from->siting), 0);
    av_opt_set_int(scaler, "src_v_chr_pos", halved ? siting_v(from->siting) : -513, 0);
    if (made->log2_chroma_h) {
        av_opt_set_int(scaler, "dst_h_chr_pos", 128, 0);
        av_opt_set_int(scaler, "dst_v_chr_pos", 128, 0);
    }
    int full = mr_format_range(from) == MR_RANGE_FULL;
    sws_setColorspaceDetails(scaler, mr_swscale_matrix(from), full, to->matrix, 1, 0, 1 << 16, 1 << 16);
    if (sws_init_context(scaler, NULL, NULL) < 0) {
        sws_freeContext(scaler);
        return mr_fail(MR_ERROR_DATA, "a picture cannot be converted to %s", made->name);
    }
    *result = scaler;
    return MR_OK;
}

void mr_picture_planes(const mr_frame *frame, uint8_t *planes[4], int strides[4]) {
    const int count = mr_pixel_describe(frame->format.pixel)->planes;
    for (int i = 0; i < 4; i++) {
        planes[i] = i < count ? frame->plane[i].data : NULL;
        strides[i] = i < count ? (int)frame->plane[i].stride : 0;
    }
}

int mr_picture_convert(struct SwsContext **scaler, const AVFrame *picture, enum AVPixelFormat converted,
                       mr_frame *to) {
    *scaler = sws_getCachedContext(*scaler, picture->width, picture->height, picture->format, picture->width,
                                   picture->height, converted, SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP,
                                   NULL, NULL, NULL);
    if (!*scaler)
        return mr_fail(MR_ERROR_DATA, "pictures of pixel format %s cannot be converted",
                       av_get_pix_fmt_name(picture->format));
    /* Both sides use the same matrix and range, so that samples keep their meaning. */
    int full = mr_format_range(&to->format) == MR_RANGE_FULL;
    const int *matrix = mr_swscale_matrix(&to->format);
    sws_setColorspaceDetails(*scaler, matrix, full, matrix, full, 0, 1 << 16, 1 << 16);
    uint8_t *planes[4];
    int strides[4];
    mr_picture_planes(to, planes, strides);
    int rows = sws_scale(*scaler, (const uint8_t *const *)picture->data, picture->linesize, 0, picture->height,
                         planes, strides);
    return rows == picture->height ? MR_OK : mr_fail(MR_ERROR_DATA, "a picture could not be converted");
}
