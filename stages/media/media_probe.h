/* Finds picture size, layout and colour before decoding, with a decoder that reads a packet's headers.
 *
 * One decoder serves one stream or image, and can read any number of packets. One thread at a time. */
#pragma once

#include <libavcodec/avcodec.h>

#include "millrace/format_set.h"
#include "millrace/frame.h"
#include "stages/media/media_reader.h"

typedef struct mr_probe {
    AVCodecContext *codec;
    AVPacket *packet;
    AVFrame *picture;
} mr_probe;

/* False if there is no decoder, or no memory. All zero is closed. */
bool mr_probe_open(mr_probe *probe, const AVCodecParameters *parameters, int64_t max_pixels);
/* `data` is followed by AV_INPUT_BUFFER_PADDING_SIZE zeros. True once size and layout are known. */
bool mr_probe_look(mr_probe *probe, const uint8_t *data, size_t bytes);
void mr_probe_close(mr_probe *probe);

/* The pictures that packets with this `codec` decode to, as decode will describe them. `media` may be NULL. */
mr_format_set mr_probe_tell(const AVCodecContext *codec, const mr_media *media);
/* Most pictures that this stream's decoder keeps for prediction and reordering, from the header and codec limits; 0:
 * not known. */
int mr_probe_references(const AVCodecContext *codec);
/* Surveys a stream whose pictures all have one size, including whether it is HDR or interlaced (codec->field_order). */
void mr_probe_survey(const AVCodecContext *codec, const mr_media *media, mr_survey *survey);
