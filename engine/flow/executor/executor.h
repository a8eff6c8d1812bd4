/* The executor: runs tasks to completion on one worker thread for each usable core.
 *
 * A task is a function that does as much as it can and returns; it never waits. If it lacks input, room, a buffer or an
 * event, the supplier wakes it again through mr_task_wake. No wake is lost: a task that is woken while it runs, runs
 * once more. A task never runs on two threads at once.
 *
 * Order: the task that the running task woke last runs next on the same worker, while its data are in the cache. Other
 * tasks queue up in order, and any worker may take them. A sleeping worker is woken only if tasks queue up, never for
 * the task that runs next anyway.
 *
 * A task may have a thread of its own (mr_task_detach), for calls that block.
 *
 * Deterministic mode: with a seed there are no threads. mr_executor_drive runs tasks in an order drawn from the seed,
 * and moves a simulated clock on to the next timer or device completion whenever nothing else can run. */
#ifndef MILLRACE_FLOW_EXECUTOR_EXECUTOR_H
#define MILLRACE_FLOW_EXECUTOR_EXECUTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/clock.h"
#include "engine/device/device.h"
#include "engine/flow/executor/timers.h"

typedef struct mr_executor mr_executor;
typedef void mr_task_function(void *context);
/* Returns true if there is work for the task. It makes no system call, and reports each piece of work once: if it kept
 * reporting work that the task is still doing, the polling worker would do nothing else. `last` announces that polling
 * stops for some time: a producer of work must wake the task from now on. It must not wait for a thread that calls
 * mr_task_poll or mr_task_unpoll. */
typedef bool mr_task_peek(void *context, bool last);

/* Embedded in its owner. All fields are the executor's. */
typedef struct mr_task {
    mr_executor *executor;
    mr_task_function *function;
    void *context;
    atomic_int state;
    struct mr_task *next; /* in the queue */
    mr_timer timer;
    struct mr_task_thread *thread; /* a thread of its own, or NULL */
    int fd;                        /* if it is watched */
    bool upkeep;                   /* its runs do not extend polling */
    mr_task_peek *peek;            /* if it is polled */
} mr_task;

/* Creates an executor with `workers` threads, which mr_executor_start starts. If `seed` is not 0 the executor is
 * deterministic and has no threads. MR_ERROR_MEMORY; MR_ERROR_UNAVAILABLE: no descriptors left. */
int mr_executor_create(mr_executor **executor, int workers, uint64_t seed);
/* Before the start: for poll_ns after the last task that is not upkeep, one idle worker at a time polls for work, so
 * that producers need not wake a worker. It polls the queue, the timers (which are then not delayed to share a wake-up)
 * and the tasks of mr_task_poll. Default 0: idle workers sleep at once. */
void mr_executor_busy_poll(mr_executor *executor, int64_t poll_ns);
int mr_executor_start(mr_executor *executor);
/* Writes the name that the system shows for the worker thread of that index into `name`, and returns it. A task's own
 * thread has the name that mr_task_detach was given, cut to the same length. */
enum { MR_THREAD_NAME = 16 };
const char *mr_worker_name(int index, char name[MR_THREAD_NAME]);
/* Ends all workers after their current task. Tasks that are still queued do not run. */
void mr_executor_stop(mr_executor *executor);
/* Processor nanoseconds of all running workers. Called by the thread that starts and stops the executor. */
int64_t mr_executor_cpu_ns(const mr_executor *executor);
/* Stops it first. NULLs; accepts NULL. */
void mr_executor_destroy(mr_executor **executor);

/* Whether no worker is idle: each runs a task, or is about to. It may change at any time. */
bool mr_executor_is_busy(mr_executor *executor);
int64_t mr_executor_now_ns(const mr_executor *executor);
/* The real clock, or the simulated one. */
const mr_clock *mr_executor_clock(const mr_executor *executor);
/* The index of the calling worker; 0 if the caller is not a worker. */
int mr_executor_worker_here(void);
/* Deterministic mode: adds a device in simulated time, which mr_executor_drive advances. MR_ERROR_CONFIG: above 64. */
int mr_executor_add_device(mr_executor *executor, mr_device *device) __attribute__((warn_unused_result));
/* Deterministic mode: runs until nothing is left to run or to wait for, or until_ns is reached. False if nothing is
 * left. */
bool mr_executor_drive(mr_executor *executor, int64_t until_ns);

void mr_task_init(mr_task *task, mr_executor *executor, mr_task_function *function, void *context);
/* Gives the task a thread of its own. Before its first wake, or after mr_task_end_thread; not in deterministic mode.
 * MR_ERROR_MEMORY. */
int mr_task_detach(mr_task *task, const char *name);
/* Wakes the task each time the descriptor becomes readable or has more to read (edge-triggered: unread older data do
 * not wake it again). The descriptor stays the caller's. An idle worker waits for it and runs the task itself; if all
 * workers are busy, one of them tries every millisecond. MR_ERROR_UNAVAILABLE: the task has a thread of its own, the
 * executor is deterministic, or too many descriptors are watched. */
int mr_task_watch(mr_task *task, int fd) __attribute__((warn_unused_result));
/* Before the descriptor is closed. The task may be woken once more. */
void mr_task_unwatch(mr_task *task);
/* The polling worker (mr_executor_busy_poll) also calls `peek`, and wakes the task if it returns true. No worker polls
 * all the time, and none does unless busy polling is on, so there must be another way to wake the task.
 * MR_ERROR_UNAVAILABLE: too many tasks are polled. */
int mr_task_poll(mr_task *task, mr_task_peek *peek) __attribute__((warn_unused_result));
/* Before its first wake: the task is also woken if there is no work, for example by keep-alive messages. Its runs do
 * not extend polling unless it calls mr_executor_keep_polling. */
void mr_task_for_upkeep(mr_task *task);
/* Called by a task: there was work, and more is expected soon. Does nothing on other threads. */
void mr_executor_keep_polling(void);
/* Stops calling `peek`, without a call with `last` even if a worker polls at this moment. Producers may still rely on
 * that call, so the caller handles remaining work itself. The task may be woken once more. */
void mr_task_unpoll(mr_task *task);
/* Lets the task's own thread end, if it has one; mr_task_end_thread must follow. */
void mr_task_ask_thread_to_end(mr_task *task);
/* Ends and joins the task's own thread, if it has one. The task does not run again, and wakes have no effect. Not from
 * that thread. */
void mr_task_end_thread(mr_task *task);
/* Whether it had a thread of its own, which was ended. */
bool mr_task_has_ended(const mr_task *task);
/* From now on workers run a task whose thread was ended; the task must be woken then. Does nothing to others. */
void mr_task_return(mr_task *task);
/* True if the task neither runs nor will: whatever the caller wrote before is seen by the task's next run. */
bool mr_task_is_quiet(mr_task *task);
/* Processor nanoseconds of its own thread, also after that has ended; 0 if it has none. */
int64_t mr_task_cpu_ns(const mr_task *task);
/* Ends and joins its thread, if it has one, and cancels its timer. The task must not be running on a worker. */
void mr_task_fini(mr_task *task);
/* Any thread. True if the task was idle, so that this call makes it run. */
bool mr_task_wake(mr_task *task);
/* mr_task_wake in the shape of a callback (events, pools). */
void mr_task_waker(void *task);
/* Wakes the task behind all queued tasks and behind the task that runs next. `low_priority`: wakes no idle worker,
 * neither now nor if it is woken once more; this worker, or another that looks for work, runs it in time. */
void mr_task_wake_behind(mr_task *task, bool low_priority);
/* mr_task_wake, but only if the task is idle. */
bool mr_task_wake_idle(mr_task *task);
/* Wakes the task at that time; replaces its timer. A timer may be a millisecond late, so that many share a wake-up. */
void mr_task_wake_at(mr_task *task, int64_t time_ns);

#endif
