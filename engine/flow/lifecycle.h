/* Instances are made, opened, woken, closed and destroyed. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_LIFECYCLE_H
#define MILLRACE_FLOW_LIFECYCLE_H

#include "engine/flow/instance.h"

/* `run` is the task of its entries (step.h). MR_ERROR_MEMORY. */
int mr_instance_create(mr_instance **instance, mr_graph *graph, const mr_plan_vertex *vertex, uint32_t source,
                       void (*run)(void *entry));
/* Waits for its devices' work and closes their streams. All instances come to this before the first is destroyed: a
 * device may still be telling one that another's work is done. */
void mr_instance_finish(mr_instance *instance);
/* Calls the stage type's close. The executor must have stopped. */
void mr_instance_destroy(mr_instance **instance);
/* Tells it its devices, which are open. */
void mr_instance_set_devices(mr_instance *instance);
/* Makes its streams on its devices and calls the stage type's open for each. */
int mr_instance_open(mr_instance *instance);
/* Lets it run from now on, and wakes it: whatever came before found nobody. Any thread. */
void mr_instance_let_go(mr_instance *instance);
/* What is open is ready to run; its task is woken by others. */
void mr_instance_set_ready(mr_instance *instance);
/* Tells the stage type, if it is open, that the run is being stopped. Any thread. */
void mr_instance_tell_stop(mr_instance *instance);
/* Of an instance of a source that waits, which has ended here and elsewhere: ends its thread, gives its buffers back
 * and, if it is the source itself, closes it. Not from its own thread. */
void mr_instance_put_away(mr_instance *instance);
/* Wakes an entry: something has changed. Any thread. */
void mr_instance_wake(void *instance);
/* Wakes all: also those that wait with a call that is not over. */
void mr_instance_wake_all(mr_instance *instance);

#endif
