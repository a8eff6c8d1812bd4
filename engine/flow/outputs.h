/* The end of a call, and the ring of slots. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_OUTPUTS_H
#define MILLRACE_FLOW_OUTPUTS_H

#include "engine/flow/instance/instance.h"

/* Pushes the outputs of finished slots, in order, and frees slots whose device work is done. Called with the lock. */
void mr_instance_retire(mr_instance *instance, mr_entry_task *entry);
/* Ends a call that returned `answer` and whose first output is `first`. Returns the answer, or the error at the end. */
int mr_instance_seal(mr_entry_task *entry, mr_slot *slot, size_t first, int answer);
#endif
