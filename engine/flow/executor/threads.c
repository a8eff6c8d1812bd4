/* Tasks with a dedicated thread, for calls that block. */
#include <stdio.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/flow/executor/executor_parts.h"

bool mr_task_give_to_thread(mr_task *task) {
    if (!mr_task_has_thread(task))
        return false;
    task->thread->given = true;
    pthread_cond_signal(&task->thread->woken);
    return true;
}

/* Sleeps until woken or due, without a limit: only this thread waits on the condition, and glibc can lose a signal only
 * if several threads wait (mr_condition_wait). Thousands of idle threads that look ten times a second would use up all
 * processors. With the lock. */
static void sleep_thread(mr_task *task) {
    const int64_t due_ns = task->timer.due_ns;
    const struct timespec time = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    if (due_ns == INT64_MAX)
        pthread_cond_wait(&task->thread->woken, &task->executor->lock);
    else
        pthread_cond_timedwait(&task->thread->woken, &task->executor->lock, &time);
}

static void *run_thread(void *context) {
    mr_task *task = context;
    mr_executor *executor = task->executor;
    for (;;) {
        pthread_mutex_lock(&executor->lock);
        while (!task->thread->ending && !task->thread->given) {
            sleep_thread(task);
            if (task->timer.due_ns != INT64_MAX && mr_executor_now_ns(executor) >= task->timer.due_ns) {
                int state = MR_TASK_IDLE;
                task->timer.due_ns = INT64_MAX;
                task->thread->given |= atomic_compare_exchange_strong(&task->state, &state, MR_TASK_QUEUED);
            }
        }
        bool ending = task->thread->ending;
        if (!ending) {
            task->thread->given = false;
        } else {
            task->thread->cpu_ns += mr_thread_cpu_ns();
            task->thread->over = true;
        }
        pthread_mutex_unlock(&executor->lock);
        if (ending)
            return NULL;
        mr_task_run(task);
    }
}

void mr_task_init(mr_task *task, mr_executor *executor, mr_task_function *function, void *context) {
    *task = (mr_task){.executor = executor, .function = function, .context = context, .timer.due_ns = INT64_MAX};
    atomic_init(&task->state, MR_TASK_IDLE);
}

static void show_name(const struct mr_task_thread *thread, const char *name) {
    char short_name[MR_THREAD_NAME];
    snprintf(short_name, sizeof short_name, "%s", name);
    pthread_setname_np(thread->thread, short_name);
}

/* The last thread has ended. Others may be about to wake the task, so the condition must stay. */
static int attach_again(mr_task *task, const char *name) {
    struct mr_task_thread *thread = task->thread;
    pthread_mutex_lock(&task->executor->lock);
    thread->ending = thread->over = false;
    const int error = mr_thread_create(&thread->thread, run_thread, task);
    thread->joined = thread->over = error;
    atomic_store_explicit(&thread->missing, error != 0, memory_order_relaxed);
    pthread_mutex_unlock(&task->executor->lock);
    if (error)
        return mr_thread_fail(error, "a thread for %s", name);
    show_name(thread, name);
    return MR_OK;
}

int mr_task_detach(mr_task *task, const char *name) {
    if (task->thread)
        return attach_again(task, name);
    struct mr_task_thread *thread = mr_calloc(1, sizeof *thread);
    if (!thread)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a thread");
    mr_condition_init(&thread->woken);
    /* Other threads may call mr_task_cpu_ns. */
    pthread_mutex_lock(&task->executor->lock);
    task->thread = thread;
    const int error = mr_thread_create(&thread->thread, run_thread, task);
    if (error)
        task->thread = NULL;
    pthread_mutex_unlock(&task->executor->lock);
    if (error) {
        pthread_cond_destroy(&thread->woken);
        mr_free(thread);
        return mr_thread_fail(error, "a thread for %s", name);
    }
    show_name(thread, name);
    return MR_OK;
}

bool mr_task_has_ended(const mr_task *task) {
    return task->thread && task->thread->joined && mr_task_has_thread(task);
}

void mr_task_return(mr_task *task) {
    if (!task->thread || !task->thread->joined)
        return;
    MR_LOCKED(&task->executor->lock);
    atomic_store_explicit(&task->thread->missing, true, memory_order_relaxed);
    /* Nothing runs what the thread was given and did not run. Another wake may be about to give the task to it: that
     * one queues the task. */
    if (task->thread->given)
        atomic_exchange_explicit(&task->state, MR_TASK_IDLE, memory_order_acq_rel);
    task->thread->given = false;
}

bool mr_task_is_quiet(mr_task *task) {
    /* Writing the same state orders the caller's changes before the next wake. */
    int state = MR_TASK_IDLE;
    return atomic_compare_exchange_strong_explicit(&task->state, &state, MR_TASK_IDLE, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

int64_t mr_task_cpu_ns(const mr_task *task) {
    MR_LOCKED(&task->executor->lock);
    const struct mr_task_thread *thread = task->thread;
    return !thread ? 0 : thread->cpu_ns + (thread->over ? 0 : mr_thread_cpu_of_ns(thread->thread));
}

void mr_task_ask_thread_to_end(mr_task *task) {
    struct mr_task_thread *thread = task->thread;
    if (!thread || thread->joined)
        return;
    MR_LOCKED(&task->executor->lock);
    thread->ending = true;
    pthread_cond_signal(&thread->woken);
}

void mr_task_end_thread(mr_task *task) {
    struct mr_task_thread *thread = task->thread;
    if (!thread || thread->joined)
        return;
    mr_task_ask_thread_to_end(task);
    pthread_join(thread->thread, NULL);
    thread->joined = true;
}

void mr_task_fini(mr_task *task) {
    mr_executor *executor = task->executor;
    if (!executor)
        return;
    pthread_mutex_lock(&executor->lock);
    mr_timers_remove(&executor->timers, &task->timer);
    mr_executor_note_next_due(executor);
    pthread_mutex_unlock(&executor->lock);
    if (!task->thread)
        return;
    mr_task_end_thread(task);
    pthread_cond_destroy(&task->thread->woken);
    mr_free(task->thread);
    task->thread = NULL;
}
