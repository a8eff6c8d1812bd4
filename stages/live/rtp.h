/* RTP (RFC 3550): packets of a stream, put in order, with what is lost between them.
 *
 * Times are those of the stream's clock (90 kHz for video), unwrapped: 32 bits of it wrap after 13.3 hours, the 16 bits of
 * the sequence number after seconds. One thread at a time. */
#ifndef MILLRACE_STAGES_LIVE_RTP_H
#define MILLRACE_STAGES_LIVE_RTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_rtp_packet {
    int64_t number;    /* the sequence number, unwrapped: mr_rtp_order_put */
    int64_t time;      /* the timestamp, likewise */
    uint32_t source;   /* SSRC */
    uint16_t sequence;
    uint32_t timestamp;
    uint8_t type;      /* payload type */
    bool marker;       /* of video: the last packet of a picture */
    const uint8_t *payload;
    size_t bytes;      /* of the payload */
    uint32_t lost;     /* packets missing before this one: mr_rtp_order_take */
} mr_rtp_packet;

/* Reads the header of RFC 3550, 5.1; the payload is borrowed. False: it is not an RTP packet. */
bool mr_rtp_parse(mr_rtp_packet *packet, const uint8_t *data, size_t bytes);

/* Packets that came in any order, in theirs. A packet that is missing is waited for until a later one has waited for
 * `wait_ns`, or until there is no room for more; then it counts as lost, and is dropped if it comes after all. */
typedef struct mr_rtp_order mr_rtp_order;

/* wait_ns 0: for transports that keep the order. Room for `most` packets of at most `bytes` each. MR_ERROR_MEMORY. */
int mr_rtp_order_create(mr_rtp_order **order, int64_t wait_ns, size_t most, size_t bytes);
void mr_rtp_order_destroy(mr_rtp_order **order);

typedef enum mr_rtp_put {
    MR_RTP_TAKEN,
    MR_RTP_LATE,      /* it, or its gap, was passed on already */
    MR_RTP_TWICE,     /* it is here already */
    MR_RTP_RESTART,   /* another sender, or a jump in the numbers: what was here is dropped, a new count begins with it */
    MR_RTP_FULL,      /* mr_rtp_order_take gives packets up to it now, without waiting: take them, then put it again */
    MR_RTP_TOO_LARGE
} mr_rtp_put;
/* Copies the packet, whose number and time are set. */
mr_rtp_put mr_rtp_order_put(mr_rtp_order *order, mr_rtp_packet *packet, int64_t now_ns);
/* The next packet, valid until the next call; false: there is none yet. */
bool mr_rtp_order_take(mr_rtp_order *order, mr_rtp_packet *packet, int64_t now_ns);
/* When mr_rtp_order_take may answer differently without another packet; INT64_MAX: never. */
int64_t mr_rtp_order_due_ns(const mr_rtp_order *order);

#endif
