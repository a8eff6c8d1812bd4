/* Pictures of HEIF that libavcodec cannot put together, such as HEIC, decoded by libheif, which is opened when the
 * first one comes (libheif.so.1). Any thread.
 *
 * Such a file is a packet of raw video whose tag is MR_HEIF_TAG: its samples are known once decode has decoded it. */
#pragma once

#include <libavutil/frame.h>
#include <libavutil/macros.h>
#include <stddef.h>
#include <stdint.h>

/* MR_OK, or MR_ERROR_UNAVAILABLE with what to install: "which needs libheif1: ...". */
int mr_libheif_check(void);

enum { MR_HEIF_TAG = MKTAG('h', 'e', 'i', 'f') };

/* Decodes the primary picture of a whole file, turned upright, into *picture: sets its size, layout and colour, and
 * calls `allocate`, which gives it planes, or an AVERROR. MR_ERROR_UNAVAILABLE, MR_ERROR_DATA (libheif's words; more
 * pixels than max_pixels, whose message is libavcodec's), MR_ERROR_MEMORY. */
typedef int mr_heif_allocate(void *context, AVFrame *picture);
int mr_libheif_decode(const uint8_t *data, size_t bytes, int64_t max_pixels, AVFrame *picture,
                      mr_heif_allocate *allocate, void *context);
