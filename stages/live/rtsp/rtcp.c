#include "stages/live/rtsp/rtcp.h"

#include <math.h>
#include <string.h>

#include "millrace/frame.h"

enum { SENDER_REPORT = 200, RECEIVER_REPORT = 201, DESCRIPTION = 202, BYE = 203 };

static const int64_t second_ns = 1000000000, hour_ns = 3600LL * 1000000000;
static const int64_t unix_epoch_s = 2208988800; /* 1970 in NTP seconds, which count from 1900 */

void mr_rtcp_begin(mr_rtcp *rtcp, uint32_t own, uint32_t rate) {
    *rtcp = (mr_rtcp){.own = own, .rate = rate};
}

/* ---- packets that came ------------------------------------------------------------------------------------------- */

static uint32_t ticks_of(const mr_rtcp *rtcp, int64_t ns) {
    return (uint32_t)((uint64_t)(ns / second_ns) * rtcp->rate + (uint64_t)(ns % second_ns) * rtcp->rate / 1000000000);
}

static void begin_source(mr_rtcp *rtcp, const mr_rtp_packet *packet, uint32_t transit) {
    rtcp->has_source = true;
    rtcp->source = packet->source;
    rtcp->first = rtcp->highest = packet->sequence + (1u << 16); /* so that a late packet cannot go below 0 */
    rtcp->received = 1;
    rtcp->reported_expected = rtcp->reported_received = 0;
    rtcp->jitter = 0;
    rtcp->transit = transit;
    rtcp->bye = false;
}

void mr_rtcp_came(mr_rtcp *rtcp, const mr_rtp_packet *packet, int64_t now_ns) {
    enum { JUMP = 3000 };
    const uint32_t transit = ticks_of(rtcp, now_ns) - packet->timestamp;
    const int16_t ahead = (int16_t)(uint16_t)(packet->sequence - (uint16_t)rtcp->highest);
    if (!rtcp->has_source || rtcp->source != packet->source || ahead > JUMP || ahead < -JUMP) {
        begin_source(rtcp, packet, transit);
        return;
    }
    rtcp->received++;
    if (ahead > 0)
        rtcp->highest += (uint64_t)ahead;
    const double change = fabs((double)(int32_t)(transit - rtcp->transit));
    rtcp->transit = transit;
    rtcp->jitter += (change - rtcp->jitter) / 16;
    rtcp->bye = false;
}

double mr_rtcp_jitter_ns(const mr_rtcp *rtcp) {
    return rtcp->jitter * 1e9 / rtcp->rate;
}

/* ---- reports of a sender ----------------------------------------------------------------------------------------- */

/* Converts NTP time to ns since 1970. NTP seconds wrap in February 2036. Until then, a time below 1970 means that the
 * camera's clock was never set. */
static int64_t utc_of(uint32_t seconds, uint32_t fraction, int64_t utc_ns) {
    static const int64_t turn_s = 1LL << 32;
    int64_t since = seconds - unix_epoch_s;
    if (since < 0) {
        if (utc_ns / second_ns < turn_s - unix_epoch_s - 30 * 86400)
            return MR_NO_TIME;
        since += turn_s;
    }
    return since * second_ns + (int64_t)((uint64_t)fraction * 1000000000 >> 32);
}

static void read_sender_report(mr_rtcp *rtcp, const uint8_t *at, int64_t now_ns, int64_t utc_ns) {
    const uint32_t source = mr_rtp_32(at);
    if (rtcp->has_source && source != rtcp->source)
        return;
    rtcp->has_report = true;
    rtcp->report_source = source;
    rtcp->report_utc_ns = utc_of(mr_rtp_32(at + 4), mr_rtp_32(at + 8), utc_ns);
    rtcp->report_middle = mr_rtp_32(at + 6);
    rtcp->report_timestamp = mr_rtp_32(at + 12);
    rtcp->report_came_ns = now_ns;
}

static void read_bye(mr_rtcp *rtcp, const uint8_t *at, size_t count, size_t bytes) {
    for (size_t i = 0; i < count && 4 * i + 4 <= bytes; i++)
        if (rtcp->has_source && mr_rtp_32(at + 4 * i) == rtcp->source)
            rtcp->bye = true;
}

bool mr_rtcp_read(mr_rtcp *rtcp, const uint8_t *data, size_t bytes, int64_t now_ns, int64_t utc_ns) {
    enum { HEADER = 4, SENDER_INFO = 24 };
    while (bytes >= HEADER) {
        const size_t length = 4 * ((size_t)mr_rtp_16(data + 2) + 1);
        if (data[0] >> 6 != 2 || length > bytes)
            return false;
        if (data[1] == SENDER_REPORT && length >= HEADER + SENDER_INFO)
            read_sender_report(rtcp, data + HEADER, now_ns, utc_ns);
        else if (data[1] == SENDER_REPORT)
            return false;
        else if (data[1] == BYE)
            read_bye(rtcp, data + HEADER, data[0] & 31, length - HEADER);
        data += length;
        bytes -= length;
    }
    return bytes == 0;
}

int64_t mr_rtcp_captured_ns(const mr_rtcp *rtcp, uint32_t timestamp, int64_t now_ns) {
    if (!rtcp->has_report || rtcp->report_source != rtcp->source || rtcp->report_utc_ns == MR_NO_TIME ||
        now_ns - rtcp->report_came_ns > hour_ns)
        return MR_NO_TIME;
    const int64_t ticks = (int32_t)(timestamp - rtcp->report_timestamp);
    return rtcp->report_utc_ns + ticks * second_ns / rtcp->rate;
}

/* ---- our reports ------------------------------------------------------------------------------------------------- */

static uint8_t *put_32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    return at + 4;
}

/* RFC 3550, A.3: 24 bits of cumulative loss, and an 8-bit fraction since the last report. */
static uint32_t loss(mr_rtcp *rtcp) {
    const uint64_t expected = rtcp->highest - rtcp->first + 1;
    int64_t lost = (int64_t)expected - (int64_t)rtcp->received;
    const int64_t new_expected = (int64_t)(expected - rtcp->reported_expected);
    const int64_t new_lost = new_expected - (int64_t)(rtcp->received - rtcp->reported_received);
    const int64_t fraction = new_expected > 0 && new_lost > 0 ? (new_lost << 8) / new_expected : 0;
    lost = lost > 0x7fffff ? 0x7fffff : lost < -0x800000 ? -0x800000 : lost;
    rtcp->reported_expected = expected;
    rtcp->reported_received = rtcp->received;
    return (uint32_t)(fraction > 255 ? 255 : fraction) << 24 | ((uint32_t)lost & 0xffffff);
}

/* Time since the sender's report, in 1/65536 s. */
static uint32_t delay(const mr_rtcp *rtcp, int64_t now_ns) {
    const int64_t passed_ns = now_ns - rtcp->report_came_ns;
    return passed_ns > hour_ns ? 0 : (uint32_t)(passed_ns / 1000 * 65536 / 1000000);
}

size_t mr_rtcp_write(mr_rtcp *rtcp, uint8_t data[MR_RTCP_BYTES], int64_t now_ns) {
    static const char name[] = "millrace";
    if (!rtcp->has_source)
        return 0;
    const bool has_report = rtcp->has_report && rtcp->report_source == rtcp->source;
    uint8_t *at = put_32(data, 0x81000000u | RECEIVER_REPORT << 16 | 7);
    at = put_32(at, rtcp->own);
    at = put_32(at, rtcp->source);
    at = put_32(at, loss(rtcp));
    at = put_32(at, (uint32_t)rtcp->highest - (1u << 16));
    at = put_32(at, (uint32_t)rtcp->jitter);
    at = put_32(at, has_report ? rtcp->report_middle : 0);
    at = put_32(at, has_report ? delay(rtcp, now_ns) : 0);
    /* Each compound packet must name the source: one item and an end, in 4 words. */
    at = put_32(at, 0x81000000u | DESCRIPTION << 16 | 4);
    at = put_32(at, rtcp->own);
    memset(at, 0, 12);
    at[0] = 1;
    at[1] = sizeof name - 1;
    memcpy(at + 2, name, sizeof name - 1);
    return (size_t)(at + 12 - data);
}
