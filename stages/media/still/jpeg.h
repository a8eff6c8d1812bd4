/* Pictures as JPEG. An encoder belongs to one thread. */
#pragma once

#include <libavcodec/avcodec.h>

#include "stages/media/still/orientation.h"

/* All zero but for its quality is a new one. */
typedef struct mr_jpeg_encoder {
    AVCodecContext *codec; /* for pictures of one size and layout */
    AVPacket *packet;
    int64_t count;
    int quality;           /* 1 to 100, as in JPEG libraries */
} mr_jpeg_encoder;

/* Encodes a picture of layout YUVJ420P, YUVJ422P or YUVJ444P, whose time and quality are set. If it has to be turned
 * for display, the JPEG says so by EXIF. Gives a block to be freed with mr_free: `before` bytes that are not used yet,
 * and *bytes bytes of JPEG. MR_ERROR_DATA, MR_ERROR_MEMORY, MR_ERROR_UNAVAILABLE. */
int mr_jpeg_encode(mr_jpeg_encoder *encoder, AVFrame *picture, mr_upright upright, size_t before, uint8_t **block,
                   size_t *bytes);
void mr_jpeg_encoder_close(mr_jpeg_encoder *encoder);
