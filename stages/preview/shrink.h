/* Pictures made smaller, for JPEG.
 *
 * A small picture has square pixels, at most `width` columns and four times as many rows; it is never enlarged. Samples
 * are JPEG's: BT.601 Y'CbCr, full range, 4:2:0. Only one thread may use a shrinker. */
#pragma once

#include <libavutil/frame.h>
#include <libswscale/swscale.h>

#include "millrace/frame.h"
#include "millrace/option.h"

typedef struct mr_shrinker {
    mr_format format; /* input format that `scaler` was made for */
    struct SwsContext *scaler;
    int32_t width, height; /* output size */
} mr_shrinker;

/* The small picture's columns and rows. */
mr_size mr_shrink_size(const mr_format *format, int32_t width);

/* Makes a small picture in `to`; its memory is reused if nothing else refers to it. All zero is a new shrinker.
 * MR_ERROR_DATA, MR_ERROR_MEMORY. */
int mr_shrink(mr_shrinker *shrinker, const mr_frame *frame, int32_t width, AVFrame *to);
void mr_shrinker_close(mr_shrinker *shrinker);
