/* What an executor is made of: shared by its workers (executor.c), by tasks with threads of their own
 * (executor_threads.c), by the deterministic mode (executor_drive.c), by descriptors that are waited for
 * (executor_watch.c) and by workers that poll (executor_poll.c). */
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
    mr_task *next; /* woken by the task that runs now: runs next, here */
    int chain;     /* how many tasks ran like that in a row */
    bool worked;   /* since it last looked for a task, and not for upkeep alone */
} mr_worker;

struct mr_task_thread {
    pthread_t thread;
    pthread_cond_t woken;
    bool ending;
    bool joined;          /* it is no more */
    bool over;            /* it runs nothing any more; under the executor's lock, as is what follows */
    int64_t cpu_ns;       /* that it had used by then */
};

struct mr_executor {
    pthread_mutex_t lock;
    pthread_cond_t work; /* idle workers wait here, but for those that look out for timers and descriptors */
    mr_task *head, *tail;
    size_t queued;
    int idle;          /* workers waiting for work, those that look out not counted */
    int waking;        /* of them, already signalled, or about to be */
    atomic_int calls;  /* threads that have yet to send the signal, without the lock */
    int looking;       /* workers that wait in `lookout` */
    bool polling;      /* one looks at what is polled again and again, and at the timers, and does not sleep */
    atomic_bool poked; /* it is to look at the queue, or to stop */
    int64_t poll_ns;   /* for so long after the last task that was no upkeep; 0: nobody polls */
    int64_t poll_until_ns;
    bool stopping;
    mr_timers timers;
    _Atomic int64_t next_due_ns;
    mr_worker *workers;
    int worker_count, started;
    mr_clock *clock; /* simulated where deterministic */
    uint64_t random; /* state of the generator; 0: not deterministic */
    mr_task **runnable; /* deterministic: in no order */
    size_t runnable_room;
    mr_device *devices[MR_EXECUTOR_DEVICES];
    int device_count;
    int lookout;       /* epoll; in it beside what is watched: */
    int call, alarm;   /* an eventfd that ends the wait of one who looks out, and a timerfd */
    bool called;       /* the eventfd is readable */
    int64_t alarm_ns;  /* when the timerfd goes off, or did; INT64_MAX: never */
    int64_t glanced_ns;
    mr_task *watched[MR_EXECUTOR_WATCHED];
    int watched_count;
    pthread_mutex_t polls; /* guards what follows; `lock` is not taken by who has it */
    mr_task *polled[MR_EXECUTOR_POLLED];
    int polled_count;
};

/* executor.c */
void mr_task_run(mr_task *task);
/* Takes all tasks that are due, now queued, as a list. Called with the lock. */
mr_task *mr_executor_take_due(mr_executor *executor, int64_t now_ns);
void mr_executor_note_next_due(mr_executor *executor);
/* Queues a task that is idle, or lets it run once more where it runs; wakes nobody. Called with the lock. */
void mr_executor_queue(mr_executor *executor, mr_task *task);
/* Sees to it that somebody looks out for what is watched. Gives back the lock. */
void mr_executor_unlock_and_call_looker(mr_executor *executor);
/* Waiting on a condition that mr_condition_init made: until that time, but a tenth of a second at most; the caller
 * looks again. */
void mr_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns);
/* executor_threads.c: wakes the thread of a task. */
void mr_task_wake_thread(mr_task *task);
/* executor_watch.c, all with the lock. Opens what workers look out in; before they start. */
int mr_executor_open_lookout(mr_executor *executor);
void mr_executor_close_lookout(mr_executor *executor);
/* Waits until a timer is due, a descriptor that is watched is readable, whose task is queued, or mr_executor_ring. */
void mr_executor_look_out(mr_executor *executor);
/* Those who look out wait for the timer that is the next one now. */
void mr_executor_set_alarm(mr_executor *executor);
/* Where nobody looks out, the same without waiting, if it is so long ago that somebody did. */
void mr_executor_glance(mr_executor *executor, int64_t pause_ns);
/* executor_poll.c, with the lock. Looks at what is polled until that or a timer brings something, the last task is long
 * enough ago, or the executor is poked. False: it may sleep. */
bool mr_executor_poll(mr_executor *executor);
/* Without the lock, too: ends the wait of one who looks out. */
void mr_executor_ring(mr_executor *executor);
/* executor_drive.c: adds a task to those that may run next. */
void mr_executor_queue_runnable(mr_executor *executor, mr_task *task);

#endif
