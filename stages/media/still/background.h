/* Puts a background behind the transparent pixels of a still picture. Without one, transparent pixels have the colour
 * that the file stores for them, mostly black, as in OpenCV's imread and Pillow's convert("RGB").
 *
 * value = colour * alpha + background * (1 - alpha), rounded; premultiplied colours are colour * alpha already. Pixels
 * are then opaque. A subsampled chroma sample takes the mean alpha of its pixels. Pure functions. */
#pragma once

#include <libavutil/frame.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mr_background {
    MR_BACKGROUND_NONE,
    MR_BACKGROUND_WHITE,
    MR_BACKGROUND_BLACK,
    MR_BACKGROUND_CONTRAST /* white if the visible pixels are darker than half on average, else black */
} mr_background;

/* Changes a picture in host memory that nobody else reads. Does nothing if it has no alpha. MR_ERROR_MEMORY. */
int mr_background_put(AVFrame *picture, mr_background background);

/* A picture's alpha in memory of its own. */
typedef struct mr_alpha {
    const uint8_t *data; /* samples with more than 8 bits have two bytes, the low one first */
    ptrdiff_t stride;
    int depth;           /* bits */
    bool multiplied;     /* colours are premultiplied */
} mr_alpha;

/* As mr_background_put, for a picture without alpha: planar or gray, 8 to 16 bits, samples low byte first. */
int mr_background_put_alpha(AVFrame *picture, const mr_alpha *alpha, mr_background background);
/* As mr_background_put, for AV_PIX_FMT_MONOBLACK, of which pixels with that bit are transparent. */
void mr_background_put_bit(AVFrame *picture, bool transparent, mr_background background);
