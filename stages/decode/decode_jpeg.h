/* JPEG (ITU-T T.81) decoded at 1/4 or 1/8 of its size, faster than libavcodec does: whole pictures have all their
 * coefficients decoded, these only those that are used. The result is that of libavcodec's lowres, bit for bit.
 *
 * It takes most pictures of cameras: baseline or extended sequential Huffman code, samples of eight bits, one component
 * or three, all in one scan, tables of its own, with or without restart markers. Whatever else there is, and whatever
 * is damaged or odd in any way, is refused, and left to libavcodec and its messages. Progressive pictures are refused,
 * too: to know that one is whole, all its scans have to be decoded.
 *
 * One thread at a time uses an mr_jpeg_decoder. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_JPEG_H
#define MILLRACE_STAGES_DECODE_DECODE_JPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_jpeg_decoder mr_jpeg_decoder;

/* 100 KB. MR_ERROR_MEMORY. */
int mr_jpeg_decoder_create(mr_jpeg_decoder **decoder);
void mr_jpeg_decoder_destroy(mr_jpeg_decoder **decoder);

/* Samples of a component. */
typedef struct mr_jpeg_plane {
    uint8_t *data;
    ptrdiff_t stride;
    int width, height;
} mr_jpeg_plane;

/* Reads all up to the scan; `data` have to stay until it is decoded. Returns the offset of the scan's header, 0 if the
 * picture is refused. */
size_t mr_jpeg_open(mr_jpeg_decoder *decoder, const uint8_t *data, size_t bytes);
/* The planes of the opened picture at 1 / 2^scale, 2 or 3, without memory; how many there are. */
int mr_jpeg_planes(const mr_jpeg_decoder *decoder, int scale, mr_jpeg_plane planes[3]);
/* Decodes it into these. False: it is refused; the planes hold anything then. */
bool mr_jpeg_decode(mr_jpeg_decoder *decoder, int scale, const mr_jpeg_plane planes[3]);

#endif
