/* RTP (RFC 3550): puts a stream's packets in order and counts those lost between them.
 *
 * Times are in the stream's clock (90 kHz for video), unwrapped: its 32 bits wrap after 13.3 hours, the 16-bit sequence
 * number after seconds. If a sender restarts, its first time continues from the last one plus the time that passed
 * here. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_rtp_packet {
    int64_t number;    /* the sequence number, unwrapped: mr_rtp_order_put */
    int64_t time;      /* unwrapped timestamp */
    uint32_t source;   /* SSRC */
    uint32_t timestamp;
    uint16_t sequence;
    uint8_t type;      /* payload type */
    bool marker;       /* video: a picture's last packet */
    const uint8_t *payload;
    size_t bytes;      /* payload size */
    uint32_t lost;     /* packets missing before this one: mr_rtp_order_take */
    bool restart;      /* the first packet after a sender restarted, likewise */
} mr_rtp_packet;

/* Reads a header (RFC 3550, 5.1); the payload is borrowed. False: not an RTP packet. */
bool mr_rtp_parse(mr_rtp_packet *packet, const uint8_t *data, size_t bytes);
/* Big-endian numbers at `at`. */
static inline uint32_t mr_rtp_16(const uint8_t *at) {
    return (uint32_t)at[0] << 8 | at[1];
}
static inline uint32_t mr_rtp_32(const uint8_t *at) {
    return mr_rtp_16(at) << 16 | mr_rtp_16(at + 2);
}

/* Orders packets. A missing one is waited for until a later one has waited for `wait_ns`, or there is no room for more.
 * It then counts as lost, and is dropped if it comes later. Holds at most 1,024 packets and 4 MiB. */
typedef struct mr_rtp_order mr_rtp_order;

/* wait_ns: how long to wait for a missing packet; 0 for transports that keep the order. `rate`: the stream's clock in
 * Hz. MR_ERROR_MEMORY. */
int mr_rtp_order_create(mr_rtp_order **order, int64_t wait_ns, uint32_t rate);
void mr_rtp_order_destroy(mr_rtp_order **order);

typedef enum mr_rtp_put {
    MR_RTP_TAKEN,
    MR_RTP_LATE,    /* came after it was given up */
    MR_RTP_TWICE,   /* a duplicate */
    MR_RTP_STRAY,   /* from another sender or count; if the next packet follows it, a new count begins there */
    MR_RTP_FULL     /* full: mr_rtp_order_take now gives packets without waiting; take all, then put this one again */
} mr_rtp_put;
/* Sets the packet's number and time. The payload is copied only if the packet must wait: the caller must take all
 * available packets before overwriting it or putting another. `now_ns`: from any clock that never runs back. */
mr_rtp_put mr_rtp_order_put(mr_rtp_order *order, mr_rtp_packet *packet, int64_t now_ns);
/* Takes the next packet, valid until the next put or take; false: none yet. */
bool mr_rtp_order_take(mr_rtp_order *order, mr_rtp_packet *packet, int64_t now_ns);
/* Ends all waiting: everything received can be taken. */
void mr_rtp_order_release(mr_rtp_order *order);
/* When mr_rtp_order_take may return something else without another packet; INT64_MAX: never. */
int64_t mr_rtp_order_due_ns(const mr_rtp_order *order);
