/* Parameter sets of H.264 and HEVC, and the header of MPEG-4, in transport streams, which have no place for them: a
 * receiver that joins, and a file that is one of several, begin with any key frame. libavformat puts sets only before
 * pictures that need no other, and only if the packets come from a container with a header. Any thread. */
#pragma once

#include <libavcodec/avcodec.h>

/* Puts what the stream's header has of these into the packet of a key frame that would be without it.
 * MR_ERROR_MEMORY. */
int mr_video_sets_add(AVPacket *packet, const AVCodecParameters *codec);
