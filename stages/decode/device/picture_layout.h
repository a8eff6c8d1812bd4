/* How a decoder's picture lies in one buffer: strides, planes, and the bytes that a plan must reserve. Any thread. */
#pragma once

#include <libavcodec/avcodec.h>

#include "millrace/plan.h"

/* Chooses strides and plane offsets as FFmpeg's own allocation does (libavcodec/get_buffer.c): the size is rounded up
 * as the decoder asks, then the width is raised until every stride is aligned. The strides must be FFmpeg's: if no
 * buffer is free, FFmpeg allocates a picture itself, and the H.264 decoder reads all pictures with one stride. Returns
 * the bytes of all planes, or 0. */
size_t mr_picture_lay_out(AVCodecContext *codec, enum AVPixelFormat format, int width, int height, int strides[4],
                          size_t offsets[4]);
/* The most bytes that one buffer needs for `pictures`, in the layout that this decoder (NULL: any) uses. If the size is
 * open, a square with `max_pixels` counts. */
size_t mr_picture_layout_bytes(const char *codec, const mr_format_set *pictures, int64_t max_pixels);
/* Whether decoders for this codec (NULL: any) can write into memory that they are given. */
bool mr_picture_layout_suits(const char *codec);
