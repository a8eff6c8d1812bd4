/* What only CUDA devices must do: access each other's memory and wait for each other's events. Runs on two GPUs, or on
 * two that the host imitates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/device/probe/gpu.h"
#include "millrace/log.h"
#include "tests/support/suite.h"

#ifdef MILLRACE_CUDA_HOST
#include <cuda_runtime_api.h>
#endif

enum { NUMBERS = 1000 };

static mr_device *devices[2];
static mr_stream *streams[2];

static int open_devices(void **state) {
    int status = mr_device_open(&devices[0], "cuda:0", 0, false);
    if (!status)
        status = mr_device_open(&devices[1], "cuda:1", 0, false);
    for (int i = 0; i < 2 && !status; i++)
        status = mr_stream_create(devices[i], &streams[i]);
    if (status)
        print_message("%s\n", mr_message());
    return 0;
}

static int close_devices(void **state) {
    for (int i = 0; i < 2; i++) {
        mr_stream_destroy(&streams[i]);
        mr_device_destroy(&devices[i]);
    }
    return 0;
}

static void finish(const mr_event *event) {
    while (!mr_event_done(event))
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    assert_int_equal(mr_event_status(event), MR_OK);
}

static mr_event *record(mr_stream *stream) {
    mr_event *event = NULL;
    assert_int_equal(mr_event_create(&event, stream->device, NULL), MR_OK);
    assert_int_equal(mr_stream_record(stream, event), MR_OK);
    return event;
}

/* From one device's memory to the other's, and back to the host. */
static void carry(uint32_t *here, void *const there[2]) {
    assert_int_equal(mr_stream_copy(streams[0], there[0], here, NUMBERS * sizeof *here), MR_OK);
    ENDED_BY(mr_event_unref) mr_event *first = record(streams[0]);
    assert_int_equal(mr_stream_wait(streams[1], first), MR_OK);
    assert_int_equal(mr_stream_copy(streams[1], there[1], there[0], NUMBERS * sizeof *here), MR_OK);
    assert_int_equal(mr_stream_copy(streams[1], here + NUMBERS, there[1], NUMBERS * sizeof *here), MR_OK);
    ENDED_BY(mr_event_unref) mr_event *second = record(streams[1]);
#ifdef MILLRACE_CUDA_HOST
    assert_false(mr_event_done(first));
    mr_host_hold(false);
#endif
    finish(second);
    assert_true(mr_event_done(first));
}

TEST(a_stream_waits_for_an_event_of_another_device) {
    if (!streams[1])
        skip();
    void *room = NULL, *there[2] = {NULL, NULL};
    assert_int_equal(mr_device_allocate(devices[0], MR_MEMORY_PINNED, 2 * NUMBERS * sizeof(uint32_t), &room), MR_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mr_device_allocate(devices[i], MR_MEMORY_DEVICE, NUMBERS * sizeof(uint32_t), &there[i]),
                         MR_OK);
    uint32_t *here = room;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        here[i] = i * 2654435761u;
        here[NUMBERS + i] = 0;
    }
#ifdef MILLRACE_CUDA_HOST
    mr_host_hold(true);
#endif
    carry(here, there);
    assert_memory_equal(here, here + NUMBERS, NUMBERS * sizeof *here);
    for (int i = 0; i < 2; i++)
        mr_device_free(devices[i], MR_MEMORY_DEVICE, there[i]);
    mr_device_free(devices[0], MR_MEMORY_PINNED, room);
}

#ifdef MILLRACE_CUDA_HOST
static void expect_refusal(const char *words) {
    mr_device *none = NULL;
    uint64_t bytes;
    assert_int_equal(mr_device_probe("cuda:0", &bytes), MR_ERROR_UNAVAILABLE);
    if (!strstr(mr_message(), words))
        fail_msg("%s", mr_message());
    assert_int_equal(mr_device_open(&none, "cuda:0", 0, false), MR_ERROR_UNAVAILABLE);
    assert_null(none);
    mr_host_be(0, CUDART_VERSION);
}

/* Before anything runs. */
TEST(what_cannot_run_is_said) {
    mr_host_be(0, 0);
    expect_refusal("cuda:0: this machine has no NVIDIA driver");
    mr_host_be(0, 12040);
    expect_refusal("the NVIDIA driver supports CUDA up to 12.4, but this build uses CUDA 13.0");
    if (!mr_gpu_architectures()[0])
        return;
    mr_host_be(52, CUDART_VERSION);
    expect_refusal("cuda:0: its compute capability is 5.2, and this build has kernels for ");
}

/* Rows with room between them go as well from one device to the other. */
TEST(rows_go_from_device_to_device) {
    enum { ROWS = 7, BYTES = 33, FROM = 40, TO = 64 };
    uint8_t *here = NULL;
    void *pinned = NULL, *there[2] = {NULL, NULL};
    assert_int_equal(mr_device_allocate(devices[0], MR_MEMORY_PINNED, 2 * ROWS * TO, &pinned), MR_OK);
    here = pinned;
    for (int i = 0; i < 2; i++)
        assert_int_equal(mr_device_allocate(devices[i], MR_MEMORY_DEVICE, ROWS * TO, &there[i]), MR_OK);
    for (int i = 0; i < 2 * ROWS * TO; i++)
        here[i] = (uint8_t)(i * 7);
    assert_int_equal(mr_stream_copy(streams[0], there[0], here, ROWS * FROM), MR_OK);
    assert_int_equal(mr_stream_copy(streams[1], there[1], NULL, ROWS * TO), MR_OK);
    assert_int_equal(mr_stream_copy_rows(streams[1], there[1], TO, there[0], FROM, BYTES, ROWS), MR_OK);
    assert_int_equal(mr_stream_copy(streams[1], here + ROWS * TO, there[1], ROWS * TO), MR_OK);
    mr_event *event = record(streams[1]);
    finish(event);
    mr_event_unref(&event);
    for (int row = 0; row < ROWS; row++) {
        assert_memory_equal(here + ROWS * TO + row * TO, here + row * FROM, BYTES);
        assert_int_equal(here[ROWS * TO + row * TO + BYTES], 0);
    }
    for (int i = 0; i < 2; i++)
        mr_device_free(devices[i], MR_MEMORY_DEVICE, there[i]);
    mr_device_free(devices[0], MR_MEMORY_PINNED, pinned);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

TEST(urgent_work_has_a_stream_of_high_priority) {
    mr_stream *made[3] = {NULL};
    for (int i = 0; i < 2; i++) {
        mr_host_have_priorities(i == 0);
        assert_int_equal(mr_stream_create_for(devices[0], true, &made[i]), MR_OK);
        assert_int_equal(mr_host_streams(true), 1);
    }
    mr_host_have_priorities(true);
    assert_int_equal(mr_stream_create_for(devices[0], false, &made[2]), MR_OK);
    assert_int_equal(mr_host_streams(true), 1);
    for (int i = 0; i < 3; i++)
        mr_stream_destroy(&made[i]);
    assert_int_equal(mr_host_streams(true), 0);
}

typedef struct lines {
    int count;
    char last[512];
} lines;

static void note_line(void *context, mr_log_level level, const char *line) {
    lines *to = context;
    to->count++;
    snprintf(to->last, sizeof to->last, "%s", line);
}

/* Counts log lines while a new device makes this many streams; keeps the last line. */
static lines make_streams(int count) {
    enum { MOST = 40 };
    mr_device *device = NULL;
    mr_stream *made[MOST] = {NULL};
    lines said = {0};
    assert_int_equal(mr_device_open(&device, "cuda:0", 0, false), MR_OK);
    mr_log_to(note_line, &said);
    for (int i = 0; i < count; i++)
        assert_int_equal(mr_stream_create(device, &made[i]), MR_OK);
    mr_log_to(NULL, NULL);
    for (int i = 0; i < count; i++)
        mr_stream_destroy(&made[i]);
    mr_device_destroy(&device);
    return said;
}

TEST(streams_that_share_queues_are_said_once) {
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    assert_int_equal(make_streams(8).count, 0);
    const lines said = make_streams(12);
    assert_int_equal(said.count, 1);
    assert_non_null(strstr(said.last, "CUDA_DEVICE_MAX_CONNECTIONS=32"));
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "4", 1);
    assert_int_equal(make_streams(12).count, 0);
    mr_gpu_want_connections();
    assert_string_equal(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "4");
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    mr_gpu_want_connections();
    assert_string_equal(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
    assert_int_equal(make_streams(40).count, 0);
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

enum { STREAMS = 3, RECORDS = 10 };

typedef struct lane {
    mr_stream *stream;
    mr_event *event[RECORDS];
} lane;

static void open_lane(lane *to) {
    assert_int_equal(mr_stream_create(devices[0], &to->stream), MR_OK);
}

static void record_all(lane *to) {
    for (int i = 0; i < RECORDS; i++)
        to->event[i] = record(to->stream);
}

static void finish_lane(lane *gone) {
    for (int i = 0; i < RECORDS; i++) {
        finish(gone->event[i]);
        mr_event_unref(&gone->event[i]);
    }
    mr_stream_destroy(&gone->stream);
}

/* A stream reaches its records in order, and work that waits for another stream's record comes after that record. */
TEST(only_the_oldest_record_of_each_stream_is_asked) {
    lane lanes[STREAMS + 1] = {0};
    mr_host_hold(true);
    for (int i = 0; i <= STREAMS; i++)
        open_lane(&lanes[i]);
    for (int i = 0; i < STREAMS; i++)
        record_all(&lanes[i]);
    assert_int_equal(mr_stream_wait(lanes[STREAMS].stream, lanes[0].event[RECORDS - 1]), MR_OK);
    record_all(&lanes[STREAMS]);
    unsigned long long before = mr_host_count().queries;
    while (mr_host_count().queries < before + 10 * STREAMS)
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    assert_int_equal(mr_host_asked(), STREAMS);
    mr_host_hold(false);
    for (int i = STREAMS; i >= 0; i--)
        finish_lane(&lanes[i]);
}

/* The driver may take its time. */
TEST(nobody_waits_while_the_runtime_is_asked) {
    lane lanes[2] = {0};
    for (int i = 0; i < 2; i++)
        open_lane(&lanes[i]);
    mr_host_stall(true);
    record_all(&lanes[0]);
    while (!mr_host_is_stalled())
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    assert_int_equal(mr_stream_wait(lanes[1].stream, lanes[0].event[0]), MR_OK);
    record_all(&lanes[1]);
    assert_true(mr_host_is_stalled());
    mr_host_stall(false);
    for (int i = 0; i < 2; i++)
        finish_lane(&lanes[i]);
}

TEST(devices_reach_each_other_once) {
    ENDED_BY(mr_device_destroy) mr_device *again = NULL;
    assert_int_equal(mr_device_open(&again, "cuda:1", 0, false), MR_OK);
    assert_int_equal(mr_host_peers(0, 1), 1);
    assert_int_equal(mr_host_peers(1, 0), 1);
    assert_int_equal(mr_host_peers(0, 0), 0);
}
#endif

RUN_TESTS(open_devices, close_devices)
