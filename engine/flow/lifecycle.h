/* Creates, opens, wakes, closes and destroys instances. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_LIFECYCLE_H
#define MILLRACE_FLOW_LIFECYCLE_H

#include "engine/flow/instance/instance.h"

/* `run_entry` is the task of its entries (step.h). MR_ERROR_MEMORY. */
int mr_instance_create(mr_instance **instance, const mr_run *run, const mr_plan_vertex *vertex, uint32_t source,
                       void (*run_entry)(void *entry));
/* Waits for its devices' work and closes their streams. Must be called for all instances before the first is destroyed:
 * a device may still report to one that another's work is done. */
void mr_instance_finish(mr_instance *instance);
/* Calls the stage type's close. The executor must have stopped. */
void mr_instance_destroy(mr_instance **instance);
/* Sets its devices, which are open. */
void mr_instance_set_devices(mr_instance *instance);
/* Makes its streams on its devices and calls the stage type's open for each. */
int mr_instance_open(mr_instance *instance);
/* Lets it run from now on, and wakes it, since earlier wakes had no effect. Any thread. */
void mr_instance_start(mr_instance *instance);
/* Marks an open instance as ready to run; its task is woken by others. */
void mr_instance_set_ready(mr_instance *instance);
/* Whether it is a source that was removed. Any thread. */
bool mr_instance_leaves(const mr_instance *instance);
/* Calls the stage type's stop, if it is open. Any thread. */
void mr_instance_tell_stop(mr_instance *instance);
/* Triggers the stage type if it is open and is, or works for, the one of that id: true. Any thread. */
bool mr_instance_trigger(mr_instance *instance, const char *id);
/* For an instance of a source that waits, if the source has ended here and elsewhere: ends its thread, releases its
 * buffers and, if it is the source itself, closes it. Not from its own thread. */
void mr_instance_put_away(mr_instance *instance);
/* For an instance of a source that has left for good: as new, to be opened for the next source of its place. False: one
 * of its entries is about to run, and nothing has happened but that no new call begins; the same must be tried again.
 * Not from its own thread. */
bool mr_instance_vacate(mr_instance *instance);
/* What the plan says of its source, which has changed, while it is vacant. */
void mr_instance_rename(mr_instance *instance);
/* Before the start: gives its first entry a thread (MR_ERROR_MEMORY), which is also to open it. */
int mr_instance_give_thread(mr_instance *instance);
void mr_instance_let_open_itself(mr_instance *instance);
/* From now on it drops its inputs. Any thread. */
void mr_instance_fail(mr_instance *instance);
/* It will not be opened, and only passes the ends of its sources on. */
void mr_instance_leave_shut(mr_instance *instance);
bool mr_instance_is_open(const mr_instance *instance);
/* Brings a sink's output to the disk (mr_stage_type.sync). */
int mr_instance_sync(mr_instance *instance);
/* Wakes an entry: something has changed. Any thread. */
void mr_instance_wake(void *instance);
/* Wakes all entries, also those in an unfinished call. */
void mr_instance_wake_all(mr_instance *instance);

#endif
