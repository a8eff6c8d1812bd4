/* Internals shared by the executor's files: workers and the queue (executor.c), dedicated threads (threads.c),
 * deterministic mode (drive.c), waiting and polling (poller.c). */
#pragma once

#include "engine/base/clock.h"
#include "engine/flow/executor/executor.h"
#include "engine/flow/executor/timers.h"

/* A task's states. RUNNING_AGAIN: woken while running. */
enum { MR_TASK_IDLE, MR_TASK_QUEUED, MR_TASK_RUNNING, MR_TASK_RUNNING_AGAIN };
enum { MR_EXECUTOR_DEVICES = 64, MR_EXECUTOR_WATCHED = 64, MR_EXECUTOR_POLLED = 64 };

typedef struct mr_worker {
    mr_executor *executor;
    pthread_t thread;
    mr_task *next; /* woken by the running task: runs next on this worker */
    int chain;     /* tasks run in a row this way */
    bool worked;   /* ran a task that is not upkeep since it last looked for work */
} mr_worker;

struct mr_task_thread {
    pthread_t thread;
    pthread_cond_t woken;
    bool ending;
    bool joined;
    atomic_bool missing; /* it could not be restarted: workers run the task. Set with the executor's lock */
    bool given;     /* the queued task was given to this thread; this and the next two need the executor's lock */
    bool over;      /* runs no more tasks */
    int64_t cpu_ns; /* used by all threads of this task that have ended */
};

struct mr_executor {
    pthread_mutex_t lock;
    pthread_cond_t work; /* idle workers wait here, unless they wait in epoll */
    mr_task *head, *tail;
    size_t queued;
    int idle;              /* workers waiting for `work` */
    int waking;            /* those signalled, or about to be */
    atomic_int signalling; /* threads that are about to signal without the lock */
    int in_epoll;          /* workers waiting in epoll_wait */
    bool polling;          /* one worker polls tasks and timers and does not sleep */
    atomic_bool stop_poll; /* it must look at the queue, or stop */
    int64_t poll_ns;       /* how long to poll after the last task that is not upkeep; 0: no polling */
    int64_t poll_until_ns;
    bool stopping;
    mr_timers timers;
    _Atomic int64_t next_due_ns;
    mr_worker *workers;
    int worker_count, started;
    mr_clock *clock;    /* simulated if deterministic */
    uint64_t random;    /* generator state; 0: not deterministic */
    mr_task **runnable; /* deterministic mode: unordered */
    size_t runnable_room;
    mr_device *devices[MR_EXECUTOR_DEVICES];
    int device_count;
    int epoll;               /* holds the watched descriptors, eventfd and timerfd */
    int eventfd, timerfd;    /* eventfd: ends an epoll_wait */
    bool eventfd_set;        /* the eventfd can be read */
    int64_t timerfd_ns;      /* when the timerfd expires, or expired; INT64_MAX: never */
    int64_t epoll_tried_ns;  /* when epoll was last read */
    mr_task *watched[MR_EXECUTOR_WATCHED];
    int watched_count;
    pthread_mutex_t polls; /* guards the next two; the holder must not take `lock` */
    mr_task *polled[MR_EXECUTOR_POLLED];
    int polled_count;
};

static inline bool mr_task_has_thread(const mr_task *task) {
    return task->thread && !atomic_load_explicit(&task->thread->missing, memory_order_relaxed);
}

/* executor.c */
void mr_task_run(mr_task *task);
/* Deterministic mode: adds a task that can run next. */
void mr_executor_queue_runnable(mr_executor *executor, mr_task *task);
/* Claims all tasks due by now_ns and returns them as a list. With the lock. */
mr_task *mr_executor_take_due(mr_executor *executor, int64_t now_ns);
void mr_executor_note_next_due(mr_executor *executor);
/* Queues an idle task, or makes a running task run once more. Wakes no worker. With the lock. */
void mr_executor_queue(mr_executor *executor, mr_task *task);
/* Ensures that a worker waits in epoll with the current descriptors, and unlocks. */
void mr_executor_unlock_and_wake_epoll(mr_executor *executor);
/* Waits on a condition made by mr_condition_init until this time, but at most a tenth of a second. The caller must
 * check the condition again. */
void mr_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns);

/* threads.c: gives the queued task to its thread. False: workers must run it. With the lock. */
bool mr_task_give_to_thread(mr_task *task);

/* poller.c, with the lock unless stated otherwise. */

/* Opens the poller's descriptors. Call it before the workers start. MR_ERROR_UNAVAILABLE. */
int mr_executor_open_poller(mr_executor *executor);
void mr_executor_close_poller(mr_executor *executor);
/* Waits until a timer is due, a watched descriptor can be read (this queues the task) or mr_executor_set_eventfd is
 * called. */
void mr_executor_epoll_wait(mr_executor *executor);
/* Reads epoll without waiting, if no worker waits there and none has tried for pause_ns. */
void mr_executor_epoll_try(mr_executor *executor, int64_t pause_ns);
/* Sets the timerfd to the earliest timer. */
void mr_executor_set_timerfd(mr_executor *executor);
/* Ends an epoll_wait. May be called without the lock. */
void mr_executor_set_eventfd(mr_executor *executor);
/* Polls until there is work, a timer is due, poll_until_ns has passed or stop_poll is set. Unlocks while it polls.
 * False: the worker may sleep. */
bool mr_executor_poll(mr_executor *executor);
