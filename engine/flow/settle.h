/* Frames that stop here: the outcome, and the gap they leave. Internal to engine/flow. */
#pragma once

#include "engine/data/receipt.h"
#include "engine/flow/instance/instance.h"

/* Adds the mark to all outputs, if a later stage needs gaps. */
void mr_instance_mark_gap(mr_instance *instance, mr_slot *slot, const mr_item *gap);
/* Notes the outcome for a frame that stops here, and leaves a gap for later joins. */
void mr_instance_settle(mr_instance *instance, mr_slot *slot, const mr_frame *frame, mr_note note, const char *stage,
                        const char *reason);
/* The same for all inputs not yet settled, in the stage's name. */
void mr_instance_settle_all(mr_instance *instance, mr_slot *slot, mr_note note, const char *reason);
/* Delivers all inputs not yet settled. */
void mr_instance_deliver_all(mr_instance *instance, mr_slot *slot, int64_t now_ns);
