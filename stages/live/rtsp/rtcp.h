/* RTCP (RFC 3550, 6): reports of a sender, which tell when its times were, and ours. One thread at a
 * time; clocks are CLOCK_MONOTONIC unless said otherwise. */
#ifndef MILLRACE_STAGES_LIVE_RTSP_RTCP_H
#define MILLRACE_STAGES_LIVE_RTSP_RTCP_H

#include "stages/live/rtsp/rtp.h"

typedef struct mr_rtcp {
    uint32_t own;       /* our SSRC */
    uint32_t rate;      /* of the stream's clock, in Hz */
    bool has_source;    /* a packet has come */
    uint32_t source;    /* of the packets that came last */
    uint64_t first, highest; /* numbers, extended beyond 16 bits as 6.4.1 says */
    uint64_t received;
    uint64_t reported_expected, reported_received; /* up to the report before */
    double jitter;      /* in ticks of the stream's clock */
    uint32_t transit;   /* of the packet before */
    bool has_report;    /* a sender report came, of this source: */
    uint32_t report_source;
    uint32_t report_timestamp;
    int64_t report_utc_ns; /* since 1970; MR_NO_TIME: the sender has no clock */
    uint32_t report_middle; /* the middle 32 bits of its NTP time */
    int64_t report_came_ns;
    bool bye;           /* of this source, since its last packet */
} mr_rtcp;

void mr_rtcp_begin(mr_rtcp *rtcp, uint32_t own, uint32_t rate);
/* Each packet as it comes, before it is put in order. */
void mr_rtcp_came(mr_rtcp *rtcp, const mr_rtp_packet *packet, int64_t now_ns);
/* Reads a compound packet; false if it is malformed: all before the fault counts. `utc_ns`: now, since 1970. */
bool mr_rtcp_read(mr_rtcp *rtcp, const uint8_t *data, size_t bytes, int64_t now_ns, int64_t utc_ns);
/* Writes a receiver report with our name; at most MR_RTCP_BYTES, 0 before the first packet. */
enum { MR_RTCP_BYTES = 64 };
size_t mr_rtcp_write(mr_rtcp *rtcp, uint8_t data[MR_RTCP_BYTES], int64_t now_ns);
/* When a timestamp was by the sender's clock, since 1970: its last report, moved by the stream's clock. MR_NO_TIME: not
 * known, or the last report is older than an hour. */
int64_t mr_rtcp_captured_ns(const mr_rtcp *rtcp, uint32_t timestamp, int64_t now_ns);
double mr_rtcp_jitter_ns(const mr_rtcp *rtcp);

#endif
