/* Descriptors that idle workers look out for: who waits for one runs the task itself, so that nobody is woken on the
 * way.
 *
 * Two idle workers do so, and wait for the timers as well: when one of them has found work, the other is there already,
 * and who leaves need not wake anybody, which would come before the work. Each of what there is to hear of a descriptor
 * is heard by one of them, once (EPOLLET). While all workers are at work they glance at what there is now and then. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "engine/flow/executor/executor_parts.h"
#include "millrace/status.h"

enum { EVENTS = 16 };
/* A timer may fire so much late: paced sources that are due at about the same time share one wake-up of a worker. */
static const int64_t TIMER_SLACK_NS = 1000000;
static const int64_t NS_PER_S = 1000000000;

/* ---- looking out, with the lock ---------------------------------------------------------------------------------- */

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

/* A task that is watched no more may have been among what was seen. Of an alarm nothing is left to do: who looks out
 * looks at the timers first of all. */
static void heed(mr_executor *executor, const struct epoll_event *events, int count) {
    for (int i = 0; i < count; i++) {
        mr_task *task = events[i].data.ptr;
        if (events[i].data.ptr == &executor->call)
            hear_call(executor);
        else if (is_watched(executor, task))
            mr_executor_queue(executor, task);
    }
}

/* A timer is late rather than early, and lets others that are due soon be done with it. An alarm that has gone off says
 * nothing more, whoever has heard it. */
void mr_executor_set_alarm(mr_executor *executor) {
    int64_t due_ns = mr_timers_next(&executor->timers);
    if (due_ns < 0)
        due_ns = 0; /* Long past, as any time before the machine's start is. */
    due_ns = due_ns < INT64_MAX - TIMER_SLACK_NS ? due_ns + TIMER_SLACK_NS : INT64_MAX;
    const bool pending = executor->alarm_ns > mr_executor_now_ns(executor);
    if (pending ? due_ns == executor->alarm_ns : due_ns == INT64_MAX)
        return;
    executor->alarm_ns = due_ns;
    struct itimerspec when = {0}; /* which is never */
    if (due_ns != INT64_MAX)
        when.it_value = (struct timespec){.tv_sec = due_ns / NS_PER_S, .tv_nsec = due_ns % NS_PER_S};
    timerfd_settime(executor->alarm, TFD_TIMER_ABSTIME, &when, NULL);
}

void mr_executor_look_out(mr_executor *executor) {
    struct epoll_event events[EVENTS];
    mr_executor_set_alarm(executor);
    executor->looking++;
    pthread_mutex_unlock(&executor->lock);
    int count = epoll_wait(executor->lookout, events, EVENTS, -1);
    pthread_mutex_lock(&executor->lock);
    executor->looking--;
    executor->glanced_ns = mr_executor_now_ns(executor);
    heed(executor, events, count);
}

void mr_executor_glance(mr_executor *executor, int64_t pause_ns) {
    struct epoll_event events[EVENTS];
    int64_t now_ns = mr_executor_now_ns(executor);
    if (executor->looking || now_ns - executor->glanced_ns < pause_ns)
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

static int add(mr_executor *executor, int fd, void *about) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = about};
    return epoll_ctl(executor->lookout, EPOLL_CTL_ADD, fd, &event) ? fail("epoll_ctl") : MR_OK;
}

int mr_executor_open_lookout(mr_executor *executor) {
    if ((executor->lookout = epoll_create1(EPOLL_CLOEXEC)) < 0)
        return fail("epoll_create1");
    if ((executor->call = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        return fail("eventfd");
    if ((executor->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) < 0)
        return fail("timerfd_create");
    int status = add(executor, executor->call, &executor->call);
    return status ? status : add(executor, executor->alarm, &executor->alarm);
}

static void shut(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void mr_executor_close_lookout(mr_executor *executor) {
    shut(&executor->lookout);
    shut(&executor->call);
    shut(&executor->alarm);
}

int mr_task_watch(mr_task *task, int fd) {
    mr_executor *executor = task->executor;
    int status = executor->random || task->thread || fd < 0
                     ? mr_fail(MR_ERROR_UNAVAILABLE, "no worker waits for descriptors of this task")
                     : MR_OK;
    pthread_mutex_lock(&executor->lock);
    if (!status && executor->watched_count == MR_EXECUTOR_WATCHED)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "workers wait for %d descriptors already", MR_EXECUTOR_WATCHED);
    task->fd = fd;
    if (!status)
        status = add(executor, fd, task);
    if (!status)
        executor->watched[executor->watched_count++] = task;
    mr_executor_unlock_and_call_looker(executor);
    return status;
}

void mr_task_unwatch(mr_task *task) {
    mr_executor *executor = task->executor;
    pthread_mutex_lock(&executor->lock);
    for (int i = 0; i < executor->watched_count; i++)
        if (executor->watched[i] == task) {
            executor->watched[i] = executor->watched[--executor->watched_count];
            epoll_ctl(executor->lookout, EPOLL_CTL_DEL, task->fd, NULL);
        }
    pthread_mutex_unlock(&executor->lock);
}
