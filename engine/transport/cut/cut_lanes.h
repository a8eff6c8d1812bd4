/* Brings frames from a cut into a node: one source after another into the inlet, which is the link after the cut.
 * Frames that find no room there wait, within the granted credit. If several processes share the producing node's work
 * and all frames come here, order.h restores each source's order.
 *
 * After a live cut nothing may wait for a missing producer. The mark `away` (engine/data/gap.h) enters for a source if
 * three conditions hold: a join follows, a producer has been missing long enough to count as lost, and nothing from the
 * source has arrived for as long. A process reports losses itself once it reconnects.
 *
 * I/O thread only. Internal to engine/transport. */
#pragma once

#include "engine/flow/instance/instance.h"
#include "engine/plan/cut.h"
#include "engine/transport/cut/order.h"
#include "engine/transport/session/receiver.h"

typedef struct mr_cut_lanes mr_cut_lanes;

/* `room` is woken when there is room again for waiting frames; the consumer of a frame tells the receiver. All three
 * outlive the lanes. MR_ERROR_MEMORY. */
int mr_cut_lanes_create(mr_cut_lanes **lanes, mr_instance *instance, const mr_cut *cut, mr_receiver *receiver,
                        mr_task *room);
/* Drops waiting frames. Sets *lanes to NULL; NULL is allowed. */
void mr_cut_lanes_destroy(mr_cut_lanes **lanes);

/* Whether the plan sends this source here and its end has not come yet. */
bool mr_cut_lanes_take(const mr_cut_lanes *lanes, uint32_t source);
bool mr_cut_lanes_open(const mr_cut_lanes *lanes, uint32_t source);
/* Whether its end has come, and was cut short. */
bool mr_cut_lanes_cut_short(const mr_cut_lanes *lanes, uint32_t source);
/* A frame (with one reference and its receipt) or a mark arrived from this producer. It is dropped if there is no
 * memory to hold it. */
void mr_cut_lanes_put(mr_cut_lanes *lanes, size_t producer, mr_ordered *thing, int64_t now_ns);
/* Nothing more comes from a source: its end enters, once. `cut_short` is as in an item. */
void mr_cut_lanes_end(mr_cut_lanes *lanes, uint32_t source, bool cut_short, int64_t now_ns);
/* After these two, once for all frames of a message: wakes the consumers. */
void mr_cut_lanes_report(mr_cut_lanes *lanes);
/* Nothing more comes from any source. */
void mr_cut_lanes_end_all(mr_cut_lanes *lanes, bool cut_short, int64_t now_ns);
/* Pushes the frames that may enter now, and marks for missing processes; *wake_ns becomes the time of the next call, if
 * earlier. */
void mr_cut_lanes_work(mr_cut_lanes *lanes, int64_t now_ns, int64_t *wake_ns);
/* That process connected, or disconnected. */
void mr_cut_lanes_disturb(mr_cut_lanes *lanes, size_t producer, bool connected, int64_t now_ns);
/* Drops waiting items, except ends. */
void mr_cut_lanes_drop(mr_cut_lanes *lanes, int64_t now_ns);
/* How much has entered so far; whether all ends have, or wait to. */
uint64_t mr_cut_lanes_progress(const mr_cut_lanes *lanes);
bool mr_cut_lanes_ended(const mr_cut_lanes *lanes);
