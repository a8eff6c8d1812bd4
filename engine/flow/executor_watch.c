/* Descriptors that idle workers look out for: who waits for one runs the task itself, so that nobody is woken on the way.
 *
 * One idle worker does so, the keeper, which also waits for the timers. A descriptor that was seen to be readable is not
 * looked at (EPOLLONESHOT) until its task's owner has seen to it: whoever is keeper meanwhile would else find it readable
 * all the time. While all workers are at work they glance at what there is now and then. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/flow/executor_parts.h"
#include "millrace/status.h"

enum { EVENTS = 16 };
static const int64_t NS_PER_MS = 1000000, NS_PER_S = 1000000000;
/* Between two glances of workers that have enough to do. */
static const int64_t GLANCE_NS = 1000000;

/* ---- the keeper, with the lock ----------------------------------------------------------------------------------- */

static void hear_call(mr_executor *executor) {
    uint64_t count;
    ssize_t got = read(executor->call, &count, sizeof count);
    (void)got; /* Nothing to read is as well: somebody has called all the same. */
    executor->called = false;
}

static bool is_watched(const mr_executor *executor, const mr_task *task) {
    int i = 0;
    while (i < executor->watched_count && executor->watched[i] != task)
        i++;
    return i < executor->watched_count;
}

/* A task that is watched no more may have been among what was seen. */
static void heed(mr_executor *executor, const struct epoll_event *events, int count) {
    for (int i = 0; i < count; i++) {
        mr_task *task = events[i].data.ptr;
        if (!task) {
            hear_call(executor);
        } else if (is_watched(executor, task)) {
            atomic_store(&task->seen, true);
            mr_executor_queue(executor, task);
        }
    }
}

/* To the nanosecond: rounded down to milliseconds, the last one before a timer would be spent awake. Linux before 5.11 has
 * no such call: there it is late by a millisecond at most. */
static int wait_for_events(const mr_executor *executor, struct epoll_event *events, int64_t left_ns) {
    const struct timespec left = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    const bool bounded = left_ns != INT64_MAX;
    int count = epoll_pwait2(executor->lookout, events, EVENTS, bounded ? &left : NULL, NULL);
    if (count >= 0 || errno != ENOSYS)
        return count;
    int64_t left_ms = left_ns / NS_PER_MS + 1;
    return epoll_wait(executor->lookout, events, EVENTS, !bounded ? -1 : left_ms < INT_MAX ? (int)left_ms : INT_MAX);
}

void mr_executor_look_out(mr_executor *executor, int64_t until_ns) {
    struct epoll_event events[EVENTS];
    int64_t left_ns = until_ns == INT64_MAX ? INT64_MAX : until_ns - mr_executor_now_ns(executor);
    executor->looking = true;
    pthread_mutex_unlock(&executor->lock);
    int count = wait_for_events(executor, events, left_ns > 0 ? left_ns : 0);
    pthread_mutex_lock(&executor->lock);
    executor->looking = false;
    executor->glanced_ns = mr_executor_now_ns(executor);
    heed(executor, events, count);
}

void mr_executor_glance(mr_executor *executor) {
    struct epoll_event events[EVENTS];
    int64_t now_ns = mr_executor_now_ns(executor);
    if (executor->keeper || now_ns - executor->glanced_ns < GLANCE_NS)
        return;
    executor->glanced_ns = now_ns;
    heed(executor, events, epoll_wait(executor->lookout, events, EVENTS, 0));
}

void mr_executor_ring(mr_executor *executor) {
    const uint64_t one = 1;
    ssize_t written = write(executor->call, &one, sizeof one);
    (void)written; /* It cannot be full: one is written for one wait. */
}

/* ---- watching ---------------------------------------------------------------------------------------------------- */

static int fail(const char *call) {
    return mr_fail(MR_ERROR_UNAVAILABLE, "workers cannot wait for a descriptor: %s: %s", call, strerror(errno));
}

static int control(mr_executor *executor, int operation, mr_task *task, int fd, uint32_t what) {
    struct epoll_event event = {.events = what, .data.ptr = task};
    return epoll_ctl(executor->lookout, operation, fd, &event) ? fail("epoll_ctl") : MR_OK;
}

static int open_lookout(mr_executor *executor) {
    if (executor->lookout >= 0)
        return MR_OK;
    int lookout = epoll_create1(EPOLL_CLOEXEC), call = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    executor->lookout = lookout;
    if (lookout >= 0 && call >= 0 && !control(executor, EPOLL_CTL_ADD, NULL, call, EPOLLIN)) {
        executor->call = call;
        return MR_OK;
    }
    int status = fail("eventfd");
    if (lookout >= 0)
        close(lookout);
    if (call >= 0)
        close(call);
    executor->lookout = -1;
    return status;
}

int mr_task_watch(mr_task *task, int fd) {
    mr_executor *executor = task->executor;
    int status = executor->random || task->thread || fd < 0
                     ? mr_fail(MR_ERROR_UNAVAILABLE, "no worker waits for descriptors of this task")
                     : MR_OK;
    pthread_mutex_lock(&executor->lock);
    if (!status && executor->watched_count == MR_EXECUTOR_WATCHED)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "workers wait for %d descriptors already", MR_EXECUTOR_WATCHED);
    if (!status)
        status = open_lookout(executor);
    task->fd = fd;
    atomic_store(&task->seen, false);
    if (!status)
        status = control(executor, EPOLL_CTL_ADD, task, fd, EPOLLIN | EPOLLONESHOT);
    if (!status)
        executor->watched[executor->watched_count++] = task;
    mr_executor_unlock_and_call_keeper(executor);
    return status;
}

void mr_task_watch_again(mr_task *task) {
    if (atomic_exchange(&task->seen, false))
        control(task->executor, EPOLL_CTL_MOD, task, task->fd, EPOLLIN | EPOLLONESHOT);
}

void mr_task_unwatch(mr_task *task) {
    mr_executor *executor = task->executor;
    pthread_mutex_lock(&executor->lock);
    for (int i = 0; i < executor->watched_count; i++)
        if (executor->watched[i] == task) {
            executor->watched[i] = executor->watched[--executor->watched_count];
            control(executor, EPOLL_CTL_DEL, task, task->fd, 0);
        }
    pthread_mutex_unlock(&executor->lock);
}

void mr_executor_close_lookout(mr_executor *executor) {
    if (executor->lookout < 0)
        return;
    close(executor->lookout);
    close(executor->call);
}
