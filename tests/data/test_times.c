/* Times from outside: a time out of bounds counts as none, and no sum overflows (UBSan). */
#include <libavutil/avutil.h>

#include "stages/media/media_codec.h"
#include "tests/support/suite.h"

static const int64_t second_ns = 1000000000, day_ns = INT64_C(86400000000000);
static const AVRational coarse = {INT32_MAX, 1}, milli = {1, 1000}, fine = {1, INT32_MAX};
static const int64_t wild[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX / 2, INT64_MIN / 2, MR_MOST_TIME_NS,
                               -MR_MOST_TIME_NS, MR_MOST_TIME_NS + 1, -1, 0, 1};
enum { WILD = sizeof wild / sizeof *wild };

TEST(times_are_bounded) {
    assert_int_equal(mr_time_bound(MR_MOST_TIME_NS), MR_MOST_TIME_NS);
    assert_int_equal(mr_time_bound(-MR_MOST_TIME_NS), -MR_MOST_TIME_NS);
    assert_int_equal(mr_time_bound(MR_MOST_TIME_NS + 1), MR_NO_TIME);
    assert_int_equal(mr_time_bound(INT64_MIN + 1), MR_NO_TIME);
    assert_int_equal(mr_time_step(5, -3, second_ns), 5 - 3 * second_ns);
    assert_int_equal(mr_time_step(MR_NO_TIME, 1, INT64_MAX), MR_NO_TIME);
    assert_int_equal(mr_time_step(0, INT64_MAX, 2), MR_NO_TIME);
    assert_int_equal(mr_time_step(INT64_MAX, -3, MR_MOST_TIME_NS), INT64_MAX - 3 * MR_MOST_TIME_NS);
}

TEST(intervals_are_bounded) {
    assert_int_equal(mr_media_interval_ns(&(mr_media){.rate_num = 30000, .rate_den = 1001}), 33366667);
    assert_int_equal(mr_media_interval_ns(&(mr_media){.rate_num = 1, .rate_den = INT32_MAX}), day_ns);
    assert_int_equal(mr_media_interval_ns(&(mr_media){.rate_num = INT32_MAX, .rate_den = 1}), 0);
    assert_int_equal(mr_media_interval_ns(&(mr_media){.rate_num = -1, .rate_den = 1}), 0);
}

TEST(times_of_files_are_bounded) {
    assert_int_equal(mr_ticks_ns(1040, 1000, milli), 40000000);
    assert_int_equal(mr_ticks_ns(AV_NOPTS_VALUE, 0, milli), MR_NO_TIME);
    assert_int_equal(mr_ticks_ns(0, AV_NOPTS_VALUE, milli), MR_NO_TIME);
    assert_int_equal(mr_ticks_ns(INT64_MAX, -1, milli), MR_NO_TIME);
    assert_int_equal(mr_ticks_ns(INT64_MAX / 2, 0, milli), MR_NO_TIME);
    const AVRational bases[] = {coarse, milli, fine};
    for (int i = 0; i < 3 * WILD * WILD; i++) {
        const AVRational base = bases[i % 3];
        AVPacket packet = {.pts = wild[i / 3 % WILD], .dts = wild[i / 3 / WILD], .duration = wild[i / 3 % WILD]};
        mr_packet_bound(&packet, base);
        const int64_t pts_ns = mr_ticks_ns(packet.pts, 0, base), lasts_ns = mr_ticks_ns(packet.duration, 0, base);
        assert_true((pts_ns == MR_NO_TIME) == (packet.pts == AV_NOPTS_VALUE));
        assert_true(lasts_ns >= 0 && lasts_ns <= day_ns);
        assert_true(packet.dts == AV_NOPTS_VALUE || (packet.dts <= MR_MOST_TIME_NS && packet.dts >= -MR_MOST_TIME_NS));
    }
    AVPacket plain = {.pts = 1040, .dts = 1000, .duration = 40};
    mr_packet_bound(&plain, milli);
    assert_true(plain.pts == 1040 && plain.dts == 1000 && plain.duration == 40);
}

RUN_TESTS(NULL, NULL)
