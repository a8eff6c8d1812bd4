/* Pictures made smaller, and as JPEG.
 *
 * A small picture has square pixels, at most `width` columns and four times as many rows, and is never enlarged; its
 * samples are JPEG's: Y'CbCr of BT.601, full range, 4:2:0. A shrinker, and an encoder, belong to one thread. */
#ifndef MILLRACE_STAGES_PREVIEW_SHRINK_H
#define MILLRACE_STAGES_PREVIEW_SHRINK_H

#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>
#include <libswscale/swscale.h>

#include "millrace/frame.h"
#include "millrace/option.h"

typedef struct mr_shrinker {
    mr_format format; /* of the pictures that `scaler` was made for */
    struct SwsContext *scaler;
    int32_t width, height; /* of the small ones */
} mr_shrinker;

/* Columns and rows of the small picture. */
mr_size mr_shrink_size(const mr_format *format, int32_t width);

/* Makes a small picture in `to`, whose memory is used again if there is no other reference to it. All zero is a new
 * shrinker. MR_ERROR_DATA, MR_ERROR_MEMORY. */
int mr_shrink(mr_shrinker *shrinker, const mr_frame *frame, int32_t width, AVFrame *to);
void mr_shrinker_close(mr_shrinker *shrinker);

typedef struct mr_jpeg_encoder {
    AVCodecContext *codec; /* for pictures of one size */
    AVPacket *packet;
    int64_t count;
    int quality;           /* 1 to 100, as in JPEG libraries */
} mr_jpeg_encoder;

/* How a small picture is to be turned for display: the picture's own values. */
typedef struct mr_upright {
    int16_t rotation;
    bool flip;
} mr_upright;

/* Encodes a small picture, whose time is set. If it is to be turned, the JPEG says so by EXIF. Gives a block to be
 * freed with mr_free: `before` bytes that are not used yet, and *bytes bytes of JPEG. NULL on failure: bad data, no
 * memory. */
uint8_t *mr_jpeg_encode(mr_jpeg_encoder *encoder, AVFrame *picture, mr_upright upright, size_t before, size_t *bytes);
void mr_jpeg_encoder_close(mr_jpeg_encoder *encoder);

#endif
