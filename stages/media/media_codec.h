/* Codec parameters and side data of FFmpeg, as frames carry them between stages and processes.
 *
 * mr_media.codec is AVCodecParameters here. Parameters that another process sends are not trusted: they are bounded,
 * and decoders check them as they check files.
 *
 * Side data are carried if decoders need them: palettes, and headers that replace the stream's in its middle. They are
 * plane 1 of a packet's frame, records of {uint32 type of FFmpeg, uint32 bytes, payload, padding to 8 bytes}. Any
 * thread. */
#pragma once

#include <libavcodec/packet.h>
#include <libavutil/rational.h>

#include "millrace/frame.h"

extern const mr_media_codec mr_av_codec;

/* A time of a file or stream, in ns from its origin; MR_NO_TIME if one of them is not known, or not within bounds. */
int64_t mr_ticks_ns(int64_t ticks, int64_t origin, AVRational base);
/* Leaves out times that are not within bounds, and durations of none or of more than a day. To be called before any
 * arithmetic with them. */
void mr_packet_bound(AVPacket *packet, AVRational base);

/* MR_FRAME_... of it. */
uint32_t mr_packet_flags(const AVPacket *packet);

/* Copies the side data that decoders need; *buffer stays NULL if there are none, as with nearly all packets.
 * MR_ERROR_MEMORY. */
int mr_side_pack(const AVPacket *packet, mr_buffer **buffer);
/* Adds the records of `plane` to the packet; a plane without data adds none. MR_ERROR_DATA if they are malformed. */
int mr_side_unpack(const mr_plane *plane, AVPacket *packet);

/* Lends payload, times, flags and side data of a frame to an empty packet, in nanoseconds, with a reference to the
 * payload's buffer; not to the frame, whose receipt must close even while a library still holds its last packet.
 * Without the padding that FFmpeg's readers need there is no reference, and the library has to copy. An AVERROR on
 * failure. */
int mr_packet_lend(AVPacket *packet, const mr_frame *frame);
/* Moves the payload of a packet into a plane, without copying it if the packet is counted. MR_ERROR_MEMORY. */
int mr_packet_keep(AVPacket *packet, mr_plane *plane);
