/* Workers that do not sleep for some time after the last task (mr_executor_busy_poll): one looks again and again where
 * work may come from, in memory alone, so that neither it nor who brings work needs the system. Others look out
 * meanwhile (executor_watch.c), and go on doing so when it has found work. What is polled tells who brings something
 * whether there is anybody who looks. */
#include <sched.h>

#include "engine/flow/executor/executor_parts.h"
#include "millrace/status.h"

/* Between two looks at descriptors: what rings them is in no such hurry, or somebody else is woken for it. */
static const int64_t LOOK_OUT_NS = 100000;
/* Between two times that others which have work are let go first on this core. */
static const int64_t YIELD_NS = 10000;

/* Wakes tasks for which there is something. */
static bool peek_all(mr_executor *executor, bool last) {
    bool found = false;
    pthread_mutex_lock(&executor->polls);
    for (int i = 0; i < executor->polled_count; i++) {
        mr_task *task = executor->polled[i];
        if (!task->peek(task->context, last))
            continue;
        mr_task_wake_behind(task, true);
        found = true;
    }
    pthread_mutex_unlock(&executor->polls);
    return found;
}

/* Whether there is something to do before that time. */
static bool poll_until(mr_executor *executor, int64_t until_ns) {
    int64_t now_ns = mr_executor_now_ns(executor), yield_ns = now_ns + YIELD_NS;
    bool found = false;
    while (!found && !executor->poked && now_ns < until_ns) {
        found = peek_all(executor, false);
        now_ns = mr_executor_now_ns(executor);
        found = found || now_ns >= atomic_load_explicit(&executor->next_due_ns, memory_order_relaxed);
        if (!found && now_ns >= yield_ns) {
            sched_yield();
            yield_ns = now_ns + YIELD_NS;
        }
    }
    return found || executor->poked;
}

bool mr_executor_poll(mr_executor *executor) {
    const int64_t until_ns = executor->poll_until_ns;
    bool found = false;
    if (mr_executor_now_ns(executor) >= until_ns)
        return false;
    executor->polling = true;
    executor->poked = false;
    if (executor->looking)
        mr_executor_set_alarm(executor);
    while (!found && mr_executor_now_ns(executor) < until_ns) {
        const int64_t look_out_ns = mr_executor_now_ns(executor) + LOOK_OUT_NS;
        pthread_mutex_unlock(&executor->lock);
        found = poll_until(executor, look_out_ns < until_ns ? look_out_ns : until_ns);
        pthread_mutex_lock(&executor->lock);
        mr_executor_glance(executor, LOOK_OUT_NS);
        found = found || executor->queued;
    }
    pthread_mutex_unlock(&executor->lock);
    found = peek_all(executor, true) || found;
    pthread_mutex_lock(&executor->lock);
    executor->polling = false;
    executor->poked = false;
    return found || executor->queued || executor->stopping || executor->poll_until_ns > until_ns;
}

int mr_task_poll(mr_task *task, mr_task_peek *peek) {
    mr_executor *executor = task->executor;
    pthread_mutex_lock(&executor->polls);
    const bool room = executor->polled_count < MR_EXECUTOR_POLLED;
    task->peek = peek;
    if (room)
        executor->polled[executor->polled_count++] = task;
    pthread_mutex_unlock(&executor->polls);
    return room ? MR_OK : mr_fail(MR_ERROR_UNAVAILABLE, "workers poll for %d tasks already", MR_EXECUTOR_POLLED);
}

void mr_task_for_upkeep(mr_task *task) {
    task->upkeep = true;
}

void mr_task_unpoll(mr_task *task) {
    mr_executor *executor = task->executor;
    pthread_mutex_lock(&executor->polls);
    for (int i = 0; i < executor->polled_count; i++)
        if (executor->polled[i] == task)
            executor->polled[i] = executor->polled[--executor->polled_count];
    pthread_mutex_unlock(&executor->polls);
}
