/* What NVDEC decodes, through libavcodec, as far as it can be known before anything is decoded. Any thread. */
#pragma once

#include <libavcodec/avcodec.h>

#include "millrace/stage.h"
#include "stages/media/media_hardware.h"

/* The most surfaces that a decoder can have, and as many output surfaces, which FFmpeg also requests. */
enum { MR_NVDEC_SURFACES = 32 };

/* Adds the layouts that NVDEC uses for the set's layouts. */
void mr_nvdec_widen(mr_format_set *pictures);
/* The most memory that a decoder uses for these pictures; MR_BYTES_UNKNOWN if the size is open. */
int64_t mr_nvdec_bytes(const mr_format_set *pictures);
/* Whether NVDEC could decode these packets in this codec (NULL: any), as far as can be known without a GPU. Else
 * MR_ERROR_CONFIG with the reason. */
int mr_nvdec_suits(const char *codec, const mr_format_set *packets);
/* The libavcodec decoder that uses NVDEC for this codec, and the one that decodes in software; NULL: none. */
const AVCodec *mr_nvdec_decoder(enum AVCodecID id);
const AVCodec *mr_nvdec_substitute(enum AVCodecID id);
/* Whether a decoder can only decode with an accelerator. */
bool mr_nvdec_is_only(const AVCodec *decoder);
/* "decoded by software (libdav1d)"; without the decoder's name if the codec is not known (NULL). Returns `text`. */
const char *mr_nvdec_say_substitute(const char *codec, char *text, size_t bytes);
/* As mr_stage_type.check_input. If hardware is required, this covers only the GPU decoder's capabilities. */
int mr_nvdec_check_input(mr_hardware hardware, const mr_format_set *packets, const char *device, bool *otherwise);
