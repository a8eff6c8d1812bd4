/* From FFmpeg's description of a picture to millrace's.
 *
 * Most pixel layouts are carried as they are. The others (palettes, 4:1:1, more than 12 bits of colour, one bit
 * a pixel, ...) are converted by swscale to the nearest layout of the same family, without touching matrix or
 * range. Functions here are pure; a converter belongs to one thread. */
#pragma once

#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>
#include <libswscale/swscale.h>

#include "millrace/frame.h"
#include "millrace/status.h"

/* The layout that has the same bytes as FFmpeg's; MR_PIXEL_ANY if there is none. Planes of alpha that follow the colour
 * planes are not part of the layout. */
mr_pixel mr_pixel_from_av(enum AVPixelFormat format);

/* FFmpeg's name for a layout. */
enum AVPixelFormat mr_pixel_to_av(mr_pixel pixel);

/* The layout that pictures of any other format are converted to, and FFmpeg's name for it. */
mr_pixel mr_pixel_nearest(enum AVPixelFormat format, enum AVPixelFormat *converted);

/* The layout in which decode emits pictures of that format; MR_PIXEL_ANY if they cannot be carried. */
mr_pixel mr_pixel_carried(enum AVPixelFormat format);

/* The formats that are carried as they are: the format at `index` and its layout; AV_PIX_FMT_NONE past the last. */
enum AVPixelFormat mr_pixel_av_at(size_t index, mr_pixel *pixel);

/* Matrix and range of pictures whose stream does not specify them; ANY: those that players use. */
typedef struct mr_untagged {
    mr_matrix matrix;
    mr_range range;
} mr_untagged;

/* Describes a decoded picture. Fields that both the stream and `untagged` leave open are set as in players: the matrix
 * as mr_format_matrix does; the range is full for RGB, for JPEG's YUV and for gray pictures outside of H.264, else
 * limited; chroma sits in the centre in JPEG, MPEG-1 and WebP, else on the left. Rotation and mirroring are the media's
 * unless the picture brings its own (EXIF). */
void mr_format_describe(mr_format *format, const AVFrame *picture, mr_pixel pixel, const AVCodecContext *codec,
                        const mr_media *media, mr_untagged untagged);

/* Degrees clockwise and mirroring of a display matrix (nine words, as in ISO/IEC 14496-12); false if it is degenerate.
 */
bool mr_rotation_from_matrix(const int32_t *matrix, int16_t *rotation, bool *flip);

/* swscale's coefficients for the matrix of a picture. */
const int *mr_swscale_matrix(const mr_format *format);

/* The pictures that a scaler makes: their size and format. Their range is full. */
typedef struct mr_picture_target {
    int32_t width, height;
    enum AVPixelFormat format;
    const int *matrix; /* swscale's coefficients for Y'CbCr */
} mr_picture_target;

/* A scaler from pictures of `from` to such pictures, with matrix, range and chroma siting of `from`; chroma of
 * the result, if it has fewer samples, sits in the centre as in JPEG. The caller frees it with sws_freeContext.
 * MR_ERROR_MEMORY, MR_ERROR_DATA if swscale cannot. */
int mr_picture_scaler(struct SwsContext **scaler, const mr_format *from, const mr_picture_target *to);
/* Planes and strides of a picture as swscale takes them. */
void mr_picture_planes(const mr_frame *frame, uint8_t *planes[4], int strides[4]);

/* Converts into a frame whose planes are there already. *scaler is created as needed and kept for the next picture;
 * free it with sws_freeContext. MR_ERROR_DATA if swscale cannot. */
int mr_picture_convert(struct SwsContext **scaler, const AVFrame *picture, enum AVPixelFormat converted,
                       mr_frame *to);
