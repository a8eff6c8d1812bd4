/* The orientation of still pictures, as their files give it: EXIF's and TIFF's tag 274, or that of XMP. Pure functions;
 * nothing in the bytes is trusted. */
#pragma once

#include <libavcodec/codec_id.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What display does to a stored picture: it mirrors it left to right (flip), then turns it clockwise. */
typedef struct mr_upright {
    int16_t rotation; /* 0, 90, 180, 270 degrees */
    bool flip;
} mr_upright;

/* From an orientation of TIFF 6.0, 1 to 8, and back. Other values are as 1: upright. */
mr_upright mr_upright_of_exif(unsigned orientation);
uint8_t mr_upright_to_exif(mr_upright upright);

/* `first`, then `then`. */
mr_upright mr_upright_then(mr_upright first, mr_upright then);

/* The orientation in a file of PNG (eXIf), WebP (EXIF) or TIFF, or, if EXIF has none, in XMP of PNG or WebP; upright if
 * it has none, and for all other codecs: libavcodec reads that of JPEG, and heif.h that of HEIF. */
mr_upright mr_still_upright(enum AVCodecID codec, const uint8_t *data, size_t bytes);
/* That of EXIF in hexadecimal digits, as ImageMagick writes it into PNG as text ("Raw profile type exif"). */
mr_upright mr_upright_of_profile(const char *text);

/* An EXIF segment of JPEG with that orientation, which belongs behind the first two bytes of the file. */
enum { MR_EXIF_SEGMENT_BYTES = 36 };
void mr_exif_write_segment(uint8_t to[MR_EXIF_SEGMENT_BYTES], mr_upright upright);
