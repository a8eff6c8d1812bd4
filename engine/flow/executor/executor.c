#include "engine/flow/executor/executor.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/flow/executor/executor_parts.h"

enum { LONGEST_CHAIN = 64 };
/* Workers that look out at once: as many as it takes that nobody need be woken when one of them has found work. */
enum { LOOKERS = 2 };
/* Between two glances of workers that have enough to do. */
static const int64_t GLANCE_NS = 1000000;

static _Thread_local mr_worker *this_worker;

/* No wait lasts longer than a tenth of a second: glibc before 2.41 can lose a pthread_cond_signal (its bug 25847),
 * and whoever waits looks again anyway. */
void mr_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t time_ns) {
    int64_t longest = mr_clock_now_ns(mr_clock_real()) + 100000000;
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
    made->lookout = made->call = made->alarm = -1;
    made->alarm_ns = INT64_MAX;
    int status = seed ? mr_clock_create_simulated(&made->clock, 0) : mr_executor_open_lookout(made);
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
    while (atomic_load_explicit(&gone->calls, memory_order_acquire))
        sched_yield(); /* Some other thread is about to return from waking a task. */
    mr_clock_destroy(&gone->clock);
    mr_timers_fini(&gone->timers);
    mr_executor_close_lookout(gone);
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

int mr_executor_worker_here(void) {
    return this_worker ? (int)(this_worker - this_worker->executor->workers) : 0;
}

void mr_executor_keep_polling(void) {
    if (this_worker)
        this_worker->worked = true;
}

/* ---- queues ---------------------------------------------------------------------------------------------------- */

/* How an idle worker is called. */
typedef enum call { CALL_NOBODY, CALL_IDLE, CALL_LOOKER, CALL_POLLER } call;

/* A worker that is to look for work, of those that do not look out: any that is not on its way already. Called with the
 * lock. */
static call call_idle(mr_executor *executor) {
    if (executor->idle <= executor->waking)
        return CALL_NOBODY;
    executor->waking++;
    return CALL_IDLE;
}

/* One that is to look at what is watched and at the timers anew. Called with the lock. */
static call call_looker(mr_executor *executor) {
    return executor->looking ? CALL_LOOKER : call_idle(executor);
}

/* One for a task that was just queued, unless as many are on their way as there are tasks. Called with the lock. */
static call call_worker(mr_executor *executor) {
    const bool poked = executor->polling && executor->poked;
    const int coming = executor->waking + (executor->looking && executor->called) + poked;
    if ((size_t)coming >= executor->queued)
        return CALL_NOBODY;
    if (executor->polling && !poked)
        return CALL_POLLER;
    const call called = call_idle(executor);
    return called == CALL_NOBODY ? call_looker(executor) : called;
}

/* Who is woken needs the lock first of all, so that is given back before. Until the call is out the executor stays. */
static void unlock_and_call(mr_executor *executor, call called) {
    if (called == CALL_LOOKER && executor->called)
        called = CALL_NOBODY;
    executor->called |= called == CALL_LOOKER;
    if (called == CALL_POLLER) {
        executor->poked = true;
        called = CALL_NOBODY;
    }
    if (called != CALL_NOBODY)
        atomic_fetch_add_explicit(&executor->calls, 1, memory_order_relaxed);
    pthread_mutex_unlock(&executor->lock);
    if (called == CALL_NOBODY)
        return;
    if (called == CALL_LOOKER)
        mr_executor_ring(executor);
    else
        pthread_cond_signal(&executor->work);
    atomic_fetch_sub_explicit(&executor->calls, 1, memory_order_release);
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
    unlock_and_call(executor, call_worker(executor));
}

/* Hands a task that is queued to whoever will run it; `last` puts it behind all others. */
static void dispatch(mr_task *task, bool last) {
    mr_executor *executor = task->executor;
    mr_worker *here = this_worker;
    if (task->thread) {
        mr_task_wake_thread(task);
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

/* Wakes the task: true where it was idle, and is now to be queued by whoever called. */
static bool claim(mr_task *task) {
    int state = atomic_load_explicit(&task->state, memory_order_relaxed);
    for (;;) {
        if (state == MR_TASK_QUEUED || state == MR_TASK_RUNNING_AGAIN) {
            /* Others may have published what they changed through a plain store: this exchange orders it. */
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

void mr_task_wake_behind(mr_task *task, bool quietly) {
    mr_executor *executor = task->executor;
    if (task->thread || executor->random) {
        mr_task_wake(task);
        return;
    }
    const bool here = this_worker && this_worker->executor == executor;
    pthread_mutex_lock(&executor->lock);
    mr_executor_queue(executor, task);
    unlock_and_call(executor, quietly && here ? CALL_NOBODY : call_worker(executor));
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
    atomic_store_explicit(&task->state, MR_TASK_QUEUED, memory_order_release);
    dispatch(task, true);
}

/* ---- timers ---------------------------------------------------------------------------------------------------- */

void mr_executor_note_next_due(mr_executor *executor) {
    atomic_store_explicit(&executor->next_due_ns, mr_timers_next(&executor->timers), memory_order_relaxed);
}

void mr_executor_unlock_and_call_looker(mr_executor *executor) {
    unlock_and_call(executor, call_looker(executor));
}

void mr_task_wake_at(mr_task *task, int64_t time_ns) {
    mr_executor *executor = task->executor;
    call called = CALL_NOBODY;
    pthread_mutex_lock(&executor->lock);
    if (task->thread) {
        task->due_ns = time_ns;
        pthread_cond_signal(&task->thread->woken);
    } else {
        int64_t before = mr_timers_next(&executor->timers);
        bool set = mr_timers_set(&executor->timers, task, time_ns);
        mr_executor_note_next_due(executor);
        if (time_ns < before && executor->looking)
            mr_executor_set_alarm(executor);
        else if (time_ns < before && !executor->polling)
            called = call_idle(executor);
        if (!set)
            time_ns = INT64_MIN; /* Without memory for a timer, the task polls. */
    }
    unlock_and_call(executor, called);
    if (time_ns == INT64_MIN)
        mr_task_wake(task);
}

/* Takes all tasks that are due; returns them as a list. Called with the lock. */
mr_task *mr_executor_take_due(mr_executor *executor, int64_t now_ns) {
    mr_task *list = NULL, **end = &list;
    for (mr_task *task; (task = mr_timers_take(&executor->timers, now_ns));) {
        if (!claim(task))
            continue;
        task->next = NULL;
        *end = task;
        end = &task->next;
    }
    mr_executor_note_next_due(executor);
    return list;
}

/* Queues what is due. Called with the lock. */
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

static bool has_lookout(const mr_executor *executor) {
    return executor->timers.count || executor->watched_count;
}

static void wait_for_work(mr_executor *executor) {
    executor->idle++;
    mr_condition_wait(&executor->work, &executor->lock, INT64_MAX);
    executor->idle--;
    if (executor->waking > 0)
        executor->waking--;
}

/* Sleeps until there may be work, or polls for it, while others look out: who polls may find work that takes long.
 * Called with the lock. */
static void rest(mr_executor *executor) {
    if (executor->poll_ns && !executor->polling && mr_executor_poll(executor))
        return;
    if (has_lookout(executor) && executor->looking < LOOKERS)
        mr_executor_look_out(executor);
    else
        wait_for_work(executor);
}

/* The next task from the queue; sleeps until there is one. NULL: the executor is stopping. */
static mr_task *next_queued(mr_worker *self) {
    mr_executor *executor = self->executor;
    mr_task *task = NULL;
    call called = CALL_NOBODY;
    pthread_mutex_lock(&executor->lock);
    if (executor->poll_ns && self->worked)
        executor->poll_until_ns = mr_executor_now_ns(executor) + executor->poll_ns;
    self->worked = false;
    while (!executor->stopping) {
        if (executor->timers.count)
            fire_timers(executor, mr_executor_now_ns(executor));
        if (executor->watched_count)
            mr_executor_glance(executor, GLANCE_NS);
        if ((task = take_queued(executor)))
            break;
        rest(executor);
    }
    /* Whoever leaves with work while more is queued, or nobody is left to look out, sees to it that somebody does.
     * Where workers poll, an alarm may be too early until they do so again: to set it takes longer than most work. */
    if (executor->looking && !executor->poll_ns)
        mr_executor_set_alarm(executor);
    if (task && executor->queued)
        called = call_worker(executor);
    else if (task && !executor->looking && !executor->polling && has_lookout(executor))
        called = call_idle(executor);
    else if (!task && executor->looking)
        called = CALL_LOOKER;
    unlock_and_call(executor, called);
    return task;
}

/* A chain of tasks that wake each other must not keep timers waiting. */
static void check_timers(mr_executor *executor) {
    int64_t due = atomic_load_explicit(&executor->next_due_ns, memory_order_relaxed);
    if (due == INT64_MAX || mr_executor_now_ns(executor) < due)
        return;
    pthread_mutex_lock(&executor->lock);
    fire_timers(executor, mr_executor_now_ns(executor));
    unlock_and_call(executor, executor->queued ? call_worker(executor) : CALL_NOBODY);
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
            return mr_fail(MR_ERROR_MEMORY, "cannot start worker thread %d: %s", executor->started, strerror(error));
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
    executor->poked = true;
    pthread_cond_broadcast(&executor->work);
    unlock_and_call(executor, executor->looking ? CALL_LOOKER : CALL_NOBODY);
    while (executor->started > 0)
        pthread_join(executor->workers[--executor->started].thread, NULL);
}
