/* Parameter sets of H.264 and HEVC in transport streams, which have no header that could hold them: a receiver that
 * joins, and a file that is one of several, begin with any key frame. libavformat puts them only before pictures that
 * need no other, and only if the packets come from a container with a header. Any thread. */
#pragma once

#include <libavcodec/avcodec.h>

/* Puts the sets of the stream's header into the packet of a key frame that would be without them. MR_ERROR_MEMORY. */
int mr_video_sets_add(AVPacket *packet, const AVCodecParameters *codec);
