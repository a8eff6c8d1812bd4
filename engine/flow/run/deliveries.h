/* Delivered frames: latencies and classes, and programs that want to see them. Any thread, without a lock. */
#pragma once

#include "engine/flow/run/run.h"
#include "engine/observe/histogram.h"

typedef struct mr_deliveries mr_deliveries;

int mr_deliveries_create(mr_deliveries **deliveries, const mr_plan *plan);
void mr_deliveries_destroy(mr_deliveries **deliveries);
/* Notes and counts a delivered frame. */
void mr_deliver(const mr_run *run, const mr_plan_vertex *stage, const mr_frame *frame, int64_t now_ns);
/* Call before the start: subscribes to a stage's delivered frames; and whether there is any subscription. */
void mr_deliveries_subscribe(const mr_run *run, const mr_plan_vertex *stage, mr_frame_function *function,
                             void *context);
bool mr_deliveries_are_watched(const mr_run *run);
/* Shows a frame to the subscribed program, if any. */
void mr_deliveries_show(const mr_run *run, const mr_plan_vertex *stage, const mr_frame *frame);
/* Returns when the first frame was delivered (0: none was), and adds all latencies. */
int64_t mr_deliveries_read(const mr_run *run, mr_histogram_sums *latency);
