/* NVENC, the video encoder in NVIDIA GPUs, through libavcodec: what it accepts, and the options. */
#pragma once

#include "stages/encode/encode_codec.h"

/* MR_OK if NVENC can encode at least one of these layouts (a set; 0: not known). MR_ERROR_CONFIG or
 * MR_ERROR_UNAVAILABLE with the reason. Whether the GPU has NVENC and accepts the layout can be seen only when it is
 * opened. */
int mr_nvenc_suits(const mr_encode_params *params, uint32_t pixels);
/* libavcodec's encoder name; NULL: there is none for this codec. */
const char *mr_nvenc_name(int codec);
/* The format that pictures are encoded in: unchanged, except that the size is even if the codec needs it. */
mr_format mr_nvenc_format(int codec, const mr_format *picture);
/* How many surfaces to give it; all of them may hold pictures. */
int mr_nvenc_surfaces(const mr_encode_params *params);
/* The most device memory that it needs for these pictures; MR_BYTES_UNKNOWN if the size is open. */
int64_t mr_nvenc_bytes(const mr_encode_params *params, const mr_format_set *pictures);

/* Opens it for pictures with `format` (from mr_nvenc_format) on surfaces in `frames`, an AVHWFramesContext. Errors: as
 * mr_encoder_open. */
int mr_nvenc_open(AVCodecContext **codec, const mr_encode_params *params, const mr_format *format, AVRational rate,
                  AVBufferRef *frames);
