#include "tests/support/device_work.h"
#include "tests/support/suite.h"

#include <time.h>
#include "engine/device/sim/sim.h"

int work_add_note(void *arguments) {
    const work_note *add = arguments;
    add->list[(*add->count)++] = add->value;
    return MR_OK;
}

int work_add_one(void *arguments) {
    ++**(int **)arguments;
    return MR_OK;
}

int work_fail_with(void *arguments) {
    return *(const int *)arguments;
}

void work_count_call(void *context) {
    atomic_fetch_add((atomic_int *)context, 1);
}

void work_nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

void work_finish(mr_device *device, bool manual, const mr_event *event) {
    int64_t now = 0;
    for (int i = 0; i < 1200000 && !mr_event_done(event); i++) {
        if (!manual)
            work_nap();
        else if ((now = mr_sim_advance(device, now)) == INT64_MAX)
            break;
    }
    assert_true(mr_event_done(event));
}

int work_settle(mr_device *device, bool manual, mr_stream *stream) {
    mr_event *event;
    assert_int_equal(mr_event_create(&event, device, NULL), MR_OK);
    assert_int_equal(mr_stream_record(stream, event), MR_OK);
    work_finish(device, manual, event);
    int status = mr_event_status(event);
    mr_event_unref(&event);
    return status;
}
