/* Puts a background behind the transparent pixels of a still picture. Without one, transparent pixels have the colour
 * that the file stores for them, mostly black, as in OpenCV's imread and Pillow's convert("RGB").
 *
 * Alpha is not premultiplied: value = colour * alpha + background * (1 - alpha), rounded; pixels are then opaque. A
 * subsampled chroma sample takes the mean alpha of its pixels. Pure functions. */
#pragma once

#include <libavutil/frame.h>

typedef enum mr_background {
    MR_BACKGROUND_NONE,
    MR_BACKGROUND_WHITE,
    MR_BACKGROUND_BLACK,
    MR_BACKGROUND_CONTRAST /* white if the visible pixels are darker than half on average, else black */
} mr_background;

/* Changes a picture in host memory that nobody else reads. Does nothing if it has no alpha. MR_ERROR_MEMORY. */
int mr_background_put(AVFrame *picture, mr_background background);
