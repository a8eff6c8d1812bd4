/* Inserts H.264 and HEVC parameter sets and MPEG-4 headers into transport streams, which have no other place for them.
 * A receiver can join, or another file can begin, at any key frame. libavformat inserts sets only before pictures that
 * need no other, and only if packets come from a container with a header. Any thread. */
#pragma once

#include <libavcodec/avcodec.h>

/* Adds what the stream header has to a key frame's packet that lacks it. MR_ERROR_MEMORY. */
int mr_video_sets_add(AVPacket *packet, const AVCodecParameters *codec);
