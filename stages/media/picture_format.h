/* Converts FFmpeg's picture description to millrace's.
 *
 * Most pixel layouts are carried unchanged. swscale converts the others (palettes, 4:1:1, more than 12 bits, 1 bit a
 * pixel, ...) to the nearest layout in the same family, without changing matrix or range. Functions are pure; one
 * thread may use a converter. */
#pragma once

#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>
#include <libswscale/swscale.h>

#include "millrace/frame.h"
#include "millrace/status.h"

/* The layout whose bytes equal FFmpeg's; MR_PIXEL_ANY if there is none. Alpha planes after the colour planes do not
 * belong to it. */
mr_pixel mr_pixel_from_av(enum AVPixelFormat format);

/* FFmpeg's name for a layout. */
enum AVPixelFormat mr_pixel_to_av(mr_pixel pixel);

/* The layout to convert any other format to, and FFmpeg's name for it. */
mr_pixel mr_pixel_nearest(enum AVPixelFormat format, enum AVPixelFormat *converted);

/* The layout in which decode emits this format; MR_PIXEL_ANY if it cannot be carried. */
mr_pixel mr_pixel_carried(enum AVPixelFormat format);

/* Lists the formats that are carried unchanged: the format at `index` and the layout; AV_PIX_FMT_NONE after the
 * last. */
enum AVPixelFormat mr_pixel_av_at(size_t index, mr_pixel *pixel);

/* Matrix and range for pictures whose stream does not specify them; ANY: as players do. */
typedef struct mr_untagged {
    mr_matrix matrix;
    mr_range range;
} mr_untagged;

/* Describes a decoded picture. If neither the stream nor `untagged` sets a field, the default is what players use.
 * Matrix: as mr_format_matrix. Range: full for RGB, JPEG's YUV and gray outside H.264, else limited. Chroma: centre in
 * JPEG, MPEG-1 and WebP, else left. Rotation and mirroring come from the picture (EXIF) or else the media. */
void mr_format_describe(mr_format *format, const AVFrame *picture, mr_pixel pixel, const AVCodecContext *codec,
                        const mr_media *media, mr_untagged untagged);

/* Rotation (degrees clockwise) and mirroring in a display matrix (nine words, as in ISO/IEC 14496-12); false if it is
 * degenerate. */
bool mr_rotation_from_matrix(const int32_t *matrix, int16_t *rotation, bool *flip);

/* swscale's coefficients for the picture's matrix. */
const int *mr_swscale_matrix(const mr_format *format);

/* What a scaler produces: size and format. The range is full. */
typedef struct mr_picture_target {
    int32_t width, height;
    enum AVPixelFormat format;
    const int *matrix; /* swscale's coefficients for Y'CbCr */
} mr_picture_target;

/* Creates a scaler from `from` pictures to `to`, with the matrix, range and chroma siting in `from`. If the result has
 * subsampled chroma, it is centred as in JPEG. The caller frees it with sws_freeContext. MR_ERROR_MEMORY, MR_ERROR_DATA
 * if swscale cannot do it. */
int mr_picture_scaler(struct SwsContext **scaler, const mr_format *from, const mr_picture_target *to);
/* A picture's planes and strides, as swscale takes them. */
void mr_picture_planes(const mr_frame *frame, uint8_t *planes[4], int strides[4]);

/* Converts to a frame that already has planes. *scaler is created if needed and kept for the next picture; free it with
 * sws_freeContext. MR_ERROR_DATA if swscale cannot do it. */
int mr_picture_convert(struct SwsContext **scaler, const AVFrame *picture, enum AVPixelFormat converted,
                       mr_frame *to);
