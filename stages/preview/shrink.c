#include "stages/preview/shrink.h"

#include <math.h>

#include "stages/media/picture_format.h"

/* Maximum rows per requested column. */
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

static int prepare(mr_shrinker *shrinker, const mr_format *format, int32_t width) {
    if (shrinker->scaler && mr_format_same_picture(&shrinker->format, format))
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
