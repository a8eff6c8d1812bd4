/* A packet of a stream, as readers give it (media_reader.h). */
#ifndef MILLRACE_STAGES_MEDIA_CODED_PACKET_H
#define MILLRACE_STAGES_MEDIA_CODED_PACKET_H

#include <stddef.h>

#include "millrace/frame.h"

/* One packet. Both buffers and the media reference belong to the caller. The payload is followed by at least 64 zeroed
 * bytes inside its buffer, which FFmpeg's bitstream readers need. */
typedef struct mr_packet {
    mr_buffer *buffer;      /* NULL if an image could not be read: then bytes is 0 and MR_FRAME_CORRUPT is set */
    uint8_t *data;
    size_t bytes;
    mr_buffer *side;        /* side data as media_codec.h writes it; NULL for most packets */
    mr_media *media;
    int64_t pts_ns, dts_ns; /* from the start of the stream; MR_NO_TIME unknown */
    int64_t duration_ns;
    int64_t captured_ns;    /* live: when the camera took it, ns since 1970; MR_NO_TIME unknown */
    int64_t arrived_ns;     /* live: when its last byte came, CLOCK_MONOTONIC; MR_NO_TIME: not live */
    bool begins_epoch;      /* the first of a new connection, or of a row of a list beside which are videos */
    uint32_t flags;
} mr_packet;

#endif
