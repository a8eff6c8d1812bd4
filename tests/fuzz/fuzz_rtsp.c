/* Any bytes from an RTSP server: messages with descriptions and password requests, RTP packets for each codec with
 * losses, and RTCP reports. Nothing may crash, leak, or take much memory. The first byte chooses; two bytes before each
 * packet give the length.
 *
 *     tests/fuzz/run 60 fuzz_rtsp */
#include <string.h>

#include "millrace/frame.h"
#include "millrace/status.h"
#include "stages/live/rtsp/depacketize.h"
#include "stages/live/rtsp/rtcp.h"
#include "stages/live/rtsp/rtsp_message.h"
#include "stages/live/rtsp/sdp.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_UNIT = 1 << 20 };

/* Reads each byte in a unit, and the zeros after it. */
static void check_unit(const mr_rtp_unit *unit) {
    volatile uint8_t sum = 0;
    fault_if(unit->bytes == 0 || unit->bytes > MOST_UNIT || (unit->key && unit->damaged));
    for (size_t i = 0; i < unit->bytes; i++)
        sum = (uint8_t)(sum + unit->data[i]);
    for (size_t i = 0; i < 64; i++)
        fault_if(unit->data[unit->bytes + i]);
}

static void take_units(mr_depacketizer *units) {
    mr_rtp_unit unit;
    size_t bytes;
    uint64_t version;
    while (mr_depacketizer_take(units, &unit))
        check_unit(&unit);
    (void)mr_depacketizer_sets(units, &bytes, &version);
}

static void take_packets(mr_rtp_order *order, mr_depacketizer *units, int64_t now_ns) {
    mr_rtp_packet packet;
    while (mr_rtp_order_take(order, &packet, now_ns)) {
        mr_depacketizer_put(units, &packet);
        take_units(units);
    }
}

static void put_packet(mr_rtp_order *order, mr_depacketizer *units, mr_rtcp *rtcp, const uint8_t *data, size_t bytes,
                       int64_t now_ns) {
    mr_rtp_packet packet;
    if (!mr_rtp_parse(&packet, data, bytes)) {
        mr_rtcp_read(rtcp, data, bytes, now_ns, now_ns);
        return;
    }
    mr_rtcp_came(rtcp, &packet, now_ns);
    if (mr_rtp_order_put(order, &packet, now_ns) == MR_RTP_FULL) {
        take_packets(order, units, now_ns);
        fault_if(mr_rtp_order_put(order, &packet, now_ns) == MR_RTP_FULL);
    }
    take_packets(order, units, now_ns);
}

static void read_packets(mr_rtp_codec codec, int64_t wait_ns, const uint8_t *data, size_t bytes) {
    mr_rtp_order *order;
    mr_depacketizer *units;
    mr_rtcp rtcp;
    uint8_t report[MR_RTCP_BYTES];
    int64_t now_ns = 0;
    mr_rtcp_begin(&rtcp, 1, 90000);
    fault_if(mr_rtp_order_create(&order, wait_ns, 90000) || mr_depacketizer_create(&units, codec, MOST_UNIT));
    for (; bytes >= 2; now_ns += 10000000) {
        size_t length;
        uint8_t *exact = fuzz_piece(&data, &bytes, &length, 0);
        put_packet(order, units, &rtcp, exact, length, now_ns);
        free(exact);
    }
    (void)mr_rtcp_write(&rtcp, report, now_ns);
    (void)mr_rtcp_captured_ns(&rtcp, 1, now_ns);
    mr_rtp_order_release(order);
    take_packets(order, units, now_ns);
    mr_depacketizer_end(units);
    take_units(units);
    mr_depacketizer_destroy(&units);
    mr_rtp_order_destroy(&order);
}

static void read_text(const char *text, size_t bytes) {
    static mr_sdp sdp;
    static mr_rtsp_url url;
    mr_rtsp_message message;
    mr_rtsp_auth auth = {0};
    char value[512], header[4096];
    if (mr_rtsp_message_read(&message, text, bytes))
        return;
    fault_if(message.bytes > bytes);
    if (mr_rtsp_header(&message, "Location", 0, value, sizeof value) && !mr_rtsp_url_read(&url, value))
        (void)mr_rtsp_url_join(header, sizeof header, url.text, value);
    if (mr_rtsp_header(&message, "Transport", 0, value, sizeof value))
        (void)mr_rtsp_field(value, "server_port", header, sizeof header);
    if (mr_rtsp_auth_read(&auth, &message, false))
        (void)mr_rtsp_auth_write(&auth, header, sizeof header, "me", "secret", "PLAY", "rtsp://x");
    fault_if(!mr_sdp_read(&sdp, message.body, message.body_bytes, "x") &&
             (sdp.set_count > MR_SDP_MOST_SETS || !sdp.rate));
}

FUZZ(data, bytes) {
    static mr_sdp sdp;
    if (!bytes)
        return;
    const int kind = data[0] % 8;
    char *exact = (char *)fuzz_copy(data + 1, bytes - 1, 0);
    if (kind < 6)
        read_packets((mr_rtp_codec)(kind % 3), kind < 3 ? 0 : 50000000, data + 1, bytes - 1);
    else if (kind == 6)
        read_text(exact, bytes - 1);
    else
        (void)mr_sdp_read(&sdp, exact, bytes - 1, "x");
    free(exact);
}
