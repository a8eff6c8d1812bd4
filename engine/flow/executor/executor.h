/* The executor runs tasks to completion, with one worker thread for each usable core.
 *
 * A task does all it can and returns; it must never wait. If it needs input, room, a buffer or an event, the supplier
 * wakes it with mr_task_wake. No wake is lost: a task woken while running runs once more. A task never runs on two
 * threads at once.
 *
 * Order: the task that the running task woke last runs next on the same worker, while the data are in cache. Other
 * tasks queue in order, and any worker may take them. A sleeping worker is woken only when tasks queue up.
 *
 * A task that must block can get a dedicated thread (mr_task_detach).
 *
 * Deterministic mode: with a seed there are no threads. mr_executor_drive (drive.h) runs tasks in a seeded order. When
 * nothing can run, it advances a simulated clock to the next timer or device completion. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/clock.h"
#include "engine/device/device.h"
#include "engine/flow/executor/timers.h"

typedef struct mr_executor mr_executor;
typedef void mr_task_function(void *context);
/* Returns true if the task has work. It must not make system calls, and must report each piece of work once: otherwise
 * the polling worker would do nothing else. `last`: polling is about to stop, so producers must wake the task from now
 * on. It must not wait for a thread that calls mr_task_poll or mr_task_unpoll. */
typedef bool mr_task_peek(void *context, bool last);

/* Embed it in another struct. Only the executor may touch the fields. */
typedef struct mr_task {
    mr_executor *executor;
    mr_task_function *function;
    void *context;
    atomic_int state;
    struct mr_task *next; /* next in the queue */
    mr_timer timer;
    struct mr_task_thread *thread; /* dedicated thread, or NULL */
    int fd;                        /* watched descriptor */
    bool upkeep;                   /* runs do not extend polling */
    mr_task_peek *peek;            /* if polled */
} mr_task;

/* Creates an executor with `workers` threads; mr_executor_start starts them. A nonzero `seed` makes it deterministic,
 * without threads. MR_ERROR_MEMORY; MR_ERROR_UNAVAILABLE: no descriptors left. */
int mr_executor_create(mr_executor **executor, int workers, uint64_t seed);
/* Call before the start. For poll_ns after the last task that is not upkeep, one idle worker polls for work, so that
 * producers need not wake one. It polls the queue, the timers (which then fire without slack) and the tasks added by
 * mr_task_poll. Default 0: idle workers sleep at once. */
void mr_executor_busy_poll(mr_executor *executor, int64_t poll_ns);
int mr_executor_start(mr_executor *executor);
/* Writes the name that the system shows for this worker thread into `name`, and returns it. A dedicated thread shows
 * the name given to mr_task_detach, cut to the same length. */
enum { MR_THREAD_NAME = 16 };
const char *mr_worker_name(int index, char name[MR_THREAD_NAME]);
/* Ends each worker after the task that it is running. Queued tasks do not run. */
void mr_executor_stop(mr_executor *executor);
/* Total processor nanoseconds used by the running workers. Only the thread that starts and stops the executor may call
 * it. */
int64_t mr_executor_cpu_ns(const mr_executor *executor);
/* Stops the executor first. Sets the pointer to NULL; accepts NULL. */
void mr_executor_destroy(mr_executor **executor);

/* Whether every worker runs a task or is about to. The answer may change at any time. */
bool mr_executor_is_busy(mr_executor *executor);
int64_t mr_executor_now_ns(const mr_executor *executor);
/* The real clock, or the simulated one. */
const mr_clock *mr_executor_clock(const mr_executor *executor);
/* The calling worker's index; 0 on other threads. */
int mr_executor_worker_here(void);

void mr_task_init(mr_task *task, mr_executor *executor, mr_task_function *function, void *context);
/* Gives the task a dedicated thread. Call it before the first wake, or after mr_task_end_thread; not in deterministic
 * mode. MR_ERROR_MEMORY. */
int mr_task_detach(mr_task *task, const char *name);
/* Wakes the task whenever the descriptor becomes readable or receives more data (edge-triggered: old unread data do not
 * wake it again). The caller keeps ownership of the descriptor. An idle worker waits on it and runs the task; if all
 * workers are busy, one tries every millisecond. MR_ERROR_UNAVAILABLE: the task has a dedicated thread, the executor is
 * deterministic, or too many descriptors are watched. */
int mr_task_watch(mr_task *task, int fd) __attribute__((warn_unused_result));
/* Must be called before the descriptor is closed. The task may be woken once more. */
void mr_task_unwatch(mr_task *task);
/* The polling worker (mr_executor_busy_poll) also calls `peek`, and wakes the task if it returns true. Polling can stop
 * or be off, so there must be another way to wake the task. MR_ERROR_UNAVAILABLE: too many tasks are polled. */
int mr_task_poll(mr_task *task, mr_task_peek *peek) __attribute__((warn_unused_result));
/* Call before the first wake. The task is also woken without work, for example by keep-alive messages; such runs do not
 * extend polling unless it calls mr_executor_keep_polling. */
void mr_task_for_upkeep(mr_task *task);
/* A task calls it after it found work, when more should come soon. Does nothing on other threads. */
void mr_executor_keep_polling(void);
/* Stops calling `peek`. A worker that is polling makes no call with `last`, on which producers may rely: the caller
 * must handle remaining work. The task may be woken once more. */
void mr_task_unpoll(mr_task *task);
/* Asks a dedicated thread to end; mr_task_end_thread must follow. */
void mr_task_ask_thread_to_end(mr_task *task);
/* Ends and joins a dedicated thread. The task does not run again, and wakes have no effect. Must not be called on that
 * thread. */
void mr_task_end_thread(mr_task *task);
/* Whether the task had a dedicated thread that was ended. */
bool mr_task_has_ended(const mr_task *task);
/* Lets workers run a task whose thread was ended; the caller must then wake it. Does nothing for other tasks. */
void mr_task_return(mr_task *task);
/* True if the task is not running or queued. The next run then sees everything the caller wrote before. */
bool mr_task_is_quiet(mr_task *task);
/* Processor nanoseconds used by the dedicated thread, also after it ended; 0 without one. */
int64_t mr_task_cpu_ns(const mr_task *task);
/* Ends and joins a dedicated thread and cancels the timer. The task must not be running on a worker. */
void mr_task_fini(mr_task *task);
/* Any thread. True if the task was idle, so that this call makes it run. */
bool mr_task_wake(mr_task *task);
/* mr_task_wake as a callback for events and pools. */
void mr_task_waker(void *task);
/* Wakes the task after all queued tasks and after the one that runs next. `low_priority`: wakes no idle worker; this
 * worker, or another that looks for work, will run it. */
void mr_task_wake_behind(mr_task *task, bool low_priority);
/* Wakes the task only if it is idle. */
bool mr_task_wake_idle(mr_task *task);
/* Wakes the task at this time and replaces any earlier timer. It may fire a millisecond late, so that timers can share
 * a wake-up. */
void mr_task_wake_at(mr_task *task, int64_t time_ns);
