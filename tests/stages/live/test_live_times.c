/* The clock for live packets must start at 0 and never jump, whatever times the stream has. */
#include "stages/live/live_times.h"
#include "tests/support/suite.h"

static const int64_t frame_ns = 40000000, second_ns = 1000000000;

static mr_packet packet_of(int64_t pts_ns, int64_t dts_ns, int64_t arrived_ns) {
    return (mr_packet){.pts_ns = pts_ns, .dts_ns = dts_ns, .arrived_ns = arrived_ns, .captured_ns = MR_NO_TIME};
}

static mr_packet pass(mr_live_times *times, int64_t pts_ns, int64_t dts_ns, int64_t arrived_ns) {
    mr_packet packet = packet_of(pts_ns, dts_ns, arrived_ns);
    mr_live_times_pass(times, &packet);
    return packet;
}

TEST(test_they_begin_at_0_and_keep_their_distances) {
    mr_live_times times;
    mr_live_times_begin(&times, MR_LIVE_STREAM);
    for (int64_t i = 0; i < 100; i++) {
        mr_packet packet = pass(&times, 7 * second_ns + i * frame_ns, MR_NO_TIME, 99 + i * frame_ns + i % 7 * 1000000);
        assert_int_equal(packet.pts_ns, i * frame_ns);
        assert_int_equal(packet.dts_ns, MR_NO_TIME);
        assert_int_equal(packet.captured_ns, MR_NO_TIME);
    }
    assert_int_equal(times.jumps, 0);
}

/* I P B B: decoded 0 1 2 3, shown 0 3 1 2. */
TEST(test_pictures_out_of_order) {
    static const int64_t shown[] = {0, 3, 1, 2, 6, 4, 5};
    mr_live_times times;
    for (int with_dts = 0; with_dts < 2; with_dts++) {
        mr_live_times_begin(&times, MR_LIVE_STREAM);
        for (int64_t i = 0; i < 7; i++) {
            int64_t dts = with_dts ? second_ns + (i - 1) * frame_ns : MR_NO_TIME;
            mr_packet packet = pass(&times, second_ns + shown[i] * frame_ns, dts, i * frame_ns);
            assert_int_equal(packet.pts_ns, shown[i] * frame_ns);
            assert_int_equal(packet.dts_ns, with_dts ? (i - 1) * frame_ns : MR_NO_TIME);
        }
        assert_int_equal(times.jumps, 0);
    }
}

TEST(test_jumps_go_on_by_the_arrival) {
    static const int64_t jumps[] = {-95443717, -20, 20, 95443717}; /* seconds; also a transport stream's 33 bits */
    mr_live_times times;
    for (size_t j = 0; j < 4; j++) {
        mr_live_times_begin(&times, MR_LIVE_STREAM);
        pass(&times, 0, MR_NO_TIME, 0);
        pass(&times, frame_ns, MR_NO_TIME, frame_ns);
        mr_packet packet = pass(&times, 2 * frame_ns + jumps[j] * second_ns, MR_NO_TIME, 2 * frame_ns);
        assert_int_equal(packet.pts_ns, 2 * frame_ns);
        packet = pass(&times, 3 * frame_ns + jumps[j] * second_ns, MR_NO_TIME, 3 * frame_ns + 5);
        assert_int_equal(packet.pts_ns, 3 * frame_ns);
        assert_int_equal(times.jumps, 1);
    }
}

/* One frame in 20 seconds is no jump. */
TEST(test_a_pause_is_none) {
    mr_live_times times;
    mr_live_times_begin(&times, MR_LIVE_STREAM);
    pass(&times, 0, 0, 0);
    mr_packet packet = pass(&times, 20 * second_ns, 20 * second_ns, 20 * second_ns + 300000000);
    assert_int_equal(packet.pts_ns, 20 * second_ns);
    assert_int_equal(times.jumps, 0);
}

TEST(test_missing_ones_follow_the_arrival) {
    mr_live_times times;
    mr_live_times_begin(&times, MR_LIVE_STREAM);
    for (int64_t i = 0; i < 10; i++)
        assert_int_equal(pass(&times, MR_NO_TIME, MR_NO_TIME, 17 + i * frame_ns).pts_ns, i * frame_ns);
}

TEST(test_any_numbers) {
    static const int64_t wild[] = {INT64_MAX, INT64_MIN + 1, 0, INT64_MAX - 1, 1, INT64_MIN + 2, -1};
    mr_live_times times;
    for (int has_dts = 0; has_dts < 2; has_dts++) {
        int64_t last = INT64_MIN;
        mr_live_times_begin(&times, MR_LIVE_STREAM);
        for (int64_t i = 0; i < 70; i++) {
            int64_t time = wild[i % 7];
            const mr_packet packet = pass(&times, time, has_dts ? wild[i * i % 7] : MR_NO_TIME, i * frame_ns);
            assert_int_equal(packet.pts_ns, mr_time_bound(packet.pts_ns));
            assert_true(times.last_ns >= last);
            last = times.last_ns;
        }
    }
}

TEST(test_arrival) {
    static const int64_t shown[] = {0, 3, 1, 2, 6, 4, 5};
    mr_live_times times;
    mr_live_times_begin(&times, MR_LIVE_ARRIVAL);
    for (int64_t i = 0; i < 7; i++) {
        mr_packet packet = pass(&times, shown[i] * frame_ns, MR_NO_TIME, second_ns + i * frame_ns);
        assert_true(packet.captured_ns > 0);
        if (i == 1)
            assert_int_equal(packet.pts_ns, frame_ns);
        if (i == 2) /* two frames before that one */
            assert_int_equal(packet.pts_ns, 0);
        if (i == 4)
            assert_int_equal(packet.pts_ns, 4 * frame_ns);
    }
}

TEST(test_the_camera_tells) {
    mr_live_times times;
    mr_packet packet = packet_of(0, MR_NO_TIME, 0);
    mr_live_times_begin(&times, MR_LIVE_CAMERA);
    packet.captured_ns = 1700000000000000000;
    mr_live_times_pass(&times, &packet);
    assert_int_equal(packet.captured_ns, 1700000000000000000);
}

RUN_TESTS(NULL, NULL)
