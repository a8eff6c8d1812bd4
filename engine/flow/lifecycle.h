/* Creates, opens, wakes, closes and destroys instances. Internal to engine/flow. */
#pragma once

#include "engine/flow/instance/instance.h"

/* `run_entry` is what each entry's task runs (step.h). MR_ERROR_MEMORY. */
int mr_instance_create(mr_instance **instance, const mr_run *run, const mr_plan_vertex *vertex, uint32_t source,
                       void (*run_entry)(void *entry));
/* Waits for device work and closes the streams. Must be called for all instances before the first is destroyed: a
 * device may still report to one instance that another's work is done. */
void mr_instance_finish(mr_instance *instance);
/* Calls the stage type's close. The executor must have stopped. */
void mr_instance_destroy(mr_instance **instance);
/* Sets the instance's devices, which must be open. */
void mr_instance_set_devices(mr_instance *instance);
/* Creates a stream on each device and calls the stage type's open there. */
int mr_instance_open(mr_instance *instance);
/* Lets the instance run, and wakes it, since earlier wakes had no effect. Any thread. */
void mr_instance_start(mr_instance *instance);
/* Whether the instance may run. If its own thread must open it, or it opens late, opens it first. */
bool mr_instance_get_ready(mr_instance *instance);
/* Whether the run is stopping, or this is a source that was removed. Any thread. */
bool mr_instance_is_stopped(const mr_instance *instance);
/* Calls the stage type's stop, if the instance is open. Any thread. */
void mr_instance_tell_stop(mr_instance *instance);
/* Triggers the stage type if it is open and has this id or serves the source with this id. True if it was triggered.
 * Any thread. */
bool mr_instance_trigger(mr_instance *instance, const char *id);
/* Call it for an instance that serves a waiting source, when that source has ended everywhere. Ends the threads,
 * releases the buffers and, for the source itself, closes it. Must not be called on the instance's own thread. */
void mr_instance_put_away(mr_instance *instance);
/* Call it for an instance whose source has left: resets everything, so that the slot's next source can open it. False:
 * an entry is about to run. Then only new calls are prevented; try again. Must not be called on the instance's own
 * thread. */
bool mr_instance_vacate(mr_instance *instance);
/* Updates what the plan says about the source. The instance must be vacant. */
void mr_instance_rename(mr_instance *instance);
/* Gives the first entry a thread. Returns mr_task_detach's errors. */
int mr_instance_give_thread(mr_instance *instance);
/* Call before the start: lets that thread open the instance. */
void mr_instance_let_open_itself(mr_instance *instance);
/* The instance drops all further inputs. Any thread. */
void mr_instance_fail(mr_instance *instance);
/* The instance will not open; it only passes sources' ends on. */
void mr_instance_leave_shut(mr_instance *instance);
bool mr_instance_is_open(const mr_instance *instance);
/* Writes a sink's output to disk (mr_stage_type.sync). */
int mr_instance_sync(mr_instance *instance);
/* Wakes one entry after a change. Any thread. */
void mr_instance_wake(void *instance);
/* Wakes all entries, including those in an unfinished call. */
void mr_instance_wake_all(mr_instance *instance);
