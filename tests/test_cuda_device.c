/* What only CUDA devices have to do: reach each other, and wait for each other's events. On two of them, or on those that the
 * host plays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <time.h>

#include "engine/device/device.h"

#ifdef MILLRACE_CUDA_HOST
#include <cuda_runtime_api.h>
#endif

enum { NUMBERS = 1000 };

static mr_device *devices[2];
static mr_stream *streams[2];

static int open_devices(void **state) {
    (void)state;
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
    (void)state;
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

/* From the memory of one device to that of the other, and back to the host. */
static void carry(uint32_t *here, void *const there[2]) {
    assert_int_equal(mr_stream_copy(streams[0], there[0], here, NUMBERS * sizeof *here), MR_OK);
    mr_event *first = record(streams[0]);
    assert_int_equal(mr_stream_wait(streams[1], first), MR_OK);
    assert_int_equal(mr_stream_copy(streams[1], there[1], there[0], NUMBERS * sizeof *here), MR_OK);
    assert_int_equal(mr_stream_copy(streams[1], here + NUMBERS, there[1], NUMBERS * sizeof *here), MR_OK);
    mr_event *second = record(streams[1]);
#ifdef MILLRACE_CUDA_HOST
    assert_false(mr_event_done(first));
    mr_host_hold(false);
#endif
    finish(second);
    assert_true(mr_event_done(first));
    mr_event_unref(&first);
    mr_event_unref(&second);
}

static void a_stream_waits_for_an_event_of_another_device(void **state) {
    (void)state;
    if (!streams[1])
        skip();
    void *room = NULL, *there[2] = {NULL, NULL};
    assert_int_equal(mr_device_allocate(devices[0], MR_MEMORY_PINNED, 2 * NUMBERS * sizeof(uint32_t), &room), MR_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mr_device_allocate(devices[i], MR_MEMORY_DEVICE, NUMBERS * sizeof(uint32_t), &there[i]), MR_OK);
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
static void devices_reach_each_other_once(void **state) {
    (void)state;
    mr_device *again = NULL;
    assert_int_equal(mr_device_open(&again, "cuda:1", 0, false), MR_OK);
    assert_int_equal(mr_host_peers(0, 1), 1);
    assert_int_equal(mr_host_peers(1, 0), 1);
    assert_int_equal(mr_host_peers(0, 0), 0);
    mr_device_destroy(&again);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_waits_for_an_event_of_another_device),
#ifdef MILLRACE_CUDA_HOST
        cmocka_unit_test(devices_reach_each_other_once),
#endif
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
