/* Decodes JPEG (ITU-T T.81) at 1/4 or 1/8 size, faster than libavcodec: that decodes all coefficients, this only those
 * it uses. The result equals libavcodec's lowres bit for bit.
 *
 * It accepts most camera pictures: baseline or extended sequential Huffman code, 8-bit samples, one or three
 * components, a single scan, included tables, with or without restart markers. Anything else, damaged or unusual, is
 * refused: libavcodec must decode it and write the messages. Progressive pictures are refused, since only decoding all
 * scans can show that one is complete.
 *
 * One thread at a time uses an mr_jpeg_decoder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_jpeg_decoder mr_jpeg_decoder;

/* 100 KB. MR_ERROR_MEMORY. */
int mr_jpeg_decoder_create(mr_jpeg_decoder **decoder);
void mr_jpeg_decoder_destroy(mr_jpeg_decoder **decoder);

/* A component's samples. */
typedef struct mr_jpeg_plane {
    uint8_t *data;
    ptrdiff_t stride;
    int width, height;
} mr_jpeg_plane;

/* Reads everything before the scan; `data` must stay until decoding. Returns the scan header's offset, or 0 if the
 * picture is refused. */
size_t mr_jpeg_open(mr_jpeg_decoder *decoder, const uint8_t *data, size_t bytes);
/* Describes the opened picture's planes at 1 / 2^scale (2 or 3), without memory. Returns how many there are. */
int mr_jpeg_planes(const mr_jpeg_decoder *decoder, int scale, mr_jpeg_plane planes[3]);
/* Decodes into these planes. False: refused; the planes are then undefined. */
bool mr_jpeg_decode(mr_jpeg_decoder *decoder, int scale, const mr_jpeg_plane planes[3]);
