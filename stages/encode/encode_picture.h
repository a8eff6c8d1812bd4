/* Prepares pictures for an encoder: uses the frame's memory if layout, size and colour fit. Otherwise makes a converted
 * copy, extended to an even size by repeating the last column and row. One thread at a time. */
#pragma once

#include <libavutil/frame.h>
#include <libswscale/swscale.h>

#include "millrace/frame.h"

/* All zero is empty. */
typedef struct mr_encode_picture {
    mr_format from, to;        /* what the parts below were made for */
    struct SwsContext *scaler; /* NULL: pictures are used directly, or only copied */
    AVFrame *copy;             /* NULL: pictures are used directly */
} mr_encode_picture;

/* Prepares for `from` pictures encoded as `to` (mr_encoder_format). MR_ERROR_MEMORY, MR_ERROR_DATA. */
int mr_encode_picture_begin(mr_encode_picture *picture, const mr_format *from, const mr_format *to);
void mr_encode_picture_end(mr_encode_picture *picture);

/* Fills `wrapped`, which must be empty and must be unreferenced afterwards. MR_ERROR_MEMORY, MR_ERROR_DATA. */
int mr_encode_picture_lend(mr_encode_picture *picture, const mr_frame *frame, AVFrame *wrapped);
/* The same for a picture in FFmpeg's memory. */
int mr_encode_picture_lend_av(mr_encode_picture *picture, const AVFrame *from, AVFrame *wrapped);
