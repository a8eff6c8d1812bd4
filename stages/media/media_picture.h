/* Turns still picture files into packets that decode accepts: the file's bytes, or the AV1 data in a HEIF that
 * libavcodec can decode. */
#pragma once

#include <libavcodec/codec_par.h>

#include "millrace/stage.h"
#include "stages/media/coded/packet.h"
#include "stages/media/still/heif.h"

/* What decode must know about a picture. */
typedef struct mr_picture_kind {
    enum AVCodecID id;  /* RAWVIDEO: libheif decodes it (libheif.h) */
    mr_upright upright; /* for AV1; other formats show it when decoded */
} mr_picture_kind;

/* The codec, from content or else from the name. */
enum AVCodecID mr_picture_recognise(const char *path, const uint8_t *data, size_t bytes);
/* Reads a file, or the first `most` bytes, into *packet, zero-padded. MR_ERROR_MEMORY, and mr_input_open's errors. */
int mr_picture_load(const char *path, const mr_stage *stage, size_t most, mr_packet *packet);
/* Replaces a complete file in a packet by what decode accepts, and returns the kind. */
void mr_picture_unpack(const char *path, mr_packet *packet, mr_picture_kind *kind);
/* Codec parameters for this kind. The caller must free them. NULL: no memory. */
AVCodecParameters *mr_picture_codec(enum AVCodecID id);
/* What mr_picture_unpack will give for a HEIF picture, as stored, or turned by libheif; false: not known. */
bool mr_picture_survey_heif(const mr_heif *heif, mr_survey *found);
