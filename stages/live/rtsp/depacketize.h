/* Assembles RTP payloads to pictures: H.264 (RFC 6184), HEVC (RFC 7798) and JPEG (RFC 2435).
 *
 * A unit can be decoded as it is: an access unit in Annex B form (each NAL unit has a start code), or a whole JPEG
 * file. The marker packet completes it, without waiting for the next packet. If a sender does not set markers, or sets
 * one on each slice, a new time completes it. The packet after the first marker shows which: until it comes, the first
 * unit is held. One thread at a time. */
#pragma once

#include "stages/live/rtsp/rtp.h"

/* Decoders need these zeros after units and parameter sets. */
enum { MR_RTP_PADDING = 64 };

typedef enum mr_rtp_codec { MR_RTP_H264, MR_RTP_HEVC, MR_RTP_JPEG } mr_rtp_codec;

typedef struct mr_rtp_unit {
    const uint8_t *data; /* followed by MR_RTP_PADDING zeros */
    size_t bytes;        /* at least 1 */
    int64_t time;        /* the stream's clock, unwrapped */
    uint32_t timestamp;  /* the same as it came */
    bool key;            /* decoding can begin here: a complete IDR, IRAP, recovery point or JPEG with known sets */
    bool gap;            /* packets before it are missing, or earlier units were too large */
    bool damaged;        /* packets are missing, or may be */
    bool disposable;     /* no other picture is predicted from it */
    int width, height;   /* JPEG only; otherwise 0 */
} mr_rtp_unit;

typedef struct mr_depacketizer mr_depacketizer;

/* Units above `most_bytes` are dropped: the next one has a gap. MR_ERROR_MEMORY. */
int mr_depacketizer_create(mr_depacketizer **depacketizer, mr_rtp_codec codec, size_t most_bytes);
void mr_depacketizer_destroy(mr_depacketizer **depacketizer);
/* Adds the next packet in order. All complete units must be taken before the next call. */
void mr_depacketizer_put(mr_depacketizer *depacketizer, const mr_rtp_packet *packet);
/* Takes the next complete unit, valid until the next mr_depacketizer_put; false: none. */
bool mr_depacketizer_take(mr_depacketizer *depacketizer, mr_rtp_unit *unit);
/* Call when no packet follows: completes an open unit. */
void mr_depacketizer_end(mr_depacketizer *depacketizer);
/* Whether a unit waits for the next packet. A stream's first marker may only end a slice, with more to follow.
 * mr_depacketizer_release ends the unit without that packet. */
bool mr_depacketizer_is_held(const mr_depacketizer *depacketizer);
void mr_depacketizer_release(mr_depacketizer *depacketizer);
/* Whether a unit is incomplete and more packets should follow immediately. */
bool mr_depacketizer_is_open(const mr_depacketizer *depacketizer);

/* Adds a parameter set (NAL unit) from elsewhere, or several with start codes. Key units without such sets get them in
 * front. Sets above 64 KiB are ignored. */
void mr_depacketizer_add_set(mr_depacketizer *depacketizer, const uint8_t *data, size_t bytes);
/* Known parameter sets in Annex B form, followed by MR_RTP_PADDING zeros; valid until the next put or add_set.
 * `version` changes with them. bytes 0: none. */
const uint8_t *mr_depacketizer_sets(mr_depacketizer *depacketizer, size_t *bytes, uint64_t *version);
/* JPEG: sets the size for pictures whose header cannot hold it. */
void mr_depacketizer_set_size(mr_depacketizer *depacketizer, int width, int height);
/* Which payloads were not understood so far: "packets of type 26"; NULL: none. */
const char *mr_depacketizer_refused(const mr_depacketizer *depacketizer, uint64_t *count);
