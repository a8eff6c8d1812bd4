/* Encodes pictures as file content: PNG, JPEG or WebP.
 *
 * Conversion uses each picture's matrix, range and chroma siting. PNG keeps gray, alpha, and 16 bits for samples above
 * 8; WebP keeps alpha; JPEG keeps neither. One thread at a time. */
#pragma once

#include <libavcodec/avcodec.h>
#include <libswscale/swscale.h>

#include "millrace/frame.h"
#include "stages/media/still/jpeg.h"

typedef enum mr_still_kind { MR_STILL_PNG, MR_STILL_JPEG, MR_STILL_WEBP, MR_STILL_NONE } mr_still_kind;

/* The file kind for a name's extension; MR_STILL_NONE: none. */
mr_still_kind mr_still_kind_of(const char *name);

typedef struct mr_still_choices {
    mr_still_kind kind;
    int compression; /* PNG: 0 fastest, 9 smallest */
    int quality;     /* JPEG, WebP: 1 to 100 */
    bool turn;       /* upright; otherwise JPEG stores the orientation in EXIF, and other kinds lose it */
} mr_still_choices;

/* Must be all zero except for the choices. */
typedef struct mr_still_encoder {
    mr_still_choices choices;
    mr_format format;   /* what the parts below were made for */
    struct SwsContext *scaler;
    AVFrame *picture, *turned; /* after conversion, and after turning if needed */
    AVCodecContext *codec;     /* PNG, WebP */
    AVPacket *packet;
    mr_jpeg_encoder jpeg;
} mr_still_encoder;

/* MR_ERROR_UNAVAILABLE if this FFmpeg has no encoder for that kind. */
int mr_still_encoder_check(mr_still_kind kind);
/* Returns *bytes bytes in *data; free the block with mr_free. MR_ERROR_DATA, MR_ERROR_MEMORY. */
int mr_still_encode(mr_still_encoder *encoder, const mr_frame *frame, uint8_t **data, size_t *bytes);
void mr_still_encoder_close(mr_still_encoder *encoder);
