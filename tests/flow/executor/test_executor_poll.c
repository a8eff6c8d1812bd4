/* Polling workers: what they look at, whom they wake, and that they sleep in the end. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/flow/executor/executor_parts.h"
#include "engine/base/thread.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

static mr_executor *make(int workers, int64_t busy_poll_ns) {
    mr_executor *executor = NULL;
    assert_int_equal(mr_executor_create(&executor, workers, 0), MR_OK);
    mr_executor_busy_poll(executor, busy_poll_ns);
    assert_int_equal(mr_executor_start(executor), MR_OK);
    return executor;
}

static void destroy(mr_executor *executor) {
    mr_executor_stop(executor);
    mr_executor_destroy(&executor);
}

/* Keeps a worker busy until asked to end. */
typedef struct repeater {
    mr_task task;
    atomic_bool ending;
    atomic_int ran;
} repeater;

static void run_again(void *context) {
    repeater *self = context;
    atomic_fetch_add(&self->ran, 1);
    if (!atomic_load(&self->ending))
        mr_task_wake(&self->task);
}

/* Without work, one worker polls for a while after the last task, and then all sleep. */
TEST(who_polls_sleeps_in_the_end) {
    enum { POLL_MS = 20, REST_MS = 999, MOST_MS = 5 * POLL_MS };
    mr_executor *executor = make(4, POLL_MS * 1000000L);
    repeater self = {.ending = true};
    mr_task_init(&self.task, executor, run_again, &self);
    mr_task_wake(&self.task);
    await_count(&self.ran, 1);
    sleep_ms(REST_MS);
    assert_in_range(mr_executor_cpu_ns(executor), 0, MOST_MS * 1000000L);
    destroy(executor);
}

/* Runs again and again, like keep-alive messages, with or without work. */
typedef struct upkeep {
    mr_task task;
    bool brings;
    atomic_int ran;
} upkeep;

static void keep_up(void *context) {
    upkeep *self = context;
    atomic_fetch_add(&self->ran, 1);
    if (self->brings)
        mr_executor_keep_polling();
    mr_task_wake_at(&self->task, mr_executor_now_ns(self->task.executor) + 5000000);
}

/* Upkeep that runs more often than the polling time does not keep workers polling for ever. */
TEST(upkeep_alone_keeps_nobody_polling) {
    enum { POLL_MS = 20, TURNS = 100, MOST_MS = 5 * POLL_MS };
    for (int brings = 0; brings < 2; brings++) {
        ENDED_BY(mr_executor_destroy) mr_executor *executor = make(2, POLL_MS * 1000000L);
        repeater first = {.ending = true};
        upkeep self = {.brings = brings};
        mr_task_init(&first.task, executor, run_again, &first);
        mr_task_init(&self.task, executor, keep_up, &self);
        mr_task_for_upkeep(&self.task);
        mr_task_wake(&first.task);
        mr_task_wake(&self.task);
        while (atomic_load(&self.ran) < TURNS || (brings && mr_executor_cpu_ns(executor) <= MOST_MS * 1000000L))
            sleep_ms(5);
        if (!brings)
            assert_in_range(mr_executor_cpu_ns(executor), 0, MOST_MS * 1000000L);
        mr_executor_stop(executor);
        mr_task_fini(&self.task);
    }
}

/* A source of work in memory: the producer must wake the task only if nobody polls. */
enum { PARCELS = 20000 };
typedef struct parcels {
    mr_task task;
    atomic_int brought, taken, wakes, looks;
    atomic_bool looked_for;
    bool awaits_looks; /* the producer starts when somebody polls */
} parcels;

static void take_parcels(void *context) {
    parcels *self = context;
    atomic_store(&self->taken, atomic_load(&self->brought));
}

static bool look_for_parcels(void *context, bool last) {
    parcels *self = context;
    atomic_fetch_add(&self->looks, 1);
    atomic_store(&self->looked_for, !last);
    return atomic_load(&self->brought) != atomic_load(&self->taken);
}

static void *bring_parcels(void *context) {
    parcels *self = context;
    while (self->awaits_looks && !atomic_load(&self->looked_for)) {
        mr_task_wake(&self->task);
        sleep_ms(1);
    }
    for (int i = 0; i < PARCELS; i++) {
        atomic_fetch_add(&self->brought, 1);
        if (!atomic_load(&self->looked_for)) {
            atomic_fetch_add(&self->wakes, 1);
            mr_task_wake(&self->task);
        }
        if (i % 1000 == 0)
            sleep_ms(2);
    }
    return NULL;
}

static void bring_and_take(int workers, int64_t busy_poll_ns, bool busy) {
    mr_executor *executor = make(workers, busy_poll_ns);
    const bool looks_on = !busy && busy_poll_ns > 100000000; /* also while the producer pauses */
    parcels self = {.awaits_looks = looks_on};
    repeater other = {.ending = !busy};
    pthread_t thread;
    mr_task_init(&self.task, executor, take_parcels, &self);
    mr_task_init(&other.task, executor, run_again, &other);
    assert_int_equal(mr_task_poll(&self.task, look_for_parcels), MR_OK);
    mr_task_wake(&other.task);
    assert_int_equal(pthread_create(&thread, NULL, bring_parcels, &self), 0);
    pthread_join(thread, NULL);
    await_count(&self.taken, PARCELS);
    atomic_store(&other.ending, true);
    if (!busy_poll_ns)
        assert_int_equal(atomic_load(&self.looks), 0);
    else if (looks_on)
        assert_in_range(atomic_load(&self.wakes), 0, PARCELS - 1);
    /* After mr_task_unpoll nobody may call peek. */
    mr_task_unpoll(&self.task);
    const int looks = atomic_load(&self.looks);
    mr_task_wake(&self.task);
    sleep_ms(5);
    assert_int_equal(atomic_load(&self.looks), looks);
    destroy(executor);
}

/* Also while a task keeps one worker, or the only one, busy. */
TEST(what_is_polled_wakes_its_task) {
    static const int64_t polls_ns[] = {0, 1000000, 200000000};
    for (size_t i = 0; i < sizeof polls_ns / sizeof *polls_ns; i++)
        for (int turn = 0; turn < 4; turn++)
            bring_and_take(1 + turn / 2, polls_ns[i], turn % 2);
}

/* A worker about to sleep must look once more and announce it, so that producers know that they must wake the task. */
TEST(the_last_look_is_told) {
    mr_executor *executor = make(3, 5000000);
    parcels self = {.taken = 0};
    mr_task_init(&self.task, executor, take_parcels, &self);
    assert_int_equal(mr_task_poll(&self.task, look_for_parcels), MR_OK);
    for (int turn = 1; turn <= 10; turn++) {
        atomic_store(&self.brought, turn);
        mr_task_wake(&self.task);
        await_count(&self.taken, turn);
        for (int i = 0; i < 12000 && atomic_load(&self.looked_for); i++)
            sleep_ms(5);
        assert_false(atomic_load(&self.looked_for));
    }
    assert_true(atomic_load(&self.looks) > 0);
    mr_task_unpoll(&self.task);
    destroy(executor);
}

/* A worker that is stopped during the last look. */
typedef struct farewell {
    mr_task task;
    mr_executor *executor;
    atomic_int looking, stopped;
} farewell;

static void do_nothing(void *context) {
}

static bool is_stopping(mr_executor *executor) {
    MR_LOCKED(&executor->lock);
    return executor->stopping;
}

static bool look_until_stopped(void *context, bool last) {
    farewell *self = context;
    if (last)
        atomic_store(&self->looking, 1);
    while (last && !is_stopping(self->executor))
        sched_yield();
    return false;
}

static void *stop_executor(void *context) {
    farewell *self = context;
    mr_executor_stop(self->executor);
    atomic_store(&self->stopped, 1);
    return NULL;
}

/* A worker about to sleep also ends: nobody would wake it. */
TEST(who_is_about_to_sleep_is_stopped) {
    pthread_t thread;
    mr_executor *executor = make(1, 1000000);
    farewell self = {.executor = executor};
    const int fd = eventfd(0, EFD_NONBLOCK);
    mr_task_init(&self.task, executor, do_nothing, &self);
    assert_int_equal(mr_task_watch(&self.task, fd), MR_OK); /* without it, it would sleep for ever */
    assert_int_equal(mr_task_poll(&self.task, look_until_stopped), MR_OK);
    mr_task_wake(&self.task);
    await_count(&self.looking, 1);
    assert_int_equal(pthread_create(&thread, NULL, stop_executor, &self), 0);
    await_count(&self.stopped, 1);
    pthread_join(thread, NULL);
    mr_task_unwatch(&self.task);
    mr_executor_destroy(&executor);
    close(fd);
}

TEST(too_many_to_poll_are_refused) {
    enum { MANY = 65 };
    static parcels many[MANY];
    mr_executor *executor = make(1, 0);
    for (int i = 0; i < MANY; i++) {
        mr_task_init(&many[i].task, executor, take_parcels, &many[i]);
        assert_int_equal(mr_task_poll(&many[i].task, look_for_parcels), i < MANY - 1 ? MR_OK : MR_ERROR_UNAVAILABLE);
    }
    assert_string_equal(mr_message(), "workers already poll for 64 tasks");
    mr_task_unpoll(&many[3].task);
    assert_int_equal(mr_task_poll(&many[MANY - 1].task, look_for_parcels), MR_OK);
    for (int i = 0; i < MANY; i++)
        mr_task_unpoll(&many[i].task);
    destroy(executor);
}

RUN_TESTS(NULL, NULL)
