#include "tests/support/on_device.h"
#include "tests/support/suite.h"

#include <time.h>
#include "engine/device/open/open.h"

bool on_device_open(on_device *d, const char *name) {
    int status = mr_device_open(&d->device, name, 1, false);
    if (status == MR_ERROR_UNAVAILABLE)
        return false;
    assert_int_equal(status, MR_OK);
    assert_int_equal(mr_stream_create(d->device, &d->stream), MR_OK);
    return true;
}

void need_device(on_device *d, const char *name) {
    if (on_device_open(d, name))
        return;
    print_message("skipped: %s\n", mr_message());
    skip();
}

void on_device_test(const char *name, void (*test)(on_device *d)) {
    ENDED_BY(on_device_close) on_device d = {0};
    need_device(&d, name);
    test(&d);
}

void on_device_close(on_device *d) {
    mr_stream_destroy(&d->stream);
    mr_device_destroy(&d->device);
}

void on_device_finish(on_device *d) {
    ENDED_BY(mr_event_unref) mr_event *event = NULL;
    assert_int_equal(mr_event_create(&event, d->device, NULL), MR_OK);
    assert_int_equal(mr_stream_record(d->stream, event), MR_OK);
    while (!mr_event_done(event))
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    if (mr_event_status(event))
        fail_msg("%s: work failed with %d: %s", d->device->name, mr_event_status(event), mr_message());
}

void *on_device_put(on_device *d, const void *from, size_t bytes) {
    void *there = NULL;
    assert_int_equal(mr_device_allocate(d->device, MR_MEMORY_DEVICE, bytes, &there), MR_OK);
    assert_int_equal(mr_stream_copy(d->stream, there, from, bytes), MR_OK);
    on_device_finish(d);
    return there;
}

void on_device_take(on_device *d, void *there, void *to, size_t bytes) {
    assert_int_equal(mr_stream_copy(d->stream, to, there, bytes), MR_OK);
    on_device_finish(d);
    on_device_free(d, there);
}

void on_device_free(on_device *d, void *there) {
    mr_device_free(d->device, MR_MEMORY_DEVICE, there);
}
