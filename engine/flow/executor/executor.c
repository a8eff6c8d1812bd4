#include "engine/flow/executor/executor.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/flow/executor/executor_parts.h"

enum { LONGEST_CHAIN = 64 };
/* Workers that wait in epoll at once. If one finds work, it need not wake another to replace it. */
enum { MOST_IN_EPOLL = 2 };
/* While all workers are busy, one reads epoll this often. */
static const int64_t EPOLL_TRY_NS = 1000000;

static _Thread_local mr_worker *this_worker;

/* No wait lasts longer than a tenth of a second: glibc before 2.41 can lose a pthread_cond_signal (bug 25847). Callers
 * must check the condition again anyway. */
void mr_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t time_ns) {
    int64_t longest = mr_now_ns() + 100000000;
    time_ns = time_ns < longest ? time_ns : longest;
    struct timespec time = {.tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000};
    pthread_cond_timedwait(condition, lock, &time);
}

int mr_executor_create(mr_executor **executor, int workers, uint64_t seed) {
    mr_executor *made = mr_calloc(1, sizeof *made);
    if (!made || !(made->workers = mr_calloc((size_t)workers, sizeof *made->workers))) {
        mr_free(made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for %d workers", workers);
    }
    mr_lock_init(&made->lock);
    mr_lock_init(&made->polls);
    mr_condition_init(&made->work);
    atomic_init(&made->next_due_ns, INT64_MAX);
    made->worker_count = workers;
    made->random = seed;
    made->epoll = made->eventfd = made->timerfd = -1;
    made->timerfd_ns = INT64_MAX;
    int status = seed ? mr_clock_create_simulated(&made->clock, 0) : mr_executor_open_poller(made);
    if (status) {
        mr_executor_destroy(&made);
        return status;
    }
    *executor = made;
    return MR_OK;
}

void mr_executor_busy_poll(mr_executor *executor, int64_t poll_ns) {
    executor->poll_ns = poll_ns;
}

void mr_executor_destroy(mr_executor **executor) {
    mr_executor *gone = *executor;
    if (!gone)
        return;
    mr_executor_stop(gone);
    while (atomic_load_explicit(&gone->signalling, memory_order_acquire))
        sched_yield(); /* Another thread may still be inside the call that woke a task. */
    mr_clock_destroy(&gone->clock);
    mr_timers_fini(&gone->timers);
    mr_executor_close_poller(gone);
    pthread_cond_destroy(&gone->work);
    pthread_mutex_destroy(&gone->polls);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone->runnable);
    mr_free(gone->workers);
    mr_free(gone);
    *executor = NULL;
}

const mr_clock *mr_executor_clock(const mr_executor *executor) {
    return executor->clock ? executor->clock : mr_clock_real();
}

int64_t mr_executor_now_ns(const mr_executor *executor) {
    return mr_clock_now_ns(mr_executor_clock(executor));
}

/* Idle workers that were woken but have not run yet. With the lock. */
static int count_woken(const mr_executor *executor) {
    return executor->waking + (executor->in_epoll && executor->eventfd_set) +
           (executor->polling && executor->stop_poll);
}

bool mr_executor_is_busy(mr_executor *executor) {
    MR_LOCKED(&executor->lock);
    return executor->idle + executor->in_epoll + executor->polling <= count_woken(executor);
}

int mr_executor_worker_here(void) {
    return this_worker ? (int)(this_worker - this_worker->executor->workers) : 0;
}

void mr_executor_keep_polling(void) {
    if (this_worker)
        this_worker->worked = true;
}

/* ---- queues ---------------------------------------------------------------------------------------------------- */

/* How to wake an idle worker. */
typedef enum wakeup { WAKE_NONE, WAKE_IDLE, WAKE_EPOLL, WAKE_POLLER } wakeup;

/* Chooses an idle worker outside epoll, unless all are already being woken. With the lock. */
static wakeup choose_idle(mr_executor *executor) {
    if (executor->idle <= executor->waking)
        return WAKE_NONE;
    executor->waking++;
    return WAKE_IDLE;
}

/* Chooses a worker that must read the watched descriptors and the timers again. With the lock. */
static wakeup choose_epoll(mr_executor *executor) {
    return executor->in_epoll ? WAKE_EPOLL : choose_idle(executor);
}

/* Chooses a worker for a queued task, unless enough workers are already being woken. With the lock. */
static wakeup choose_worker(mr_executor *executor) {
    if ((size_t)count_woken(executor) >= executor->queued)
        return WAKE_NONE;
    if (executor->polling && !executor->stop_poll)
        return WAKE_POLLER;
    const wakeup chosen = choose_idle(executor);
    return chosen == WAKE_NONE ? choose_epoll(executor) : chosen;
}

/* Unlocks before it signals, since the woken worker needs the lock first. `signalling` keeps the executor alive until
 * the signal is sent. */
static void unlock_and_wake(mr_executor *executor, wakeup how) {
    if (how == WAKE_EPOLL && executor->eventfd_set)
        how = WAKE_NONE;
    executor->eventfd_set |= how == WAKE_EPOLL;
    if (how == WAKE_POLLER) {
        executor->stop_poll = true;
        how = WAKE_NONE;
    }
    if (how != WAKE_NONE)
        atomic_fetch_add_explicit(&executor->signalling, 1, memory_order_relaxed);
    pthread_mutex_unlock(&executor->lock);
    if (how == WAKE_NONE)
        return;
    if (how == WAKE_EPOLL)
        mr_executor_set_eventfd(executor);
    else
        pthread_cond_signal(&executor->work);
    atomic_fetch_sub_explicit(&executor->signalling, 1, memory_order_release);
}

static void append(mr_executor *executor, mr_task *task) {
    task->next = NULL;
    if (executor->tail)
        executor->tail->next = task;
    else
        executor->head = task;
    executor->tail = task;
    executor->queued++;
}

static void queue_task(mr_executor *executor, mr_task *task) {
    pthread_mutex_lock(&executor->lock);
    append(executor, task);
    unlock_and_wake(executor, choose_worker(executor));
}

/* Hands the task to its thread. Whether that still has the task is decided with the lock: it may return to the workers
 * at this moment (mr_task_return), and must then be queued once. */
static void queue_for_thread(mr_executor *executor, mr_task *task) {
    pthread_mutex_lock(&executor->lock);
    const bool queued = !mr_task_give_to_thread(task);
    if (queued)
        append(executor, task);
    unlock_and_wake(executor, queued ? choose_worker(executor) : WAKE_NONE);
}

void mr_executor_queue_runnable(mr_executor *executor, mr_task *task) {
    if (!mr_grow((void **)&executor->runnable, executor->queued, &executor->runnable_room, sizeof(mr_task *)))
        abort(); /* Only tests run this mode; a lost task would mislead them. */
    executor->runnable[executor->queued++] = task;
}

/* Hands a queued task to the thread, queue or worker that must run it. `last`: after all other tasks. */
static void dispatch(mr_task *task, bool last) {
    mr_executor *executor = task->executor;
    mr_worker *here = this_worker;
    if (task->thread) {
        queue_for_thread(executor, task);
    } else if (executor->random) {
        mr_executor_queue_runnable(executor, task);
    } else if (!last && here && here->executor == executor && here->chain < LONGEST_CHAIN) {
        mr_task *displaced = here->next;
        here->next = task;
        if (displaced)
            queue_task(executor, displaced);
    } else {
        queue_task(executor, task);
    }
}

/* Marks the task as woken. True if it was idle: the caller must queue it. */
static bool claim(mr_task *task) {
    int state = atomic_load_explicit(&task->state, memory_order_relaxed);
    for (;;) {
        if (state == MR_TASK_QUEUED || state == MR_TASK_RUNNING_AGAIN) {
            /* The waker may have published a change with a plain store: this exchange must order it. */
            if (atomic_compare_exchange_weak_explicit(&task->state, &state, state, memory_order_acq_rel,
                                                      memory_order_relaxed))
                return false;
        } else if (atomic_compare_exchange_weak_explicit(
                       &task->state, &state, state == MR_TASK_IDLE ? MR_TASK_QUEUED : MR_TASK_RUNNING_AGAIN,
                       memory_order_acq_rel, memory_order_relaxed)) {
            return state == MR_TASK_IDLE;
        }
    }
}

bool mr_task_wake(mr_task *task) {
    bool claimed = claim(task);
    if (claimed)
        dispatch(task, false);
    return claimed;
}

void mr_executor_queue(mr_executor *executor, mr_task *task) {
    if (claim(task))
        append(executor, task);
}

void mr_task_wake_behind(mr_task *task, bool low_priority) {
    mr_executor *executor = task->executor;
    if (mr_task_has_thread(task) || executor->random) {
        mr_task_wake(task);
        return;
    }
    const bool here = this_worker && this_worker->executor == executor;
    pthread_mutex_lock(&executor->lock);
    mr_executor_queue(executor, task);
    unlock_and_wake(executor, low_priority && here ? WAKE_NONE : choose_worker(executor));
}

void mr_task_waker(void *task) {
    mr_task_wake(task);
}

bool mr_task_wake_idle(mr_task *task) {
    int state = MR_TASK_IDLE;
    if (!atomic_compare_exchange_strong_explicit(&task->state, &state, MR_TASK_QUEUED, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    dispatch(task, false);
    return true;
}

void mr_task_run(mr_task *task) {
    atomic_exchange_explicit(&task->state, MR_TASK_RUNNING, memory_order_acq_rel);
    task->function(task->context);
    int state = MR_TASK_RUNNING;
    if (atomic_compare_exchange_strong_explicit(&task->state, &state, MR_TASK_IDLE, memory_order_acq_rel,
                                                memory_order_acquire))
        return;
    /* Not a store: it must see what those that woke the task meanwhile have published. */
    atomic_exchange_explicit(&task->state, MR_TASK_QUEUED, memory_order_acq_rel);
    dispatch(task, true);
}

/* ---- timers ---------------------------------------------------------------------------------------------------- */

void mr_executor_note_next_due(mr_executor *executor) {
    atomic_store_explicit(&executor->next_due_ns, mr_timers_next(&executor->timers), memory_order_relaxed);
}

void mr_executor_unlock_and_wake_epoll(mr_executor *executor) {
    unlock_and_wake(executor, choose_epoll(executor));
}

void mr_task_wake_at(mr_task *task, int64_t time_ns) {
    mr_executor *executor = task->executor;
    wakeup how = WAKE_NONE;
    pthread_mutex_lock(&executor->lock);
    if (mr_task_has_thread(task)) {
        task->timer.due_ns = time_ns;
        pthread_cond_signal(&task->thread->woken);
    } else {
        int64_t before = mr_timers_next(&executor->timers);
        bool set = mr_timers_set(&executor->timers, &task->timer, time_ns);
        mr_executor_note_next_due(executor);
        if (time_ns < before && executor->in_epoll)
            mr_executor_set_timerfd(executor);
        else if (time_ns < before && !executor->polling)
            how = choose_idle(executor);
        if (!set)
            time_ns = INT64_MIN; /* No memory for a timer: the task must poll. */
    }
    unlock_and_wake(executor, how);
    if (time_ns == INT64_MIN)
        mr_task_wake(task);
}

mr_task *mr_executor_take_due(mr_executor *executor, int64_t now_ns) {
    mr_task *list = NULL, **end = &list;
    for (mr_timer *timer; (timer = mr_timers_take(&executor->timers, now_ns));) {
        mr_task *task = (mr_task *)(void *)((char *)timer - offsetof(mr_task, timer));
        if (!claim(task))
            continue;
        task->next = NULL;
        *end = task;
        end = &task->next;
    }
    mr_executor_note_next_due(executor);
    return list;
}

/* Queues all due tasks. With the lock. */
static void fire_timers(mr_executor *executor, int64_t now_ns) {
    mr_task *task = mr_executor_take_due(executor, now_ns);
    while (task) {
        mr_task *next = task->next;
        append(executor, task);
        task = next;
    }
}

/* ---- workers --------------------------------------------------------------------------------------------------- */

static mr_task *take_queued(mr_executor *executor) {
    mr_task *task = executor->head;
    if (task) {
        executor->head = task->next;
        if (!executor->head)
            executor->tail = NULL;
        executor->queued--;
    }
    return task;
}

static bool needs_epoll(const mr_executor *executor) {
    return executor->timers.count || executor->watched_count;
}

static void wait_for_work(mr_executor *executor) {
    executor->idle++;
    mr_condition_wait(&executor->work, &executor->lock, INT64_MAX);
    executor->idle--;
    if (executor->waking > 0)
        executor->waking--;
}

/* Sleeps, or polls for work. Other workers must still wait in epoll: the polling worker may pick up a long task. With
 * the lock. */
static void rest(mr_executor *executor) {
    if (executor->poll_ns && !executor->polling && mr_executor_poll(executor))
        return;
    if (needs_epoll(executor) && executor->in_epoll < MOST_IN_EPOLL)
        mr_executor_epoll_wait(executor);
    else
        wait_for_work(executor);
}

/* Returns the next queued task; sleeps until there is one. NULL: the executor is stopping. */
static mr_task *next_queued(mr_worker *self) {
    mr_executor *executor = self->executor;
    mr_task *task = NULL;
    wakeup how = WAKE_NONE;
    pthread_mutex_lock(&executor->lock);
    if (executor->poll_ns && self->worked)
        executor->poll_until_ns = mr_executor_now_ns(executor) + executor->poll_ns;
    self->worked = false;
    while (!executor->stopping) {
        if (executor->timers.count)
            fire_timers(executor, mr_executor_now_ns(executor));
        if (executor->watched_count)
            mr_executor_epoll_try(executor, EPOLL_TRY_NS);
        if ((task = take_queued(executor)))
            break;
        rest(executor);
    }
    /* A worker that leaves with a task must ensure that others take queued tasks and wait in epoll. If workers poll,
     * the timerfd may stay too early until they poll again: setting it takes longer than most tasks. */
    if (executor->in_epoll && !executor->poll_ns)
        mr_executor_set_timerfd(executor);
    if (task && executor->queued)
        how = choose_worker(executor);
    else if (task && !executor->in_epoll && !executor->polling && needs_epoll(executor))
        how = choose_idle(executor);
    else if (!task && executor->in_epoll)
        how = WAKE_EPOLL;
    unlock_and_wake(executor, how);
    return task;
}

/* Tasks that keep waking each other must not delay timers. */
static void check_timers(mr_executor *executor) {
    int64_t due = atomic_load_explicit(&executor->next_due_ns, memory_order_relaxed);
    if (due == INT64_MAX || mr_executor_now_ns(executor) < due)
        return;
    pthread_mutex_lock(&executor->lock);
    fire_timers(executor, mr_executor_now_ns(executor));
    unlock_and_wake(executor, executor->queued ? choose_worker(executor) : WAKE_NONE);
}

static void *work(void *context) {
    mr_worker *self = context;
    mr_executor *executor = self->executor;
    this_worker = self;
    for (;;) {
        mr_task *task = self->next;
        self->next = NULL;
        if (task) {
            self->chain++;
            check_timers(executor);
        } else {
            self->chain = 0;
            task = next_queued(self);
        }
        if (!task)
            return NULL;
        self->worked |= !task->upkeep;
        mr_task_run(task);
    }
}

const char *mr_worker_name(int index, char name[MR_THREAD_NAME]) {
    snprintf(name, MR_THREAD_NAME, "mr-worker-%d", index % 10000);
    return name;
}

int mr_executor_start(mr_executor *executor) {
    if (executor->random)
        return MR_OK;
    for (; executor->started < executor->worker_count; executor->started++) {
        mr_worker *self = &executor->workers[executor->started];
        self->executor = executor;
        int error = mr_thread_create(&self->thread, work, self);
        if (error)
            return mr_thread_fail(error, "worker thread %d", executor->started);
        char name[MR_THREAD_NAME];
        pthread_setname_np(self->thread, mr_worker_name(executor->started, name));
    }
    return MR_OK;
}

int64_t mr_executor_cpu_ns(const mr_executor *executor) {
    int64_t sum = 0;
    for (int i = 0; i < executor->started; i++)
        sum += mr_thread_cpu_of_ns(executor->workers[i].thread);
    return sum;
}

void mr_executor_stop(mr_executor *executor) {
    pthread_mutex_lock(&executor->lock);
    executor->stopping = true;
    executor->stop_poll = true;
    pthread_cond_broadcast(&executor->work);
    unlock_and_wake(executor, executor->in_epoll ? WAKE_EPOLL : WAKE_NONE);
    while (executor->started > 0)
        pthread_join(executor->workers[--executor->started].thread, NULL);
}
