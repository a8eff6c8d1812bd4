/* The end of still pictures inside their files. Decoders stop at the end of the first picture and do not report bytes
 * behind it: the rest of two files that were joined, the video of a motion photo, pages of an animation. Pure
 * functions. */
#ifndef MILLRACE_STAGES_MEDIA_STILL_STILL_H
#define MILLRACE_STAGES_MEDIA_STILL_STILL_H

#include <libavcodec/codec_id.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Offset of the first byte behind the picture. 0 if the data are not such a picture or end before it does, and for
 * formats that do not mark their end (all but JPEG, PNG, GIF, BMP, WebP, PBM, PGM and PPM). */
size_t mr_still_end(enum AVCodecID codec, const uint8_t *data, size_t bytes);

/* How many pictures a file of GIF, PNG (animated) or TIFF holds, of which only the first is decoded; 1 for all other
 * formats, and if it is not known. */
size_t mr_still_pictures(enum AVCodecID codec, const uint8_t *data, size_t bytes);

/* Whether it is a JPEG without Huffman or quantisation tables of its own: the standard ones are meant, which a decoder
 * has as long as it has decoded nothing else. */
bool mr_still_lacks_tables(enum AVCodecID codec, const uint8_t *data, size_t bytes);

/* The data of the first chunk of that name (four letters) in a file of PNG or WebP; NULL: it has none that is whole. */
typedef struct mr_still_part {
    const uint8_t *data;
    size_t bytes;
} mr_still_part;
mr_still_part mr_png_find_chunk(const uint8_t *data, size_t bytes, const char *name);
/* The data behind the keyword of a chunk of international text (iTXt); NULL likewise. */
mr_still_part mr_png_find_text(const uint8_t *data, size_t bytes, const char *keyword);
/* The size of a PNG without chunks that do not change its pixels and that libavcodec would expand to any size:
 * compressed text, but for a short one of EXIF, and text and colour profiles of more than 16 KiB. `to`: where that PNG
 * is written; NULL: nowhere. */
size_t mr_png_strip(const uint8_t *data, size_t bytes, uint8_t *to);
mr_still_part mr_webp_find_chunk(const uint8_t *data, size_t bytes, const char *name);
/* Whether it is a WebP with several pictures. */
bool mr_webp_is_animated(const uint8_t *data, size_t bytes);

/* Whether the data begin as a picture of that codec does. */
bool mr_still_begins(enum AVCodecID codec, const uint8_t *data, size_t bytes);

#endif
