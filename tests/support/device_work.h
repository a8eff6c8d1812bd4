/* Small work for streams of devices in tests, and waiting for it. The test's own thread waits, and a failure there
 * fails the test; work itself runs on its device's threads. */
#pragma once

#include "engine/device/device.h"

/* Appends `value` to `list`, and counts it. */
typedef struct work_note {
    int *list, *count;
    int value;
} work_note;

/* For mr_stream_submit. Their arguments: a work_note; a pointer to an int, which is incremented; the status (an int)
 * that the work returns. */
int work_add_note(void *arguments);
int work_add_one(void *arguments);
int work_fail_with(void *arguments);
/* For mr_event_notify: increments the atomic_int `context`. */
void work_count_call(void *context);

/* Sleeps for 50 microseconds, or longer. */
void work_nap(void);
/* Lets simulated time pass until the event is done (`manual`: the device was made so), or waits for it; fails the test
 * if that takes more than a minute. */
void work_finish(mr_device *device, bool manual, const mr_event *event);
/* Records an event on the device's stream, waits for it and returns its status. */
int work_settle(mr_device *device, bool manual, mr_stream *stream);
