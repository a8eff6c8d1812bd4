/* Files of still pictures as packets that decode takes: their bytes, or, of HEIF that libavcodec decodes, the AV1 in
 * it. */
#pragma once

#include <libavcodec/codec_par.h>

#include "millrace/stage.h"
#include "stages/media/coded/packet.h"
#include "stages/media/still/heif.h"

/* What decode is told of a picture. */
typedef struct mr_picture_kind {
    enum AVCodecID id;  /* RAWVIDEO: libheif decodes it (libheif.h) */
    mr_upright upright; /* of AV1; that of other formats is found when they are decoded */
} mr_picture_kind;

/* The codec by the content, else by the name. */
enum AVCodecID mr_picture_recognise(const char *path, const uint8_t *data, size_t bytes);
/* Reads a file, or its first `most` bytes, into *packet, zero-padded. MR_ERROR_MEMORY, and errors of mr_input_open. */
int mr_picture_load(const char *path, const mr_stage *stage, size_t most, mr_packet *packet);
/* A copy of a file's bytes in *packet, zero-padded. MR_ERROR_MEMORY. */
int mr_picture_copy(const uint8_t *data, size_t bytes, mr_packet *packet);
/* Replaces a whole file in a packet by what decode takes, and tells its kind. */
void mr_picture_unpack(const char *path, mr_packet *packet, mr_picture_kind *kind);
/* The parameters of such a kind, which the caller frees; NULL without memory. */
AVCodecParameters *mr_picture_codec(enum AVCodecID id);
/* What mr_picture_unpack will give of a picture of HEIF, as it is stored, or, by libheif, turned; false: not known. */
bool mr_picture_survey_heif(const mr_heif *heif, mr_survey *found);
