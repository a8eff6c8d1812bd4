/* Internals of the executor, shared by its files: workers and the queue (executor.c), tasks with threads of their own
 * (threads.c), deterministic mode (drive.c), waiting and polling of idle workers (poller.c). */
#ifndef MILLRACE_FLOW_EXECUTOR_EXECUTOR_PARTS_H
#define MILLRACE_FLOW_EXECUTOR_EXECUTOR_PARTS_H

#include "engine/base/clock.h"
#include "engine/flow/executor/executor.h"
#include "engine/flow/executor/timers.h"

/* States of a task. RUNNING_AGAIN: woken while it runs. */
enum { MR_TASK_IDLE, MR_TASK_QUEUED, MR_TASK_RUNNING, MR_TASK_RUNNING_AGAIN };
enum { MR_EXECUTOR_DEVICES = 64, MR_EXECUTOR_WATCHED = 64, MR_EXECUTOR_POLLED = 64 };

typedef struct mr_worker {
    mr_executor *executor;
    pthread_t thread;
    mr_task *next; /* woken by the running task: runs next, on this worker */
    int chain;     /* how many tasks ran like that in a row */
    bool worked;   /* ran a task that is not upkeep since it last looked for one */
} mr_worker;

struct mr_task_thread {
    pthread_t thread;
    pthread_cond_t woken;
    bool ending;
    bool joined;
    atomic_bool missing; /* it could not be started again: workers run the task */
    bool over;      /* runs no more tasks; this and the next field are under the executor's lock */
    int64_t cpu_ns; /* used, once it is over, also by threads that the task had before */
};

struct mr_executor {
    pthread_mutex_t lock;
    pthread_cond_t work; /* idle workers wait here, except those in epoll_wait */
    mr_task *head, *tail;
    size_t queued;
    int idle;              /* workers waiting for `work` */
    int waking;            /* of them, signalled or about to be */
    atomic_int signalling; /* threads about to send a signal, without the lock */
    int in_epoll;          /* workers waiting in epoll_wait */
    bool polling;          /* a worker polls the polled tasks and the timers, and does not sleep */
    atomic_bool stop_poll; /* it must look at the queue, or stop */
    int64_t poll_ns;       /* polling lasts so long after the last task that is not upkeep; 0: no polling */
    int64_t poll_until_ns;
    bool stopping;
    mr_timers timers;
    _Atomic int64_t next_due_ns;
    mr_worker *workers;
    int worker_count, started;
    mr_clock *clock;    /* simulated if deterministic */
    uint64_t random;    /* state of the generator; 0: not deterministic */
    mr_task **runnable; /* deterministic: in no order */
    size_t runnable_room;
    mr_device *devices[MR_EXECUTOR_DEVICES];
    int device_count;
    int epoll;               /* holds the watched descriptors and the next two */
    int eventfd, timerfd;    /* eventfd: ends an epoll_wait */
    bool eventfd_set;        /* the eventfd is readable */
    int64_t timerfd_ns;      /* when the timerfd expires, or expired; INT64_MAX: never */
    int64_t epoll_tried_ns;  /* when epoll was read last */
    mr_task *watched[MR_EXECUTOR_WATCHED];
    int watched_count;
    pthread_mutex_t polls; /* guards the next two; its holder does not take `lock` */
    mr_task *polled[MR_EXECUTOR_POLLED];
    int polled_count;
};

static inline bool mr_task_has_thread(const mr_task *task) {
    return task->thread && !atomic_load_explicit(&task->thread->missing, memory_order_relaxed);
}

/* executor.c */
void mr_task_run(mr_task *task);
/* Claims all tasks that are due by now_ns and returns them as a list. With the lock. */
mr_task *mr_executor_take_due(mr_executor *executor, int64_t now_ns);
void mr_executor_note_next_due(mr_executor *executor);
/* Queues an idle task, or lets a running task run once more. Wakes no worker. With the lock. */
void mr_executor_queue(mr_executor *executor, mr_task *task);
/* Ensures that a worker waits in epoll with the current descriptors. Unlocks. */
void mr_executor_unlock_and_wake_epoll(mr_executor *executor);
/* Waits for a condition that mr_condition_init made, until that time but at most a tenth of a second. The caller checks
 * its condition again. */
void mr_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns);

/* threads.c: wakes the thread of a task. */
void mr_task_wake_thread(mr_task *task);

/* poller.c, with the lock unless stated. */

/* Opens the descriptors of the poller, before the workers start. MR_ERROR_UNAVAILABLE. */
int mr_executor_open_poller(mr_executor *executor);
void mr_executor_close_poller(mr_executor *executor);
/* Waits until a timer is due, a watched descriptor is readable (its task is then queued) or mr_executor_set_eventfd is
 * called. */
void mr_executor_epoll_wait(mr_executor *executor);
/* If no worker waits in epoll, and none has tried for pause_ns, reads it without waiting. */
void mr_executor_epoll_try(mr_executor *executor, int64_t pause_ns);
/* Sets the timerfd to the earliest timer. */
void mr_executor_set_timerfd(mr_executor *executor);
/* Ends an epoll_wait. Also without the lock. */
void mr_executor_set_eventfd(mr_executor *executor);
/* Polls until there is work or a timer is due, poll_until_ns has passed, or stop_poll is set. Unlocks meanwhile. False:
 * the worker may sleep. */
bool mr_executor_poll(mr_executor *executor);

/* drive.c: adds a task to those that may run next. */
void mr_executor_queue_runnable(mr_executor *executor, mr_task *task);

#endif
