/* A still picture's orientation from its file: tag 274 in EXIF or TIFF, or XMP. Pure functions. The data is
 * untrusted. */
#pragma once

#include <libavcodec/codec_id.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What display must do to a stored picture: mirror it left to right (flip), then turn it clockwise. */
typedef struct mr_upright {
    int16_t rotation; /* 0, 90, 180, 270 degrees */
    bool flip;
} mr_upright;

/* Converts a TIFF 6.0 orientation, 1 to 8, and back. Other values mean 1: upright. */
mr_upright mr_upright_of_exif(unsigned orientation);
uint8_t mr_upright_to_exif(mr_upright upright);

/* `first`, then `then`. */
mr_upright mr_upright_then(mr_upright first, mr_upright then);

/* The orientation in PNG (eXIf), WebP (EXIF) or TIFF, or else in a PNG's or WebP's XMP. Upright if there is none, and
 * for all other codecs: libavcodec reads JPEG's, and heif.h HEIF's. */
mr_upright mr_still_upright(enum AVCodecID codec, const uint8_t *data, size_t bytes);
/* Orientation from EXIF in hexadecimal digits, as ImageMagick writes it to PNG text ("Raw profile type exif"). */
mr_upright mr_upright_of_profile(const char *text);

/* A JPEG EXIF segment with this orientation; it must follow the file's first two bytes. */
enum { MR_EXIF_SEGMENT_BYTES = 36 };
void mr_exif_write_segment(uint8_t to[MR_EXIF_SEGMENT_BYTES], mr_upright upright);
