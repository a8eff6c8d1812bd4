#include "engine/flow/executor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/flow/timers.h"

enum { IDLE, QUEUED, RUNNING, RUNNING_AGAIN };
enum { MAX_DEVICES = 64, LONGEST_CHAIN = 64 };
/* A timer may fire so much late: paced sources that are due at about the same time share one wake-up of a worker. */
static const int64_t TIMER_SLACK_NS = 1000000;

typedef struct worker {
    mr_executor *executor;
    pthread_t thread;
    mr_task *next; /* woken by the task that runs now: runs next, here */
    int chain;     /* how many tasks ran like that in a row */
} worker;

struct mr_task_thread {
    pthread_t thread;
    pthread_cond_t woken;
    bool ending;
};

struct mr_executor {
    pthread_mutex_t lock;
    pthread_cond_t work;  /* idle workers wait here */
    pthread_cond_t timer; /* the idle worker that keeps the timers waits here */
    mr_task *head, *tail;
    size_t queued;
    int idle;          /* workers waiting for work, the timers' keeper not counted */
    int waking;        /* of them, already signalled */
    bool keeper;       /* one worker waits for the next timer */
    bool stopping;
    mr_timers timers;
    _Atomic int64_t next_due_ns;
    worker *workers;
    int worker_count, started;
    mr_clock *clock; /* simulated where deterministic */
    uint64_t random; /* state of the generator; 0: not deterministic */
    mr_task **runnable; /* deterministic: in no order */
    size_t runnable_room;
    mr_device *devices[MAX_DEVICES];
    int device_count;
};

static _Thread_local worker *this_worker;

static void monotonic_condition(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t time_ns) {
    if (time_ns == INT64_MAX) {
        pthread_cond_wait(condition, lock);
        return;
    }
    struct timespec time = {.tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000};
    pthread_cond_timedwait(condition, lock, &time);
}

int mr_executor_create(mr_executor **executor, int workers, uint64_t seed) {
    mr_executor *made = mr_calloc(1, sizeof *made);
    if (!made || !(made->workers = mr_calloc((size_t)workers, sizeof *made->workers))) {
        mr_free(made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for %d workers", workers);
    }
    pthread_mutex_init(&made->lock, NULL);
    monotonic_condition(&made->work);
    monotonic_condition(&made->timer);
    atomic_init(&made->next_due_ns, INT64_MAX);
    made->worker_count = workers;
    made->random = seed;
    if (seed && mr_clock_create_simulated(&made->clock, 0)) {
        mr_executor_destroy(&made);
        return MR_ERROR_MEMORY;
    }
    *executor = made;
    return MR_OK;
}

void mr_executor_destroy(mr_executor **executor) {
    mr_executor *gone = *executor;
    if (!gone)
        return;
    mr_executor_stop(gone);
    mr_clock_destroy(&gone->clock);
    mr_timers_fini(&gone->timers);
    pthread_cond_destroy(&gone->work);
    pthread_cond_destroy(&gone->timer);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone->runnable);
    mr_free(gone->workers);
    mr_free(gone);
    *executor = NULL;
}

int64_t mr_executor_now_ns(const mr_executor *executor) {
    return executor->clock ? mr_clock_now_ns(executor->clock) : mr_clock_now_ns(mr_clock_real());
}

bool mr_executor_is_deterministic(const mr_executor *executor) {
    return executor->random != 0;
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

/* Wakes a sleeping worker for a task that was just queued, unless as many are on their way as there are tasks. */
static void call_worker(mr_executor *executor) {
    if (executor->idle > executor->waking && (size_t)executor->waking < executor->queued) {
        executor->waking++;
        pthread_cond_signal(&executor->work);
    } else if (executor->keeper && executor->waking == executor->idle) {
        pthread_cond_signal(&executor->timer);
    }
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
    call_worker(executor);
    pthread_mutex_unlock(&executor->lock);
}

static void queue_runnable(mr_executor *executor, mr_task *task) {
    if (executor->queued == executor->runnable_room) {
        executor->runnable_room = executor->runnable_room * 2 + 64;
        executor->runnable = mr_realloc(executor->runnable, executor->runnable_room * sizeof(mr_task *));
        if (!executor->runnable)
            abort(); /* Only tests run deterministically; a lost task would mislead them. */
    }
    executor->runnable[executor->queued++] = task;
}

static void wake_thread(mr_task *task) {
    pthread_mutex_lock(&task->executor->lock);
    pthread_cond_signal(&task->thread->woken);
    pthread_mutex_unlock(&task->executor->lock);
}

/* Hands a task whose state is QUEUED to whoever will run it; `last` puts it behind all others. */
static void dispatch(mr_task *task, bool last) {
    mr_executor *executor = task->executor;
    worker *here = this_worker;
    if (task->thread) {
        wake_thread(task);
    } else if (executor->random) {
        queue_runnable(executor, task);
    } else if (!last && here && here->executor == executor && here->chain < LONGEST_CHAIN) {
        mr_task *displaced = here->next;
        here->next = task;
        if (displaced)
            queue_task(executor, displaced);
    } else {
        queue_task(executor, task);
    }
}

bool mr_task_wake(mr_task *task) {
    int state = atomic_load_explicit(&task->state, memory_order_relaxed);
    for (;;) {
        if (state == QUEUED || state == RUNNING_AGAIN) {
            /* Others may have published what they changed through a plain store: this exchange orders it. */
            if (atomic_compare_exchange_weak_explicit(&task->state, &state, state, memory_order_acq_rel,
                                                      memory_order_relaxed))
                return false;
        } else if (atomic_compare_exchange_weak_explicit(&task->state, &state,
                                                         state == IDLE ? QUEUED : RUNNING_AGAIN,
                                                         memory_order_acq_rel, memory_order_relaxed)) {
            if (state != IDLE)
                return false;
            dispatch(task, false);
            return true;
        }
    }
}

void mr_task_waker(void *task) {
    mr_task_wake(task);
}

bool mr_task_wake_idle(mr_task *task) {
    int state = IDLE;
    if (!atomic_compare_exchange_strong_explicit(&task->state, &state, QUEUED, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    dispatch(task, false);
    return true;
}

static void run_task(mr_task *task) {
    atomic_exchange_explicit(&task->state, RUNNING, memory_order_acq_rel);
    task->function(task->context);
    int state = RUNNING;
    if (atomic_compare_exchange_strong_explicit(&task->state, &state, IDLE, memory_order_acq_rel,
                                                memory_order_acquire))
        return;
    atomic_store_explicit(&task->state, QUEUED, memory_order_release);
    dispatch(task, true);
}

/* ---- timers ------------------------------------------------------------------------------------------------------ */

static void note_next_due(mr_executor *executor) {
    atomic_store_explicit(&executor->next_due_ns, mr_timers_next(&executor->timers), memory_order_relaxed);
}

void mr_task_wake_at(mr_task *task, int64_t time_ns) {
    mr_executor *executor = task->executor;
    pthread_mutex_lock(&executor->lock);
    if (task->thread) {
        task->due_ns = time_ns;
    } else {
        int64_t before = mr_timers_next(&executor->timers);
        bool set = mr_timers_set(&executor->timers, task, time_ns);
        note_next_due(executor);
        if (executor->keeper && time_ns < before)
            pthread_cond_signal(&executor->timer);
        if (!set)
            time_ns = INT64_MIN; /* Without memory for a timer, the task polls. */
    }
    pthread_mutex_unlock(&executor->lock);
    if (time_ns == INT64_MIN)
        mr_task_wake(task);
}

/* Takes all tasks that are due; returns them as a list. Called with the lock. */
static mr_task *take_due(mr_executor *executor, int64_t now_ns) {
    mr_task *list = NULL, **end = &list;
    for (mr_task *task; (task = mr_timers_take(&executor->timers, now_ns));) {
        int state = IDLE;
        if (atomic_compare_exchange_strong(&task->state, &state, QUEUED)) {
            task->next = NULL;
            *end = task;
            end = &task->next;
        } else {
            state = RUNNING;
            atomic_compare_exchange_strong(&task->state, &state, RUNNING_AGAIN);
        }
    }
    note_next_due(executor);
    return list;
}

/* Queues what is due. Called with the lock. */
static void fire_timers(mr_executor *executor, int64_t now_ns) {
    mr_task *task = take_due(executor, now_ns);
    while (task) {
        mr_task *next = task->next;
        append(executor, task);
        task = next;
    }
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

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

/* Sleeps until there may be work. Called with the lock. */
static void rest(mr_executor *executor) {
    int64_t due = mr_timers_next(&executor->timers);
    if (due != INT64_MAX && !executor->keeper) {
        executor->keeper = true;
        wait_until(&executor->timer, &executor->lock, due + TIMER_SLACK_NS);
        executor->keeper = false;
        return;
    }
    executor->idle++;
    pthread_cond_wait(&executor->work, &executor->lock);
    executor->idle--;
    if (executor->waking > 0)
        executor->waking--;
}

/* The next task from the queue; sleeps until there is one. NULL: the executor is stopping. */
static mr_task *next_queued(mr_executor *executor) {
    mr_task *task = NULL;
    pthread_mutex_lock(&executor->lock);
    while (!executor->stopping) {
        if (executor->timers.count)
            fire_timers(executor, mr_executor_now_ns(executor));
        if ((task = take_queued(executor)))
            break;
        rest(executor);
    }
    /* Whoever leaves with work while more is queued, or timers wait, sees to it that somebody else looks. */
    if (task && (executor->queued || (executor->timers.count && !executor->keeper)))
        if (executor->idle > executor->waking) {
            executor->waking++;
            pthread_cond_signal(&executor->work);
        }
    pthread_mutex_unlock(&executor->lock);
    return task;
}

/* A chain of tasks that wake each other must not keep timers waiting. */
static void check_timers(mr_executor *executor) {
    int64_t due = atomic_load_explicit(&executor->next_due_ns, memory_order_relaxed);
    if (due == INT64_MAX || mr_executor_now_ns(executor) < due)
        return;
    pthread_mutex_lock(&executor->lock);
    fire_timers(executor, mr_executor_now_ns(executor));
    if (executor->queued)
        call_worker(executor);
    pthread_mutex_unlock(&executor->lock);
}

static void *work(void *context) {
    worker *self = context;
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
            task = next_queued(executor);
        }
        if (!task)
            return NULL;
        run_task(task);
    }
}

int mr_executor_start(mr_executor *executor) {
    if (executor->random)
        return MR_OK;
    for (; executor->started < executor->worker_count; executor->started++) {
        worker *self = &executor->workers[executor->started];
        self->executor = executor;
        if (pthread_create(&self->thread, NULL, work, self))
            return mr_fail(MR_ERROR_MEMORY, "cannot start worker thread %d: %s", executor->started, strerror(errno));
        char name[16];
        snprintf(name, sizeof name, "mr-worker-%d", executor->started % 1000);
        pthread_setname_np(self->thread, name);
    }
    return MR_OK;
}

void mr_executor_stop(mr_executor *executor) {
    pthread_mutex_lock(&executor->lock);
    executor->stopping = true;
    pthread_cond_broadcast(&executor->work);
    pthread_cond_broadcast(&executor->timer);
    pthread_mutex_unlock(&executor->lock);
    while (executor->started > 0)
        pthread_join(executor->workers[--executor->started].thread, NULL);
}

/* ---- tasks with a thread of their own ---------------------------------------------------------------------------- */

static void *run_thread(void *context) {
    mr_task *task = context;
    mr_executor *executor = task->executor;
    for (;;) {
        pthread_mutex_lock(&executor->lock);
        while (!task->thread->ending && atomic_load(&task->state) != QUEUED) {
            wait_until(&task->thread->woken, &executor->lock, task->due_ns);
            if (task->due_ns != INT64_MAX && mr_executor_now_ns(executor) >= task->due_ns) {
                int state = IDLE;
                task->due_ns = INT64_MAX;
                atomic_compare_exchange_strong(&task->state, &state, QUEUED);
            }
        }
        bool ending = task->thread->ending;
        pthread_mutex_unlock(&executor->lock);
        if (ending)
            return NULL;
        run_task(task);
    }
}

void mr_task_init(mr_task *task, mr_executor *executor, mr_task_function *function, void *context) {
    *task = (mr_task){.executor = executor, .function = function, .context = context, .due_ns = INT64_MAX};
    atomic_init(&task->state, IDLE);
}

int mr_task_detach(mr_task *task, const char *name) {
    struct mr_task_thread *thread = mr_calloc(1, sizeof *thread);
    if (!thread)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a thread");
    monotonic_condition(&thread->woken);
    task->thread = thread;
    if (pthread_create(&thread->thread, NULL, run_thread, task)) {
        task->thread = NULL;
        pthread_cond_destroy(&thread->woken);
        mr_free(thread);
        return mr_fail(MR_ERROR_MEMORY, "cannot start a thread for %s", name);
    }
    char short_name[16];
    snprintf(short_name, sizeof short_name, "%s", name);
    pthread_setname_np(thread->thread, short_name);
    return MR_OK;
}

void mr_task_fini(mr_task *task) {
    mr_executor *executor = task->executor;
    if (!executor)
        return;
    pthread_mutex_lock(&executor->lock);
    mr_timers_remove(&executor->timers, task);
    note_next_due(executor);
    if (task->thread) {
        task->thread->ending = true;
        pthread_cond_signal(&task->thread->woken);
    }
    pthread_mutex_unlock(&executor->lock);
    if (!task->thread)
        return;
    pthread_join(task->thread->thread, NULL);
    pthread_cond_destroy(&task->thread->woken);
    mr_free(task->thread);
    task->thread = NULL;
}

/* ---- deterministic ----------------------------------------------------------------------------------------------- */

int mr_executor_add_device(mr_executor *executor, mr_device *device) {
    if (executor->device_count == MAX_DEVICES)
        return mr_fail(MR_ERROR_CONFIG, "more than %d simulated devices", MAX_DEVICES);
    executor->devices[executor->device_count++] = device;
    return MR_OK;
}

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled" (2016). */
static uint64_t draw(mr_executor *executor) {
    uint64_t x = executor->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    executor->random = x;
    return x * UINT64_C(2685821657736338717);
}

static void run_one(mr_executor *executor) {
    size_t pick = (size_t)(draw(executor) % executor->queued);
    mr_task *task = executor->runnable[pick];
    executor->runnable[pick] = executor->runnable[--executor->queued];
    run_task(task);
}

/* Does what is due now; returns when the next timer or device is. */
static int64_t settle(mr_executor *executor) {
    int64_t now = mr_executor_now_ns(executor);
    int64_t next = INT64_MAX;
    for (int i = 0; i < executor->device_count; i++) {
        int64_t due = mr_sim_advance(executor->devices[i], now);
        next = due < next ? due : next;
    }
    mr_task *task = take_due(executor, now);
    while (task) {
        mr_task *following = task->next;
        queue_runnable(executor, task);
        task = following;
    }
    int64_t timer = mr_timers_next(&executor->timers);
    return timer < next ? timer : next;
}

bool mr_executor_drive(mr_executor *executor, int64_t until_ns) {
    for (;;) {
        int64_t next = settle(executor);
        if (executor->queued) {
            run_one(executor);
            continue;
        }
        if (next == INT64_MAX)
            return false;
        if (next > until_ns)
            return true;
        if (next > mr_executor_now_ns(executor))
            mr_clock_set_ns(executor->clock, next);
    }
}
