/* NVENC, the video encoder of NVIDIA's GPUs, by libavcodec: what it takes, and its options. */
#pragma once

#include "stages/encode/encode_codec.h"

/* MR_OK if it may encode pictures of one of those layouts (a set; 0: not known); MR_ERROR_CONFIG or
 * MR_ERROR_UNAVAILABLE, and why not. That a GPU has one, and that it takes them, shows when it is opened. */
int mr_nvenc_suits(const mr_encode_params *params, uint32_t pixels);
/* The name of libavcodec's encoder; NULL: there is none of that codec. */
const char *mr_nvenc_name(int codec);
/* The format in which pictures of that format are encoded: their own, even in size if the codec needs it. */
mr_format mr_nvenc_format(int codec, const mr_format *picture);
/* Surfaces that it is given, all of which may hold a picture. */
int mr_nvenc_surfaces(const mr_encode_params *params);
/* The most memory that it takes of the device for pictures of that set; MR_BYTES_UNKNOWN if their size is open. */
int64_t mr_nvenc_bytes(const mr_encode_params *params, const mr_format_set *pictures);

/* Opens it for pictures of `format` (of mr_nvenc_format) in surfaces of `frames`, an AVHWFramesContext. Errors as of
 * mr_encoder_open. */
int mr_nvenc_open(AVCodecContext **codec, const mr_encode_params *params, const mr_format *format, AVRational rate,
                  AVBufferRef *frames);
