/* RTP payloads put together to pictures: H.264 (RFC 6184), HEVC (RFC 7798) and JPEG (RFC 2435).
 *
 * A unit is what a decoder takes at once: an access unit in Annex B form (a start code before each NAL unit), or a whole
 * JPEG file. It is complete with the packet that has the marker, without waiting for the next one; a sender that does not
 * set it is served when the time changes. One thread at a time. */
#ifndef MILLRACE_STAGES_LIVE_DEPACKETIZE_H
#define MILLRACE_STAGES_LIVE_DEPACKETIZE_H

#include "stages/live/rtp.h"

typedef enum mr_rtp_codec { MR_RTP_H264, MR_RTP_HEVC, MR_RTP_JPEG } mr_rtp_codec;

typedef struct mr_rtp_unit {
    const uint8_t *data;
    size_t bytes;
    int64_t time;    /* of the stream's clock */
    bool key;        /* a decoder can begin here: IDR, IRAP, any JPEG */
    bool damaged;    /* packets of it, or between it and the unit before it, are missing */
    bool parameters; /* it has parameter sets */
} mr_rtp_unit;

typedef struct mr_depacketizer mr_depacketizer;

/* Units above `most_bytes` are cut off, and damaged. MR_ERROR_MEMORY. */
int mr_depacketizer_create(mr_depacketizer **depacketizer, mr_rtp_codec codec, size_t most_bytes);
void mr_depacketizer_destroy(mr_depacketizer **depacketizer);
/* Takes the next packet in order. Units are to be taken before the next one. */
void mr_depacketizer_put(mr_depacketizer *depacketizer, const mr_rtp_packet *packet);
/* The next unit that is complete, valid until the next mr_depacketizer_put; false: there is none. */
bool mr_depacketizer_take(mr_depacketizer *depacketizer, mr_rtp_unit *unit);
/* The connection is over: what is begun is forgotten, and the next unit counts as damaged unless it is a key. */
void mr_depacketizer_reset(mr_depacketizer *depacketizer);

#endif
