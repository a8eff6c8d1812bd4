/* Pictures of HEIF that libavcodec cannot put together, such as HEIC, decoded by libheif, which is opened when the
 * first one comes (libheif.so.1). Any thread. */
#ifndef MILLRACE_STAGES_MEDIA_STILL_LIBHEIF_H
#define MILLRACE_STAGES_MEDIA_STILL_LIBHEIF_H

#include <libavcodec/codec_par.h>
#include <stddef.h>
#include <stdint.h>

/* MR_OK, or MR_ERROR_UNAVAILABLE with what to install: "which needs libheif1: ...". */
int mr_libheif_check(void);

/* The picture's samples, one plane behind the other, without padding between rows, turned upright. */
typedef struct mr_heif_pixels {
    uint8_t *data;  /* of av_malloc, with zeros behind it as libavcodec needs them; the caller frees it with av_free */
    size_t bytes;
} mr_heif_pixels;

/* Decodes the primary picture of a whole file, and describes it in `codec` as raw video. MR_ERROR_UNAVAILABLE,
 * MR_ERROR_DATA (libheif's words; more pixels than max_pixels), MR_ERROR_MEMORY. */
int mr_libheif_decode(const uint8_t *data, size_t bytes, int64_t max_pixels, mr_heif_pixels *pixels,
                      AVCodecParameters *codec);

#endif
