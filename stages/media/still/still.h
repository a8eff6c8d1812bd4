/* Finds where a still picture ends in its file. Decoders stop after the first picture and do not report what follows: a
 * second joined file, a motion photo's video, an animation's pages. Pure functions. */
#pragma once

#include <libavcodec/codec_id.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Offset of the first byte after the picture. 0 if the data is not such a picture or is truncated, and for formats that
 * do not mark the end (all but JPEG, PNG, GIF, BMP, WebP, PBM, PGM and PPM). */
size_t mr_still_end(enum AVCodecID codec, const uint8_t *data, size_t bytes);

/* How many pictures a GIF, animated PNG or TIFF holds; only the first is decoded. 1 for other formats, and if
 * unknown. */
size_t mr_still_pictures(enum AVCodecID codec, const uint8_t *data, size_t bytes);

/* Whether a JPEG lacks Huffman or quantisation tables. It then means the standard ones, which a decoder has only until
 * it decodes another picture. */
bool mr_still_lacks_tables(enum AVCodecID codec, const uint8_t *data, size_t bytes);

/* The data in the first chunk with this name (four letters) in a PNG or WebP; NULL: no complete one. */
typedef struct mr_still_part {
    const uint8_t *data;
    size_t bytes;
} mr_still_part;
mr_still_part mr_png_find_chunk(const uint8_t *data, size_t bytes, const char *name);
/* The data after the keyword in an international text chunk (iTXt); NULL likewise. */
mr_still_part mr_png_find_text(const uint8_t *data, size_t bytes, const char *keyword);
/* Shortens a truncated PNG pixel chunk to the bytes that are there: a decoder refuses a truncated chunk, but needs only
 * the first pixels to know the format. */
void mr_png_shorten(uint8_t *data, size_t bytes);
/* The PNG's size without chunks that do not change pixels and that libavcodec could expand to any size: compressed text
 * (except a short EXIF), and text and colour profiles above 16 KiB. `to`: where to write that PNG; NULL: nowhere. */
size_t mr_png_strip(const uint8_t *data, size_t bytes, uint8_t *to);
mr_still_part mr_webp_find_chunk(const uint8_t *data, size_t bytes, const char *name);
/* Whether a WebP has several pictures. */
bool mr_webp_is_animated(const uint8_t *data, size_t bytes);

/* Whether the data begins like a picture in this codec. */
bool mr_still_begins(enum AVCodecID codec, const uint8_t *data, size_t bytes);
