/* Frames that go no further: their outcome, and the gap that they leave. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_SETTLE_H
#define MILLRACE_FLOW_SETTLE_H

#include "engine/data/receipt.h"
#include "engine/flow/instance/instance.h"

/* Leaves that mark on all outputs, if a stage behind wants gaps. */
void mr_instance_mark_gap(mr_instance *instance, mr_slot *slot, const mr_item *gap);
/* Notes the outcome of a frame that goes no further, and leaves a gap for joins behind. */
void mr_instance_settle(mr_instance *instance, mr_slot *slot, const mr_frame *frame, mr_note note, const char *stage,
                        const char *reason);
/* The same of all inputs of a call that were not settled before, in the stage's name. */
void mr_instance_settle_all(mr_instance *instance, mr_slot *slot, mr_note note, const char *reason);
/* Delivers all inputs of a call that were not settled before. */
void mr_instance_deliver_all(mr_instance *instance, mr_slot *slot, int64_t now_ns);

#endif
