/* The build of x264 that encoded a stream of H.264. The first packet tells it, in a message of x264's own, and no other
 * does. Decoders have to know it: libavcodec decodes what older builds encoded wrongly as they encoded it (4:4:4 before
 * build 151, lossless 4:4:4 before 68). One that begins behind the first packet has to be told. */
#pragma once

#include <libavcodec/codec_par.h>
#include <stddef.h>
#include <stdint.h>

/* As a packet of `codec` tells it; 0: it does not. Any thread. */
int32_t mr_x264_build(const AVCodecParameters *codec, const uint8_t *data, size_t bytes);
