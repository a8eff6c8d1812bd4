/* libavcodec's encoders: which there are, what they accept, and how to open them.
 *
 * An encoder numbers pictures, and their times are those numbers. Rate control therefore never sees a gap, jump or
 * missing time, and packets match pictures exactly. encode.c keeps the real times. */
#pragma once

#include <libavcodec/avcodec.h>

#include "millrace/frame.h"
#include "stages/encode/encode_options.h"

/* More than any encoder holds (x265 looks ahead 250 pictures at most). */
enum { MR_ENCODE_WINDOW = 512 };

typedef struct mr_encoder_facts {
    const char *name;    /* codec name */
    const char *encoder; /* libavcodec's encoder name */
    double quality, best, worst; /* default, best and worst value */
} mr_encoder_facts;

mr_encoder_facts mr_encoder_facts_of(int codec);
bool mr_encoder_is_here(int codec);
/* How many threads the encoder starts, not counting the callers. */
int mr_encoder_threads(const mr_encode_params *params);
/* The most pictures that it holds before it gives a packet. */
int mr_encoder_delay(const mr_encode_params *params);
/* The layout that this layout is encoded in: the same if the encoder can take it. */
mr_pixel mr_encoder_pixel(int codec, mr_pixel pixel);
/* The format that this format is encoded in: layout, size (even if the codec needs it), matrix and range. */
mr_format mr_encoder_format(int codec, const mr_format *picture);

/* The same picture's format in another layout. Unknown matrix and range become what players assume. */
mr_format mr_encoder_format_in(mr_pixel pixel, bool even, const mr_format *picture);
/* The layout that pictures have after decoding: never one with chroma pairs. */
mr_pixel mr_encoder_decoded(mr_pixel pixel);

/* Opens an encoder for pictures with `format` (from mr_encoder_format) at `rate` a second. MR_ERROR_DATA if the encoder
 * cannot take them, MR_ERROR_UNAVAILABLE, MR_ERROR_MEMORY. */
int mr_encoder_open(AVCodecContext **codec, const mr_encode_params *params, const mr_format *format, AVRational rate);
/* The same in two steps, for device encoders; a codec that does not start is freed. */
int mr_encoder_alloc(AVCodecContext **codec, const char *encoder, const mr_encode_params *params,
                     const mr_format *format, AVRational rate);
int mr_encoder_start(AVCodecContext **codec, const mr_format *format);
