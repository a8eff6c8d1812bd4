/* Decodes HEIF pictures that libavcodec cannot assemble, such as HEIC. libheif (libheif.so.1) is opened for the first
 * one. Any thread.
 *
 * Such a file is a raw video packet with the tag MR_HEIF_TAG: its sample layout is known only after decoding. */
#pragma once

#include <libavutil/frame.h>
#include <libavutil/macros.h>
#include <stddef.h>
#include <stdint.h>

#include "stages/media/still/background.h"

/* MR_OK, or MR_ERROR_UNAVAILABLE with what to install: "which needs libheif1: ...". */
int mr_libheif_check(void);

enum { MR_HEIF_TAG = MKTAG('h', 'e', 'i', 'f') };

/* How a picture gets its planes, or an AVERROR. */
typedef int mr_heif_allocate(void *context, AVFrame *picture);

/* What to make of a file. */
typedef struct mr_heif_target {
    AVFrame *picture; /* gets size, layout, colour and planes; alpha is left out */
    mr_heif_allocate *allocate;
    void *context;    /* for allocate */
    int64_t max_pixels;
    mr_background background;
} mr_heif_target;

/* Decodes a complete file's primary picture, turned upright. MR_ERROR_UNAVAILABLE, MR_ERROR_DATA (libheif's text; above
 * max_pixels libavcodec's), MR_ERROR_MEMORY. */
int mr_libheif_decode(const uint8_t *data, size_t bytes, const mr_heif_target *target);
