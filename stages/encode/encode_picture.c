#include "stages/encode/encode_picture.h"

#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <string.h>

#include "millrace/status.h"
#include "stages/media/media_codec.h"
#include "stages/media/picture_format.h"

/* ---- conversion -------------------------------------------------------------------------------------------------- */

static bool is_rgb(const mr_format *format) {
    return mr_pixel_describe(format->pixel)->rgb;
}

/* Gray has no matrix. Pictures with unknown colour are treated as players do, and `to` is tagged that way too. */
static bool same_colour(const mr_format *from, const mr_format *to) {
    bool colour = mr_pixel_describe(from->pixel)->components > 1;
    return !is_rgb(from) && mr_format_range(from) == mr_format_range(to) &&
           (!colour || mr_format_matrix(from) == mr_format_matrix(to));
}

static int make_scaler(mr_encode_picture *picture) {
    const mr_format *from = &picture->from, *to = &picture->to;
    struct SwsContext *scaler = sws_alloc_context();
    if (!scaler)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    picture->scaler = scaler;
    av_opt_set_int(scaler, "srcw", from->width, 0);
    av_opt_set_int(scaler, "srch", from->height, 0);
    av_opt_set_int(scaler, "src_format", mr_pixel_to_av(from->pixel), 0);
    av_opt_set_int(scaler, "dstw", from->width, 0);
    av_opt_set_int(scaler, "dsth", from->height, 0);
    av_opt_set_int(scaler, "dst_format", mr_pixel_to_av(to->pixel), 0);
    av_opt_set_int(scaler, "sws_flags", SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP | SWS_BITEXACT, 0);
    sws_setColorspaceDetails(scaler, mr_swscale_matrix(from), mr_format_range(from) == MR_RANGE_FULL,
                             mr_swscale_matrix(to), mr_format_range(to) == MR_RANGE_FULL, 0, 1 << 16, 1 << 16);
    return sws_init_context(scaler, NULL, NULL) < 0
               ? mr_fail(MR_ERROR_DATA, "pictures of %s cannot be converted to %s",
                         mr_pixel_describe(from->pixel)->name, mr_pixel_describe(to->pixel)->name)
               : MR_OK;
}

static int make_copy(mr_encode_picture *picture) {
    picture->copy = av_frame_alloc();
    if (!picture->copy)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    picture->copy->format = mr_pixel_to_av(picture->to.pixel);
    picture->copy->width = picture->to.width;
    picture->copy->height = picture->to.height;
    return av_frame_get_buffer(picture->copy, 0) < 0 ? mr_fail(MR_ERROR_MEMORY, "out of memory") : MR_OK;
}

int mr_encode_picture_begin(mr_encode_picture *picture, const mr_format *from, const mr_format *to) {
    mr_encode_picture_end(picture);
    picture->from = *from;
    picture->to = *to;
    bool converts = from->pixel != to->pixel || !same_colour(from, to);
    int status = converts ? make_scaler(picture) : MR_OK;
    if (!status && (converts || from->width != to->width || from->height != to->height))
        status = make_copy(picture);
    if (status)
        mr_encode_picture_end(picture);
    return status;
}

void mr_encode_picture_end(mr_encode_picture *picture) {
    sws_freeContext(picture->scaler);
    av_frame_free(&picture->copy);
    *picture = (mr_encode_picture){0};
}

/* ---- filling up -------------------------------------------------------------------------------------------------- */

/* Repeats each row's last sample, and the last row, in one plane. Only for planar layouts and NV12. NV12 chroma needs
 * no filling: an odd size already has its last chroma sample. */
static void fill_plane(AVFrame *copy, const mr_row *row, const mr_format *to) {
    const size_t wide = mr_plane_row_bytes(to->pixel, row->plane, to->width);
    const size_t sample = mr_pixel_describe(to->pixel)->depth > 8 ? 2 : 1;
    uint8_t *data = copy->data[row->plane];
    ptrdiff_t stride = copy->linesize[row->plane];
    for (int y = 0; y < row->rows; y++)
        for (size_t x = row->bytes; x < wide; x++)
            data[y * stride + (ptrdiff_t)x] = data[y * stride + (ptrdiff_t)(x - sample)];
    for (int y = row->rows; y < mr_plane_rows(to->pixel, row->plane, to->height); y++)
        memcpy(data + y * stride, data + (row->rows - 1) * stride, wide);
}

static int convert(mr_encode_picture *picture, const uint8_t *const *planes, const int *strides, AVFrame *wrapped) {
    const mr_format *from = &picture->from;
    if (av_frame_make_writable(picture->copy) < 0)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (picture->scaler) {
        int rows = sws_scale(picture->scaler, planes, strides, 0, from->height, picture->copy->data,
                             picture->copy->linesize);
        if (rows < 0)
            return mr_fail(MR_ERROR_DATA, "a picture cannot be converted to %s",
                           mr_pixel_describe(picture->to.pixel)->name);
    } else {
        const uint8_t *each[4] = {planes[0], planes[1], planes[2], planes[3]};
        av_image_copy(picture->copy->data, picture->copy->linesize, each, strides, mr_pixel_to_av(from->pixel),
                      from->width, from->height);
    }
    const mr_format filled = {.pixel = picture->to.pixel, .width = from->width, .height = from->height};
    for (mr_row row = {0}; mr_next_plane(&filled, &row);)
        fill_plane(picture->copy, &row, &picture->to);
    return av_frame_ref(wrapped, picture->copy) < 0 ? mr_fail(MR_ERROR_MEMORY, "out of memory") : MR_OK;
}

/* ---- lending ----------------------------------------------------------------------------------------------------- */

/* Refers to the buffers, not to the frame: its receipt must close even while an encoder holds the picture. */
static int lend_planes(const mr_frame *frame, AVFrame *wrapped) {
    wrapped->format = mr_pixel_to_av(frame->format.pixel);
    wrapped->width = frame->format.width;
    wrapped->height = frame->format.height;
    for (int i = 0; i < mr_pixel_describe(frame->format.pixel)->planes; i++) {
        const mr_plane *plane = &frame->plane[i];
        wrapped->data[i] = plane->data;
        wrapped->linesize[i] = (int)plane->stride;
        wrapped->buf[i] = mr_buffer_lend(plane->buffer, plane->data, plane->bytes);
        if (!wrapped->buf[i])
            return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    return MR_OK;
}

int mr_encode_picture_lend(mr_encode_picture *picture, const mr_frame *frame, AVFrame *wrapped) {
    uint8_t *planes[4];
    int strides[4];
    if (!picture->copy)
        return lend_planes(frame, wrapped);
    mr_picture_planes(frame, planes, strides);
    return convert(picture, (const uint8_t *const *)planes, strides, wrapped);
}

int mr_encode_picture_lend_av(mr_encode_picture *picture, const AVFrame *from, AVFrame *wrapped) {
    if (picture->copy)
        return convert(picture, (const uint8_t *const *)from->data, from->linesize, wrapped);
    return av_frame_ref(wrapped, from) < 0 ? mr_fail(MR_ERROR_MEMORY, "out of memory") : MR_OK;
}
