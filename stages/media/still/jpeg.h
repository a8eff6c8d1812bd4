/* Encodes pictures as JPEG. Only one thread may use an encoder. */
#pragma once

#include <libavcodec/avcodec.h>

#include "stages/media/still/orientation.h"

/* Must be all zero except for the quality. */
typedef struct mr_jpeg_encoder {
    AVCodecContext *codec; /* for one size and layout */
    AVPacket *packet;
    int64_t count;
    int quality;           /* 1 to 100, as in JPEG libraries */
} mr_jpeg_encoder;

/* Encodes a picture with layout YUVJ420P, YUVJ422P or YUVJ444P; time and quality must be set. If it must be turned for
 * display, EXIF says so. Returns a block to free with mr_free: `before` unused bytes, then *bytes bytes of JPEG.
 * MR_ERROR_DATA, MR_ERROR_MEMORY, MR_ERROR_UNAVAILABLE. */
int mr_jpeg_encode(mr_jpeg_encoder *encoder, AVFrame *picture, mr_upright upright, size_t before, uint8_t **block,
                   size_t *bytes);
void mr_jpeg_encoder_close(mr_jpeg_encoder *encoder);
