/* What becomes of frames that stop here: dropped, absorbed or delivered, and the gaps they leave. Internal to
 * engine/flow. */
#pragma once

#include "engine/data/receipt.h"
#include "engine/flow/instance/instance.h"

/* Adds the mark to all outputs, if a later stage needs gaps. */
void mr_settle_gap(mr_instance *instance, mr_slot *slot, const mr_item *gap);
/* Notes the outcome for a frame that stops here, and leaves a gap for later joins. */
void mr_settle_frame(mr_instance *instance, mr_slot *slot, const mr_frame *frame, mr_note note, const char *stage,
                     const char *reason);
/* Accounts for a call that is over: a sink's inputs are delivered; if the call failed, its inputs and outputs are
 * dropped, or the source has failed. */
void mr_settle_call(mr_entry_task *entry, mr_slot *slot, int answer);
/* The same for a failed flush. */
void mr_settle_failure(mr_instance *instance, mr_slot *slot, int status);
/* The slot's device failed: later calls go to another device if they can. */
void mr_settle_lost_device(mr_instance *instance, const mr_slot *slot);
/* Logs mr_fail's message in the stage's name. */
void mr_settle_complain(const mr_instance *instance, int status);
