/* FFmpeg's codec parameters and side data, as frames carry them between stages and processes.
 *
 * mr_media.codec is AVCodecParameters here. Parameters from another process are untrusted: they are bounded, and
 * decoders must check them like a file's.
 *
 * Side data is carried if decoders need it: palettes, and headers that replace the stream's later on. It is plane 1 in
 * a packet's frame: records {FFmpeg's uint32 type, uint32 bytes, payload, padding to 8 bytes}. Any thread. */
#pragma once

#include <libavcodec/packet.h>
#include <libavutil/rational.h>

#include "millrace/frame.h"

extern const mr_media_codec mr_av_codec;

/* Converts a file or stream time to ns from its origin; MR_NO_TIME if unknown or out of bounds. */
int64_t mr_ticks_ns(int64_t ticks, int64_t origin, AVRational base);
/* Removes times out of bounds, and durations that are zero or above one day. Must be called before any arithmetic with
 * them. */
void mr_packet_bound(AVPacket *packet, AVRational base);

/* The packet's MR_FRAME_... flags. */
uint32_t mr_packet_flags(const AVPacket *packet);

/* Copies the side data that decoders need; *buffer stays NULL if there is none, as in nearly all packets.
 * MR_ERROR_MEMORY. */
int mr_side_pack(const AVPacket *packet, mr_buffer **buffer);
/* Adds the records of `plane` to the packet; a plane without data adds none. MR_ERROR_DATA if they are malformed. */
int mr_side_unpack(const mr_plane *plane, AVPacket *packet);

/* A read-only reference to part of a buffer, for libav's libraries; NULL: no memory. */
AVBufferRef *mr_buffer_lend(mr_buffer *buffer, uint8_t *data, size_t bytes);
/* Wraps memory that libav's libraries count. Takes over the reference if it succeeds; NULL: no memory. */
mr_buffer *mr_buffer_borrow(uint8_t *data, size_t bytes, AVBufferRef *reference);

/* Lends a frame's payload, times, flags and side data to an empty packet, in nanoseconds. The packet refers to the
 * payload's buffer, not to the frame: the frame's receipt must close even while a library holds its last packet.
 * Without the padding that FFmpeg's readers need, there is no reference, and the library must copy. Returns an AVERROR
 * on failure. */
int mr_packet_lend(AVPacket *packet, const mr_frame *frame);
/* Replaces a packet's payload. Takes the buffer, which is padded. */
void mr_packet_replace(AVPacket *packet, AVBufferRef *buffer, size_t bytes);
/* Moves a packet's payload to a plane, without copying a reference-counted one. MR_ERROR_MEMORY. */
int mr_packet_keep(AVPacket *packet, mr_plane *plane);
