/* Small work for device streams in tests, and waiting for it. The test's own thread must wait; a failure there fails
 * the test. The work runs on the device's threads. */
#pragma once

#include "engine/device/device.h"

/* Appends `value` to `list` and counts it. */
typedef struct work_note {
    int *list, *count;
    int value;
} work_note;

/* For mr_stream_submit. Arguments: a work_note; a pointer to an int to increment; the status (an int) to return. */
int work_add_note(void *arguments);
int work_add_one(void *arguments);
int work_fail_with(void *arguments);
/* For mr_event_notify: increments the atomic_int `context`. */
void work_count_call(void *context);

/* Sleeps for 50 microseconds, or longer. */
void work_nap(void);
/* Advances simulated time until the event is done (`manual`: the device must have been made so), or waits for it. Fails
 * the test after a minute. */
void work_finish(mr_device *device, bool manual, const mr_event *event);
/* Records an event on the stream, waits, and returns the event's status. */
int work_settle(mr_device *device, bool manual, mr_stream *stream);
