/* Side data of packets that decoders need: palettes, and headers that replace the stream's in its middle. They
 * travel as plane 1 of a packet's frame, written as records of {uint32 type of FFmpeg, uint32 bytes, payload,
 * padding to 8 bytes}. Pure functions. */
#ifndef MILLRACE_STAGES_MEDIA_MEDIA_SIDE_H
#define MILLRACE_STAGES_MEDIA_MEDIA_SIDE_H

#include <libavcodec/packet.h>

#include "millrace/frame.h"

/* Copies what decoders need; *buffer stays NULL where there is nothing, as with nearly all packets.
 * MR_ERROR_MEMORY. */
int mr_side_pack(const AVPacket *packet, mr_buffer **buffer);
/* Adds the records of `plane` to the packet; a plane without data adds none. MR_ERROR_DATA where they are
 * malformed. */
int mr_side_unpack(const mr_plane *plane, AVPacket *packet);

#endif
