/* Where frames enter a node that they come to over a cut: source by source into the inlet, the link of the cut's taking
 * side. What that has no room for waits, within the credit that was given for it. Where several processes share the
 * work of the giving node and all of it comes here, each source is put in order again (order.h).
 *
 * Behind a live cut nobody is to wait for a giving process that is not there. Where a join is behind, and one of them
 * has been missing for as long as it takes to be thought lost, and for as long nothing has come of a source, the mark
 * `away` (engine/flow/gone.h) enters for it. What a process has lost of what it was given it says itself once it is
 * back.
 *
 * Used by whoever has the carrier's duty. Internal to engine/transport. */
#ifndef MILLRACE_TRANSPORT_CUT_LANES_H
#define MILLRACE_TRANSPORT_CUT_LANES_H

#include "engine/flow/graph.h"
#include "engine/transport/cut/cut.h"
#include "engine/transport/cut/order.h"
#include "engine/transport/session/session.h"

typedef struct mr_cut_lanes mr_cut_lanes;

/* `room` is woken when there is room again for what waits; whoever takes a frame tells the receiver. All three outlive
 * the lanes. MR_ERROR_MEMORY. */
int mr_cut_lanes_create(mr_cut_lanes **lanes, mr_instance *instance, const mr_cut *cut, mr_receiver *receiver,
                        mr_task *room);
/* Drops what waits. Sets *lanes to NULL; NULL is allowed. */
void mr_cut_lanes_destroy(mr_cut_lanes **lanes);

/* Whether anything of a source was planned to come, and whether its end has not come yet. */
bool mr_cut_lanes_take(const mr_cut_lanes *lanes, uint32_t source);
bool mr_cut_lanes_open(const mr_cut_lanes *lanes, uint32_t source);
/* A frame, with one reference and its receipt, or a mark has come from the process of that number. What can be neither
 * held nor wait for lack of memory is dropped. */
void mr_cut_lanes_put(mr_cut_lanes *lanes, size_t producer, mr_ordered *thing, int64_t now_ns);
/* Nothing more of a source will come: its end enters, once. `cut_short` as that of an item. */
void mr_cut_lanes_end(mr_cut_lanes *lanes, uint32_t source, bool cut_short, int64_t now_ns);
/* Behind those two, once for all frames of a message: wakes what takes them here. */
void mr_cut_lanes_report(mr_cut_lanes *lanes);
/* Nothing more of any source will come. */
void mr_cut_lanes_end_all(mr_cut_lanes *lanes, bool cut_short, int64_t now_ns);
/* Lets in what may enter now, and what is to be said while processes are missing; *wake_ns becomes earlier where that
 * is to be asked again. */
void mr_cut_lanes_work(mr_cut_lanes *lanes, int64_t now_ns, int64_t *wake_ns);
/* That process has come or gone. */
void mr_cut_lanes_disturb(mr_cut_lanes *lanes, size_t producer, int64_t now_ns);
/* Drops what waits, but for ends. */
void mr_cut_lanes_drop(mr_cut_lanes *lanes, int64_t now_ns);
/* How much has entered so far; whether all ends have, or wait to. */
uint64_t mr_cut_lanes_progress(const mr_cut_lanes *lanes);
bool mr_cut_lanes_ended(const mr_cut_lanes *lanes);

#endif
