/* Finds which x264 build encoded an H.264 stream. Only the first packet says so, in an x264 message. Decoders need to
 * know: libavcodec reproduces what older builds encoded wrongly (4:4:4 before build 151, lossless 4:4:4 before 68). A
 * decoder that starts at a later packet must be given the build. */
#pragma once

#include <libavcodec/codec_par.h>
#include <stddef.h>
#include <stdint.h>

/* The build, if this packet says it; else 0. Any thread. */
int32_t mr_x264_build(const AVCodecParameters *codec, const uint8_t *data, size_t bytes);
