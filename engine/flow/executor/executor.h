/* The executor: runs tasks to completion on one worker thread for each usable core.
 *
 * A task is a function that does what it can and returns; it never waits. What it lacks (input, room, a buffer, an
 * event) wakes it again through mr_task_wake. A wake is never lost: one that comes while the task runs makes it run
 * once more. A task never runs on two threads at once.
 *
 * Order: the task that was woken last by the running task runs next on the same worker, while its data are in the
 * cache; others queue up in order and may be taken by any worker. A sleeping worker is woken only when work queues
 * up, never for the task that runs next anyway.
 *
 * A task may be given a thread of its own (mr_task_detach), for calls that block.
 *
 * Deterministic: with a seed there are no threads at all; mr_executor_drive runs tasks in an order drawn from the
 * seed and moves a simulated clock on to the next timer or device completion whenever nothing else can run. */
#ifndef MILLRACE_FLOW_EXECUTOR_EXECUTOR_H
#define MILLRACE_FLOW_EXECUTOR_EXECUTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/clock.h"
#include "engine/device/device.h"

typedef struct mr_executor mr_executor;
typedef void mr_task_function(void *context);
/* Whether there is something for a task to do, told without a system call and once: were it told again until the task
 * is done with it, whoever looks would do nothing else, and stand in its way. `last`: it is not asked again for some
 * time, so that whoever brings something from now on must wake the task. It must not wait for anybody who calls
 * mr_task_poll or mr_task_unpoll. */
typedef bool mr_task_peek(void *context, bool last);

/* Embedded in its owner. All fields are the executor's. */
typedef struct mr_task {
    mr_executor *executor;
    mr_task_function *function;
    void *context;
    atomic_int state;
    struct mr_task *next;   /* in the queue */
    int64_t due_ns;         /* INT64_MAX: no timer */
    size_t heap_position;   /* in the timer heap, from 1; 0: not in it */
    struct mr_task_thread *thread; /* a thread of its own, or NULL */
    int fd;                 /* that is watched */
    bool upkeep;            /* its runs alone keep nobody polling */
    mr_task_peek *peek;     /* where it is polled */
} mr_task;

/* `workers` threads are started by mr_executor_start; `seed` not 0: deterministic, no threads. */
int mr_executor_create(mr_executor **executor, int workers, uint64_t seed);
/* Before it starts: for so long after the last task that is not for upkeep an idle worker looks for work again and
 * again, one at a time, so that nobody need wake it: in the queue, at the timers, which are not late then to share a
 * wake-up, and where mr_task_poll says. 0, which is so unless said: it sleeps at once. */
void mr_executor_busy_poll(mr_executor *executor, int64_t poll_ns);
int mr_executor_start(mr_executor *executor);
/* What the system shows of the worker thread of that index; writes into `name` and returns it. A task's own thread
 * has the name it was given, cut to as many characters. */
enum { MR_THREAD_NAME = 16 };
const char *mr_worker_name(int index, char name[MR_THREAD_NAME]);
/* Ends all workers once they have finished the task at hand; tasks still queued are not run. */
void mr_executor_stop(mr_executor *executor);
/* Processor nanoseconds of all workers that run. From the thread that starts and stops it. */
int64_t mr_executor_cpu_ns(const mr_executor *executor);
void mr_executor_destroy(mr_executor **executor);

int64_t mr_executor_now_ns(const mr_executor *executor);
/* Of the real world, or simulated. */
const mr_clock *mr_executor_clock(const mr_executor *executor);
/* Which worker the caller runs on; 0 where it is none. */
int mr_executor_worker_here(void);
/* Deterministic: a manual simulated device whose work mr_executor_drive does when its time comes. At most 64. */
int mr_executor_add_device(mr_executor *executor, mr_device *device) __attribute__((warn_unused_result));
/* Deterministic: runs until there is nothing left to run or to wait for, or until_ns is reached. False where nothing
 * at all is left. */
bool mr_executor_drive(mr_executor *executor, int64_t until_ns);

void mr_task_init(mr_task *task, mr_executor *executor, mr_task_function *function, void *context);
/* Gives the task a thread of its own; not in deterministic mode. Before its first wake. */
int mr_task_detach(mr_task *task, const char *name);
/* Wakes the task each time that descriptor, which stays its owner's, becomes readable or has more to read: an idle
 * worker waits for it and runs the task itself, while others that all have enough to do look every millisecond. What
 * was there before and is not read wakes nobody again. Not for tasks with threads of their own, nor in deterministic
 * mode, and for some descriptors at a time: else MR_ERROR_UNAVAILABLE. */
int mr_task_watch(mr_task *task, int fd) __attribute__((warn_unused_result));
/* Before the descriptor is closed. It may be woken once more. */
void mr_task_unwatch(mr_task *task);
/* Whoever polls (mr_executor_busy_poll) asks this, too, and wakes the task where it says so. Nobody does so all the
 * time, or at all unless that was asked for: there must be another way to wake the task, beside this.
 * MR_ERROR_UNAVAILABLE: there are too many. */
int mr_task_poll(mr_task *task, mr_task_peek *peek) __attribute__((warn_unused_result));
/* Before its first wake: it is also woken where there is nothing for anybody to do, such as by what keeps a connection
 * alive, so that workers poll on after it only where it says that there was something. */
void mr_task_for_upkeep(mr_task *task);
/* Says so: by whatever this worker does there is something to do, and soon more. Elsewhere it is nothing. */
void mr_executor_keep_polling(void);
/* `peek` is not called any more, nor for the last time where somebody looks just now: who brings something may still
 * rely on that, so the caller sees to what there is itself. The task may be woken once more. */
void mr_task_unpoll(mr_task *task);
/* Ends and joins its thread, if it has one: the task has nothing more to do, and wakes are for nothing from now on. Not
 * from that thread. */
void mr_task_end_thread(mr_task *task);
/* Processor nanoseconds of its own thread, also once that has ended; 0 where it has none. */
int64_t mr_task_cpu_ns(const mr_task *task);
/* Ends and joins its thread, if it has one; cancels its timer. The task must not be running on a worker. */
void mr_task_fini(mr_task *task);
/* Any thread. True where it was idle, so that this very call will make it run. */
bool mr_task_wake(mr_task *task);
/* The same in the shape of a callback (events, pools). */
void mr_task_waker(void *task);
/* The same, behind all that is queued and what the running task has woken. `quietly`: it has time until this worker
 * comes to it, or another that looks for work, and none is woken for it, nor by waking it once more. */
void mr_task_wake_behind(mr_task *task, bool quietly);
/* The same as mr_task_wake, but only if it is idle. */
bool mr_task_wake_idle(mr_task *task);
/* Wakes the task at that time; replaces its timer. Timers may be a millisecond late so that many share a wake-up. */
void mr_task_wake_at(mr_task *task, int64_t time_ns);

#endif
