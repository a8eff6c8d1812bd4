/* RTCP reports: reading a sender's, and writing ours. */
#include <math.h>
#include <string.h>

#include "millrace/frame.h"
#include "stages/live/rtsp/rtcp.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

static const int64_t second_ns = 1000000000, ntp_epoch = 2208988800;
static const int64_t utc_s = 1790000000; /* September 2026 */

static mr_rtp_packet packet_of(uint16_t sequence, uint32_t timestamp) {
    return (mr_rtp_packet){.source = 0xabcd, .sequence = sequence, .timestamp = timestamp};
}

static uint8_t *put(uint8_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
    return at + bytes;
}

/* Writes a 28-byte sender report. ntp: seconds since 1900, and the fraction. */
static void write_report(uint8_t data[28], uint32_t source, uint64_t ntp, uint32_t timestamp) {
    uint8_t *at = put(data, 0x80c80006, 4);
    at = put(put(put(at, source, 4), ntp, 8), timestamp, 4);
    put(at, 0, 8);
}

TEST(test_captured_times) {
    mr_rtcp rtcp;
    uint8_t report[28];
    mr_rtcp_begin(&rtcp, 1, 90000);
    mr_rtp_packet packet = packet_of(1, 4294967290u);
    mr_rtcp_came(&rtcp, &packet, 5 * second_ns);
    assert_int_equal(mr_rtcp_captured_ns(&rtcp, packet.timestamp, 5 * second_ns), MR_NO_TIME);
    /* A quarter of a second, shortly before the timestamp wraps. */
    write_report(report, 0xabcd, (uint64_t)(utc_s + ntp_epoch) << 32 | 1u << 30, 4294967290u);
    assert_true(mr_rtcp_read(&rtcp, report, sizeof report, 5 * second_ns, utc_s * second_ns));
    const int64_t at_report = utc_s * second_ns + second_ns / 4;
    assert_int_equal(mr_rtcp_captured_ns(&rtcp, 4294967290u, 5 * second_ns), at_report);
    assert_int_equal(mr_rtcp_captured_ns(&rtcp, 4294967290u + 90000u, 6 * second_ns), at_report + second_ns);
    assert_int_equal(mr_rtcp_captured_ns(&rtcp, 4294967290u - 45000u, 6 * second_ns), at_report - second_ns / 2);
    /* Too old after an hour. */
    assert_int_equal(mr_rtcp_captured_ns(&rtcp, 1, 3700 * second_ns), MR_NO_TIME);
    /* Reports from other senders change nothing. */
    write_report(report, 0x1111, (uint64_t)ntp_epoch << 32, 0);
    assert_true(mr_rtcp_read(&rtcp, report, sizeof report, 5 * second_ns, utc_s * second_ns));
    assert_int_equal(mr_rtcp_captured_ns(&rtcp, 4294967290u, 5 * second_ns), at_report);
}

TEST(test_cameras_without_the_time) {
    mr_rtcp rtcp;
    uint8_t report[28];
    mr_rtcp_begin(&rtcp, 1, 90000);
    const mr_rtp_packet packet = packet_of(1, 0);
    mr_rtcp_came(&rtcp, &packet, 0);
    /* Some clocks give zero, or the seconds since power-on. */
    for (uint64_t seconds = 0; seconds < 20000; seconds += 9999) {
        write_report(report, 0xabcd, seconds << 32, 0);
        assert_true(mr_rtcp_read(&rtcp, report, sizeof report, 0, utc_s * second_ns));
        assert_int_equal(mr_rtcp_captured_ns(&rtcp, 0, 0), MR_NO_TIME);
    }
    /* NTP seconds wrap in 2036. */
    const int64_t later_s = 4294967296 - ntp_epoch + 100;
    write_report(report, 0xabcd, 100ull << 32, 0);
    assert_true(mr_rtcp_read(&rtcp, report, sizeof report, 0, later_s * second_ns));
    assert_int_equal(mr_rtcp_captured_ns(&rtcp, 0, 0), later_s * second_ns);
}

TEST(test_bye) {
    mr_rtcp rtcp;
    mr_rtcp_begin(&rtcp, 1, 90000);
    const mr_rtp_packet packet = packet_of(1, 0);
    const uint8_t other[] = {0x81, 203, 0, 1, 0, 0, 0, 9}, ours[] = {0x82, 203, 0, 2, 0, 0, 0, 9, 0, 0, 0xab, 0xcd};
    const uint8_t half[] = {0x9f, 203, 0, 0};
    mr_rtcp_came(&rtcp, &packet, 0);
    assert_true(mr_rtcp_read(&rtcp, other, sizeof other, 0, 0));
    assert_true(mr_rtcp_read(&rtcp, half, sizeof half, 0, 0));
    assert_false(rtcp.bye);
    assert_true(mr_rtcp_read(&rtcp, ours, sizeof ours, 0, 0));
    assert_true(rtcp.bye);
    for (size_t cut = 1; cut < sizeof ours; cut++)
        assert_false(mr_rtcp_read(&rtcp, ours, cut, 0, 0));
}

/* Jitter and loss must match a computation in double precision (RFC 3550, 6.4.1 and A.3). */
TEST(test_our_reports) {
    mr_rtcp rtcp;
    double jitter = 0, before = NAN;
    int received = 0, count_before = 0, received_before = 0;
    mr_rtcp_begin(&rtcp, 0x55, 90000);
    uint8_t report[MR_RTCP_BYTES];
    assert_int_equal(mr_rtcp_write(&rtcp, report, 0), 0);
    for (int i = 0; i < 3000; i++) {
        if (i > 0 && i < 2999 && between(0, 9) == 0)
            continue;
        const int64_t at_ns = i * 40 * (second_ns / 1000) + between(0, 5000) * 1000LL + 777 * second_ns;
        const mr_rtp_packet packet = packet_of((uint16_t)(64000 + i), (uint32_t)(4294960000u + (uint32_t)i * 3600));
        mr_rtcp_came(&rtcp, &packet, at_ns);
        received++;
        const double transit = (double)at_ns * 90e3 / 1e9 - i * 3600.0;
        if (!isnan(before))
            jitter += (fabs(transit - before) - jitter) / 16;
        before = transit;
        assert_true(fabs(rtcp.jitter - jitter) < 1.5); /* ours counts whole ticks */
        if (i % 1000 != 999)
            continue;
        assert_int_equal(mr_rtcp_write(&rtcp, report, at_ns), 52);
        assert_int_equal(mr_rtp_32(report), 0x81c90007);
        assert_int_equal(mr_rtp_32(report + 4), 0x55);
        assert_int_equal(mr_rtp_32(report + 8), 0xabcd);
        const int expected = i + 1 - count_before, came = received - received_before;
        assert_int_equal(report[12], (expected - came) * 256 / expected);
        assert_int_equal(mr_rtp_32(report + 12) & 0xffffff, i + 1 - received);
        assert_int_equal(mr_rtp_32(report + 16), 64000 + i);
        assert_int_equal(mr_rtp_32(report + 20), (uint32_t)rtcp.jitter);
        assert_int_equal(mr_rtp_32(report + 32), 0x81ca0004);
        count_before = i + 1;
        received_before = received;
    }
    assert_true(mr_rtcp_jitter_ns(&rtcp) > 0.5e6 && mr_rtcp_jitter_ns(&rtcp) < 5e6);
}

/* Our report must repeat the time in the sender's report, and give the delay since it came. */
TEST(test_round_trip) {
    mr_rtcp rtcp;
    uint8_t report[28], ours[MR_RTCP_BYTES];
    mr_rtcp_begin(&rtcp, 1, 90000);
    const mr_rtp_packet packet = packet_of(1, 0);
    mr_rtcp_came(&rtcp, &packet, 0);
    write_report(report, 0xabcd, 0x1122334455667788, 0);
    mr_rtcp_read(&rtcp, report, sizeof report, 10 * second_ns, 0);
    assert_int_equal(mr_rtcp_write(&rtcp, ours, 12 * second_ns + second_ns / 2), 52);
    assert_int_equal(mr_rtp_32(ours + 24), 0x33445566);
    assert_int_equal(mr_rtp_32(ours + 28), 65536 * 5 / 2);
}

RUN_TESTS(NULL, NULL)
