/* How idle workers find work. They wait in epoll for watched descriptors and timers. With busy polling
 * (mr_executor_busy_poll) one worker instead polls in memory, so that neither it nor a producer needs a system call.
 *
 * Two workers wait in epoll at once: if one finds work, it need not wake a replacement first. Descriptors are
 * edge-triggered (EPOLLET), so one worker gets each event, once. If all workers are busy, one reads epoll now and then
 * without waiting. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "engine/flow/executor/executor_parts.h"
#include "engine/base/thread.h"
#include "millrace/status.h"

enum { EVENTS = 16 };
/* A timer may fire this late, so that paced sources due at about the same time can share one wake-up. */
static const int64_t TIMER_SLACK_NS = 1000000;
static const int64_t NS_PER_S = 1000000000;
/* A polling worker reads epoll this often: descriptors are less urgent, or wake another worker. */
static const int64_t POLL_EPOLL_NS = 100000;
/* A polling worker yields the core this often. */
static const int64_t YIELD_NS = 10000;

/* ---- epoll, with the lock ---------------------------------------------------------------------------------------- */

static void reset_eventfd(mr_executor *executor) {
    uint64_t count;
    ssize_t got = read(executor->eventfd, &count, sizeof count);
    (void)got; /* If another worker has read it, it is reset too. */
    executor->eventfd_set = false;
}

static bool is_watched(const mr_executor *executor, const mr_task *task) {
    int i = 0;
    while (i < executor->watched_count && executor->watched[i] != task)
        i++;
    return i < executor->watched_count;
}

/* An event's task may no longer be watched. The timerfd needs no action: a worker that returns from epoll must check
 * the timers anyway. */
static void dispatch_events(mr_executor *executor, const struct epoll_event *events, int count) {
    for (int i = 0; i < count; i++) {
        mr_task *task = events[i].data.ptr;
        if (events[i].data.ptr == &executor->eventfd)
            reset_eventfd(executor);
        else if (is_watched(executor, task))
            mr_executor_queue(executor, task);
    }
}

/* Sets it late rather than early, so that timers due soon after can share the wake-up. An expired timerfd is not
 * pending. */
void mr_executor_set_timerfd(mr_executor *executor) {
    int64_t due_ns = mr_timers_next(&executor->timers);
    if (due_ns < 0)
        due_ns = 0; /* Long past, like any time before the machine started. */
    due_ns = due_ns < INT64_MAX - TIMER_SLACK_NS ? due_ns + TIMER_SLACK_NS : INT64_MAX;
    const bool pending = executor->timerfd_ns > mr_executor_now_ns(executor);
    if (pending ? due_ns == executor->timerfd_ns : due_ns == INT64_MAX)
        return;
    executor->timerfd_ns = due_ns;
    struct itimerspec when = {0}; /* never */
    if (due_ns != INT64_MAX)
        when.it_value = (struct timespec){.tv_sec = due_ns / NS_PER_S, .tv_nsec = due_ns % NS_PER_S};
    timerfd_settime(executor->timerfd, TFD_TIMER_ABSTIME, &when, NULL);
}

void mr_executor_epoll_wait(mr_executor *executor) {
    struct epoll_event events[EVENTS];
    mr_executor_set_timerfd(executor);
    executor->in_epoll++;
    pthread_mutex_unlock(&executor->lock);
    int count = epoll_wait(executor->epoll, events, EVENTS, -1);
    pthread_mutex_lock(&executor->lock);
    executor->in_epoll--;
    executor->epoll_tried_ns = mr_executor_now_ns(executor);
    dispatch_events(executor, events, count);
}

void mr_executor_epoll_try(mr_executor *executor, int64_t pause_ns) {
    struct epoll_event events[EVENTS];
    int64_t now_ns = mr_executor_now_ns(executor);
    if (executor->in_epoll || now_ns - executor->epoll_tried_ns < pause_ns)
        return;
    executor->epoll_tried_ns = now_ns;
    dispatch_events(executor, events, epoll_wait(executor->epoll, events, EVENTS, 0));
}

void mr_executor_set_eventfd(mr_executor *executor) {
    const uint64_t one = 1;
    ssize_t written = write(executor->eventfd, &one, sizeof one);
    (void)written; /* It cannot overflow: each wait gets one write. */
}

/* ---- watched descriptors ----------------------------------------------------------------------------------------- */

static int fail(const char *call) {
    return mr_fail(MR_ERROR_UNAVAILABLE, "workers cannot wait for a descriptor: %s: %s", call, strerror(errno));
}

static int add(mr_executor *executor, int fd, void *pointer) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = pointer};
    return epoll_ctl(executor->epoll, EPOLL_CTL_ADD, fd, &event) ? fail("epoll_ctl") : MR_OK;
}

int mr_executor_open_poller(mr_executor *executor) {
    if ((executor->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
        return fail("epoll_create1");
    if ((executor->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        return fail("eventfd");
    if ((executor->timerfd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) < 0)
        return fail("timerfd_create");
    int status = add(executor, executor->eventfd, &executor->eventfd);
    return status ? status : add(executor, executor->timerfd, &executor->timerfd);
}

static void shut(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void mr_executor_close_poller(mr_executor *executor) {
    shut(&executor->epoll);
    shut(&executor->eventfd);
    shut(&executor->timerfd);
}

int mr_task_watch(mr_task *task, int fd) {
    mr_executor *executor = task->executor;
    int status = executor->random || task->thread || fd < 0
                     ? mr_fail(MR_ERROR_UNAVAILABLE, "this task has no descriptor that workers wait for")
                     : MR_OK;
    pthread_mutex_lock(&executor->lock);
    if (!status && executor->watched_count == MR_EXECUTOR_WATCHED)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "workers already wait for %d descriptors", MR_EXECUTOR_WATCHED);
    task->fd = fd;
    if (!status)
        status = add(executor, fd, task);
    if (!status)
        executor->watched[executor->watched_count++] = task;
    mr_executor_unlock_and_wake_epoll(executor);
    return status;
}

void mr_task_unwatch(mr_task *task) {
    mr_executor *executor = task->executor;
    MR_LOCKED(&executor->lock);
    for (int i = 0; i < executor->watched_count; i++)
        if (executor->watched[i] == task) {
            executor->watched[i] = executor->watched[--executor->watched_count];
            epoll_ctl(executor->epoll, EPOLL_CTL_DEL, task->fd, NULL);
        }
}

/* ---- busy polling ------------------------------------------------------------------------------------------------ */

/* Wakes all polled tasks that have work. */
static bool peek_all(mr_executor *executor, bool last) {
    bool found = false;
    MR_LOCKED(&executor->polls);
    for (int i = 0; i < executor->polled_count; i++) {
        mr_task *task = executor->polled[i];
        if (!task->peek(task->context, last))
            continue;
        mr_task_wake_behind(task, true);
        found = true;
    }
    return found;
}

/* True if it finds work before until_ns. */
static bool poll_until(mr_executor *executor, int64_t until_ns) {
    int64_t now_ns = mr_executor_now_ns(executor), yield_ns = now_ns + YIELD_NS;
    bool found = false;
    while (!found && !executor->stop_poll && now_ns < until_ns) {
        found = peek_all(executor, false);
        now_ns = mr_executor_now_ns(executor);
        found = found || now_ns >= atomic_load_explicit(&executor->next_due_ns, memory_order_relaxed);
        if (!found && now_ns >= yield_ns) {
            sched_yield();
            yield_ns = now_ns + YIELD_NS;
        }
    }
    return found || executor->stop_poll;
}

bool mr_executor_poll(mr_executor *executor) {
    const int64_t until_ns = executor->poll_until_ns;
    bool found = false;
    if (mr_executor_now_ns(executor) >= until_ns)
        return false;
    executor->polling = true;
    executor->stop_poll = false;
    if (executor->in_epoll)
        mr_executor_set_timerfd(executor);
    while (!found && mr_executor_now_ns(executor) < until_ns) {
        const int64_t epoll_ns = mr_executor_now_ns(executor) + POLL_EPOLL_NS;
        pthread_mutex_unlock(&executor->lock);
        found = poll_until(executor, epoll_ns < until_ns ? epoll_ns : until_ns);
        pthread_mutex_lock(&executor->lock);
        mr_executor_epoll_try(executor, POLL_EPOLL_NS);
        found = found || executor->queued;
    }
    pthread_mutex_unlock(&executor->lock);
    found = peek_all(executor, true) || found;
    pthread_mutex_lock(&executor->lock);
    executor->polling = false;
    executor->stop_poll = false;
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
    return room ? MR_OK : mr_fail(MR_ERROR_UNAVAILABLE, "workers already poll for %d tasks", MR_EXECUTOR_POLLED);
}

void mr_task_for_upkeep(mr_task *task) {
    task->upkeep = true;
}

void mr_task_unpoll(mr_task *task) {
    mr_executor *executor = task->executor;
    MR_LOCKED(&executor->polls);
    for (int i = 0; i < executor->polled_count; i++)
        if (executor->polled[i] == task)
            executor->polled[i] = executor->polled[--executor->polled_count];
}
