/* Whether two stream descriptions mean the same pictures. Some cameras change parameter sets in each group of pictures,
 * but only in usage information (timing, buffers). Any thread. */
#pragma once

#include <libavcodec/codec_par.h>
#include <stdbool.h>

/* True if size, layout, profile, colours and all parameters that decoding depends on are the same. With `in_band`, HEVC
 * parameter sets may differ, since each key brings them: HEVC files hold sets among packets too. The two may come from
 * different connections. */
bool mr_codecs_are_alike(const AVCodecParameters *a, const AVCodecParameters *b, bool in_band);
