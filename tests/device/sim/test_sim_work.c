/* Work on simulated accelerators: time, which depends on the seed and is advanced by hand, failures on demand, and
 * streams that wait for other devices' events. Rates, limits and misuse: tests/device/sim/test_sim.c. */
#include "engine/device/device.h"
#include "engine/device/sim/sim.h"
#include "tests/support/device_work.h"
#include "tests/support/suite.h"

static mr_device *make_sim(mr_sim_params params) {
    mr_device *device;
    assert_int_equal(mr_sim_create(&device, &params), MR_OK);
    return device;
}

/* When five consecutive pieces of work are due. */
static void due_times(uint64_t seed, int64_t times[5]) {
    ENDED_BY(mr_device_destroy) mr_device *device =
        make_sim((mr_sim_params){.seed = seed, .min_delay_ns = 1000, .max_delay_ns = 5000, .manual = true});
    ENDED_BY(mr_stream_destroy) mr_stream *stream;
    int status = MR_OK;
    assert_int_equal(mr_stream_create(device, &stream), MR_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(mr_stream_submit(stream, work_fail_with, &status, sizeof status), MR_OK);
    int64_t now = 0;
    for (int i = 0; i < 5; i++)
        times[i] = now = mr_sim_advance(device, now);
    assert_int_equal(mr_sim_advance(device, now), INT64_MAX);
}

TEST(simulated_time_follows_the_seed) {
    int64_t a[5], b[5], c[5];
    due_times(3, a);
    due_times(3, b);
    due_times(4, c);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    for (int i = 0; i < 5; i++)
        assert_in_range(a[i] - (i ? a[i - 1] : 0), 1000, 5000);
}

TEST(nothing_happens_before_its_time) {
    mr_device *device = make_sim((mr_sim_params){.min_delay_ns = 1000, .max_delay_ns = 1000, .manual = true});
    mr_stream *stream;
    mr_event *event;
    int list[1], count = 0;
    work_note add = {list, &count, 1};
    assert_int_equal(mr_stream_create(device, &stream), MR_OK);
    assert_int_equal(mr_event_create(&event, device, NULL), MR_OK);
    assert_int_equal(mr_stream_submit(stream, work_add_note, &add, sizeof add), MR_OK);
    assert_int_equal(mr_stream_record(stream, event), MR_OK);
    assert_int_equal(mr_sim_advance(device, 500), 1500);
    assert_int_equal(mr_sim_advance(device, 1499), 1500);
    assert_int_equal(count, 0);
    assert_false(mr_event_done(event));
    assert_int_equal(mr_sim_advance(device, 1500), INT64_MAX);
    assert_int_equal(count, 1);
    assert_true(mr_event_done(event));
    mr_event_unref(&event);
    mr_stream_destroy(&stream);
    mr_device_destroy(&device);
}

/* Which of six pieces of work failed, with an event after each: one bit each, the first is the lowest. */
static int failures(mr_sim_params params) {
    params.manual = true;
    mr_device *device = make_sim(params);
    mr_stream *stream;
    assert_int_equal(mr_stream_create(device, &stream), MR_OK);
    int bits = 0, status = MR_OK;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(mr_stream_submit(stream, work_fail_with, &status, sizeof status), MR_OK);
        int outcome = work_settle(device, true, stream);
        assert_true(outcome == MR_OK || outcome == MR_ERROR_DEVICE);
        bits |= (outcome != MR_OK) << i;
    }
    mr_stream_destroy(&stream);
    mr_device_destroy(&device);
    return bits;
}

TEST(failures_come_on_demand) {
    assert_int_equal(failures((mr_sim_params){0}), 0);
    assert_int_equal(failures((mr_sim_params){.fail_after = 4}), 0x38);
    assert_int_equal(failures((mr_sim_params){.fail_every = 3}), 0x24);
    ENDED_BY(mr_device_destroy) mr_device *device = make_sim((mr_sim_params){.manual = true, .fail_allocation = 2});
    void *data[3] = {0};
    assert_int_equal(mr_device_allocate(device, MR_MEMORY_DEVICE, 8, &data[0]), MR_OK);
    assert_int_equal(mr_device_allocate(device, MR_MEMORY_DEVICE, 8, &data[1]), MR_ERROR_MEMORY);
    assert_int_equal(mr_device_allocate(device, MR_MEMORY_DEVICE, 8, &data[2]), MR_OK);
    mr_device_free(device, MR_MEMORY_DEVICE, data[0]);
    mr_device_free(device, MR_MEMORY_DEVICE, data[2]);
}

/* On two devices, all after one event from a third. */
TEST(many_streams_of_many_devices_wait_for_one_event) {
    enum { STREAMS = 50 };
    mr_device *devices[2] = {make_sim((mr_sim_params){.index = 1}), make_sim((mr_sim_params){.index = 2})};
    ENDED_BY(mr_device_destroy) mr_device *third = make_sim((mr_sim_params){.manual = true});
    mr_stream *streams[STREAMS];
    mr_event *first, *done[STREAMS];
    mr_event_wait waits[STREAMS] = {0};
    atomic_int calls = 0;
    int sums[STREAMS] = {0};
    assert_int_equal(mr_event_create(&first, third, NULL), MR_OK);
    for (int i = 0; i < STREAMS; i++) {
        int *target = &sums[i];
        assert_int_equal(mr_stream_create(devices[i % 2], &streams[i]), MR_OK);
        assert_int_equal(mr_event_create(&done[i], devices[i % 2], NULL), MR_OK);
        mr_event_notify(done[i], &waits[i], work_count_call, &calls);
        assert_int_equal(mr_stream_wait(streams[i], first), MR_OK);
        assert_int_equal(mr_stream_submit(streams[i], work_add_one, &target, sizeof target), MR_OK);
        assert_int_equal(mr_stream_record(streams[i], done[i]), MR_OK);
    }
    for (int i = 0; i < 20; i++)
        work_nap();
    assert_int_equal(calls, 0);
    mr_event_complete(first, MR_OK);
    for (int i = 0; i < STREAMS; i++) {
        work_finish(devices[i % 2], false, done[i]);
        assert_int_equal(sums[i], 1);
        mr_event_unref(&done[i]);
        mr_stream_destroy(&streams[i]);
        mr_event_forget(&waits[i]);
    }
    assert_int_equal(calls, STREAMS);
    mr_event_unref(&first);
    mr_device_destroy(&devices[0]);
    mr_device_destroy(&devices[1]);
}

TEST(the_cpu_refuses_to_wait) {
    ENDED_BY(mr_device_destroy) mr_device *device = make_sim((mr_sim_params){.manual = true});
    ENDED_BY(mr_stream_destroy) mr_stream *stream;
    ENDED_BY(mr_event_unref) mr_event *event;
    assert_int_equal(mr_stream_create(mr_device_cpu(), &stream), MR_OK);
    assert_int_equal(mr_event_create(&event, device, NULL), MR_OK);
    assert_int_equal(mr_stream_wait(stream, event), MR_ERROR_INTERNAL);
    mr_event_complete(event, MR_OK);
    assert_int_equal(mr_stream_wait(stream, event), MR_OK);
}

RUN_TESTS(NULL, NULL)
