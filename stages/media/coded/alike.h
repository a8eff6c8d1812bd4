/* Whether two descriptions of a stream are of the same pictures. Some cameras send parameter sets that differ in each
 * group of pictures, but only in how their pictures may be used (timing, buffers). Any thread. */
#pragma once

#include <libavcodec/codec_par.h>
#include <stdbool.h>

/* True if size, layout, profile and colours are the same, and all parameters that decoding depends on. Those of HEVC
 * may differ if each key has its own sets (`in_band`): files of HEVC hold sets among the packets, too. Both need not be
 * of one connection. */
bool mr_codecs_are_alike(const AVCodecParameters *a, const AVCodecParameters *b, bool in_band);
