/* Ends calls and frees slots. Internal to engine/flow. */
#pragma once

#include "engine/flow/instance/instance.h"
#include "engine/flow/io.h"

/* Pushes finished slots' outputs in order and frees slots whose device work is done. With the lock. */
void mr_instance_retire(mr_instance *instance, mr_entry_task *entry);
/* Records the end of the device work of a call that returned `answer`. Returns the answer, or why it cannot. */
int mr_instance_seal_work(mr_entry_task *entry, mr_slot *slot, int answer);
static inline int mr_instance_seal(mr_entry_task *entry, mr_slot *slot, int answer) {
    if (answer > MR_END)
        answer = mr_io_refuse_answer(&entry->io, answer);
    const bool on_host = mr_parts_are_on_host(&entry->instance->parts, slot->device_number);
    return on_host && (answer >= 0 || answer == MR_ERROR_AGAIN) ? answer : mr_instance_seal_work(entry, slot, answer);
}
