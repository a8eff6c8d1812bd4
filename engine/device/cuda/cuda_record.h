/* A CUDA device's events and records, and its thread. */
#pragma once

#include "engine/device/cuda/cuda_device.h"

int mr_cuda_record(mr_stream *stream, mr_event *event);
int mr_cuda_wait(mr_stream *stream, mr_event *event);
/* Gives the handle the waits that were put off. */
int mr_cuda_give_waits(cuda_stream *stream);
/* Makes room for `more` events, so that adding them cannot fail. MR_ERROR_MEMORY. */
int mr_cuda_widen_events(cuda_events *list, size_t more);
/* Appends everything in `from` to `to`, which must have room. */
void mr_cuda_move_events(cuda_events *to, cuda_events *from);
void mr_cuda_forget_events(cuda_events *list);
/* A record for a call's end. Filling it moves the stream's work, waits and events into it. */
int mr_cuda_take_record(cuda_device *device, cuda_record **record);
void mr_cuda_fill_record(cuda_record *record, cuda_stream *stream);
/* With the lock. */
void mr_cuda_recycle_record(cuda_device *device, cuda_record *record);
/* Wakes the device's thread for a record, or for something handed on. With the lock. */
void mr_cuda_wake(cuda_device *device);
/* Makes all events of a record refer to it, or to another record. With the lock. */
void mr_cuda_point_events(const cuda_events *events, cuda_record *record);
/* Makes the handle wait for an event if it is not done; else returns the status. */
int mr_cuda_wait_for_point(mr_device *device, cudaStream_t handle, mr_event *event);
/* Makes `count` records for later. The thread's current device must be this one. MR_ERROR_MEMORY, MR_ERROR_DEVICE. */
int mr_cuda_reserve_records(cuda_device *device, int count);
/* As in mr_device_type. */
int mr_cuda_hand_on(mr_stream *stream, mr_event *event);
int mr_cuda_settle(mr_stream *stream);
/* A stream takes over an event's record instead of waiting for it. The caller must hold the lock of the device that
 * both are on. MR_ERROR_MEMORY. */
int mr_cuda_take_over(cuda_stream *stream, cuda_record *held);
/* Device's thread, with the lock: records that were held for too long, which are late now. */
cuda_record *mr_cuda_find_late(cuda_device *device);
/* The same without the lock: gives them to the device. They are then recorded one after the other. */
void mr_cuda_give_late(cuda_device *device, cuda_record *late);
/* How long a call is held; for tests. */
extern _Atomic int64_t mr_cuda_patience_ns;

/* The device's thread: completes events for reached records, until `ending`. */
void *mr_cuda_ask(void *device);
