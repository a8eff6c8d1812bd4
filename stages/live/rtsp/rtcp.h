/* RTCP (RFC 3550, 6): sender reports, which relate RTP times to the sender's clock, and our receiver reports. One
 * thread at a time. Clocks are CLOCK_MONOTONIC unless stated. */
#pragma once

#include "stages/live/rtsp/rtp.h"

typedef struct mr_rtcp {
    uint32_t own;       /* our SSRC */
    uint32_t rate;      /* the stream's clock rate in Hz */
    bool has_source;    /* a packet has arrived */
    uint32_t source;    /* SSRC in the last packets */
    uint64_t first, highest; /* sequence numbers extended beyond 16 bits (6.4.1) */
    uint64_t received;
    uint64_t reported_expected, reported_received; /* up to the report before */
    double jitter;      /* in clock ticks */
    uint32_t transit;   /* previous packet's */
    bool has_report;    /* a sender report came from: */
    uint32_t report_source;
    uint32_t report_timestamp;
    int64_t report_utc_ns; /* since 1970; MR_NO_TIME: the sender has no clock */
    uint32_t report_middle; /* the middle 32 bits in the NTP time */
    int64_t report_came_ns;
    bool bye;           /* this source has left, and no packet came since */
} mr_rtcp;

void mr_rtcp_begin(mr_rtcp *rtcp, uint32_t own, uint32_t rate);
/* Call for each arriving packet, before ordering. */
void mr_rtcp_came(mr_rtcp *rtcp, const mr_rtp_packet *packet, int64_t now_ns);
/* Reads a compound packet; false if malformed: everything before the fault counts. `utc_ns`: now, since 1970. */
bool mr_rtcp_read(mr_rtcp *rtcp, const uint8_t *data, size_t bytes, int64_t now_ns, int64_t utc_ns);
/* Writes a receiver report with our name; at most MR_RTCP_BYTES, 0 before the first packet. */
enum { MR_RTCP_BYTES = 64 };
size_t mr_rtcp_write(mr_rtcp *rtcp, uint8_t data[MR_RTCP_BYTES], int64_t now_ns);
/* Converts a timestamp to the sender's clock, since 1970, with the last report and the stream's clock. MR_NO_TIME: not
 * known, or the report is more than an hour old. */
int64_t mr_rtcp_captured_ns(const mr_rtcp *rtcp, uint32_t timestamp, int64_t now_ns);
double mr_rtcp_jitter_ns(const mr_rtcp *rtcp);
