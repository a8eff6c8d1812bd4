/* The executor: no lost wakes, one thread in a task at a time, timers, dedicated threads, descriptors, and reproducible
 * order. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/flow/executor/drive.h"
#include "millrace/status.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

/* Every test runs with workers that sleep at once and with workers that poll, for shorter and for longer than a test
 * takes. */
static int64_t busy_poll_ns;

static mr_executor *make(int workers, uint64_t seed) {
    mr_executor *executor = NULL;
    assert_int_equal(mr_executor_create(&executor, workers, seed), MR_OK);
    mr_executor_busy_poll(executor, busy_poll_ns);
    assert_int_equal(mr_executor_start(executor), MR_OK);
    return executor;
}

/* `task` may be NULL. */
static void destroy(mr_executor *executor, mr_task *task) {
    mr_executor_stop(executor);
    if (task)
        mr_task_fini(task);
    mr_executor_destroy(&executor);
}

/* The linker redirects all calls here (tests/CMakeLists.txt). */
static atomic_int unlimited_sleeps;
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock) {
    atomic_fetch_add(&unlimited_sleeps, 1);
    return __real_pthread_cond_wait(condition, lock);
}

/* ---- wakes ---- */
enum { WAKES = 20000 };
typedef struct counter {
    mr_task task;
    atomic_int wanted, seen, inside;
    atomic_bool overlapped;
} counter;

static void catch_up(void *context) {
    counter *self = context;
    if (atomic_fetch_add(&self->inside, 1) != 0)
        atomic_store(&self->overlapped, true);
    atomic_store(&self->seen, atomic_load(&self->wanted));
    atomic_fetch_sub(&self->inside, 1);
}

/* Thousands of threads that looked ten times a second used up all processors. */
TEST(an_idle_thread_sleeps_until_it_is_woken) {
    ENDED_BY(mr_executor_destroy) mr_executor *executor = make(1, 0);
    counter self = {0};
    atomic_store(&unlimited_sleeps, 0);
    mr_task_init(&self.task, executor, catch_up, &self);
    assert_int_equal(mr_task_detach(&self.task, "test"), MR_OK);
    for (int i = 1; i <= 3; i++) {
        await_count(&unlimited_sleeps, i);
        atomic_store(&self.wanted, i);
        mr_task_wake(&self.task);
        await_count(&self.seen, i);
    }
    await_count(&unlimited_sleeps, 4);
    mr_task_ask_thread_to_end(&self.task);
    mr_task_end_thread(&self.task);
    assert_true(mr_task_has_ended(&self.task));
    mr_task_fini(&self.task);
}

static void *wake_often(void *context) {
    counter *self = context;
    for (int i = 0; i < WAKES; i++) {
        atomic_fetch_add(&self->wanted, 1);
        mr_task_wake(&self->task);
    }
    return NULL;
}

static void lose_no_wake(bool own_thread) {
    mr_executor *executor = make(2, 0);
    counter self = {0};
    mr_task_init(&self.task, executor, catch_up, &self);
    if (own_thread)
        assert_int_equal(mr_task_detach(&self.task, "test"), MR_OK);
    pthread_t wakers[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&wakers[i], NULL, wake_often, &self), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(wakers[i], NULL);
    await_count(&self.seen, 3 * WAKES);
    assert_false(atomic_load(&self.overlapped));
    destroy(executor, &self.task);
}

TEST(no_wake_is_lost) {
    lose_no_wake(false);
    lose_no_wake(true);
}

/* ---- from a thread to the workers ---- */

enum { MOVED = 24, MOVES = 150 };
typedef struct moving {
    counter moved[MOVED];
    pthread_barrier_t start;
} moving;

static void *wake_each(void *context) {
    moving *self = context;
    pthread_barrier_wait(&self->start);
    for (int i = 0; i < MOVED; i++) {
        atomic_fetch_add(&self->moved[i].wanted, 1);
        mr_task_wake(&self->moved[i].task);
    }
    return NULL;
}

/* Tasks whose threads have ended go to the workers while others wake them. */
static void move_all(mr_executor *executor) {
    static moving self;
    pthread_t wakers[3];
    pthread_barrier_init(&self.start, NULL, 4);
    for (int i = 0; i < MOVED; i++) {
        memset(&self.moved[i], 0, sizeof self.moved[i]);
        mr_task_init(&self.moved[i].task, executor, catch_up, &self.moved[i]);
        assert_int_equal(mr_task_detach(&self.moved[i].task, "test"), MR_OK);
        mr_task_end_thread(&self.moved[i].task);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&wakers[i], NULL, wake_each, &self), 0);
    pthread_barrier_wait(&self.start);
    for (int i = 0; i < MOVED; i++) {
        mr_task_return(&self.moved[i].task);
        atomic_fetch_add(&self.moved[i].wanted, 1);
        mr_task_wake(&self.moved[i].task);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(wakers[i], NULL);
    for (int i = 0; i < MOVED; i++) {
        await_count(&self.moved[i].seen, 4);
        while (!mr_task_is_quiet(&self.moved[i].task))
            sleep_ms(1);
        assert_false(atomic_load(&self.moved[i].overlapped));
        mr_task_fini(&self.moved[i].task);
    }
    pthread_barrier_destroy(&self.start);
}

/* A wake that had begun before was queued a second time, and the queue lost other tasks. */
TEST(tasks_go_from_threads_to_workers_while_others_wake_them) {
    EACH_WORKER_COUNT(workers) {
        mr_executor *executor = make(workers, 0);
        for (int i = 0; i < UNDER_TSAN(10, MOVES); i++)
            move_all(executor);
        mr_executor_destroy(&executor);
    }
}

/* ---- timers ---- */
typedef struct alarm {
    mr_task task;
    int64_t due_ns;
    _Atomic int64_t rang_ns;
} alarm_task;

static void ring(void *context) {
    alarm_task *self = context;
    atomic_store(&self->rang_ns, mr_executor_now_ns(self->task.executor));
}

/* For a minute at most. */
static void await_alarm(alarm_task *self) {
    for (int i = 0; i < 12000 && !atomic_load(&self->rang_ns); i++)
        sleep_ms(5);
}

TEST(timers_ring_in_simulated_time_exactly) {
    enum { COUNT = 500 };
    static alarm_task alarms[COUNT];
    ENDED_BY(mr_executor_destroy) mr_executor *executor = make(1, 42);
    for (int i = 0; i < COUNT; i++) {
        alarms[i].due_ns = (int64_t)((i * 7919) % 1009) * 1000 + 1;
        atomic_store(&alarms[i].rang_ns, -1);
        mr_task_init(&alarms[i].task, executor, ring, &alarms[i]);
        mr_task_wake_at(&alarms[i].task, 5000000);
        mr_task_wake_at(&alarms[i].task, alarms[i].due_ns); /* replaces the first */
    }
    mr_task_fini(&alarms[0].task); /* cancels the timer */
    assert_false(mr_executor_drive(executor, INT64_MAX));
    assert_int_equal(atomic_load(&alarms[0].rang_ns), -1);
    for (int i = 1; i < COUNT; i++)
        assert_int_equal(atomic_load(&alarms[i].rang_ns), alarms[i].due_ns);
}

static void ring_never_early(bool own_thread) {
    mr_executor *executor = make(2, 0);
    alarm_task self = {0};
    mr_task_init(&self.task, executor, ring, &self);
    if (own_thread)
        assert_int_equal(mr_task_detach(&self.task, "test"), MR_OK);
    int64_t due = mr_executor_now_ns(executor) + 20000000;
    mr_task_wake_at(&self.task, due);
    await_alarm(&self);
    assert_true(atomic_load(&self.rang_ns) >= due);
    destroy(executor, &self.task);
}

TEST(timers_ring_in_real_time_never_early) {
    ring_never_early(false);
    ring_never_early(true);
}

/* Whatever past time they are set to, by a thread that is not a worker, while all workers wait for another timer. */
TEST(timers_of_the_past_ring) {
    static const int64_t times_ns[] = {INT64_MIN, -2000000, -1000000, -1, 0, 1, 1000000};
    mr_executor *executor = make(2, 0);
    alarm_task far = {.due_ns = INT64_MAX - 1}, self = {.due_ns = 0};
    mr_task_init(&far.task, executor, ring, &far);
    mr_task_init(&self.task, executor, ring, &self);
    mr_task_wake_at(&far.task, far.due_ns);
    for (size_t i = 0; i < sizeof times_ns / sizeof *times_ns; i++) {
        atomic_store(&self.rang_ns, 0);
        sleep_ms(2);
        mr_task_wake_at(&self.task, times_ns[i]);
        await_alarm(&self);
        assert_true(atomic_load(&self.rang_ns) > 0);
    }
    assert_int_equal(atomic_load(&far.rang_ns), 0);
    mr_executor_stop(executor);
    mr_task_fini(&far.task);
    destroy(executor, &self.task);
}

/* ---- deterministic order ---- */
typedef struct recorder {
    mr_task task;
    int number;
} recorder;
static int order[64], order_count;

static void record(void *context) {
    order[order_count++] = ((recorder *)context)->number;
}

static void draw_order(uint64_t seed, int *into) {
    recorder recorders[16];
    ENDED_BY(mr_executor_destroy) mr_executor *executor = make(1, seed);
    order_count = 0;
    for (int i = 0; i < 16; i++) {
        recorders[i].number = i;
        mr_task_init(&recorders[i].task, executor, record, &recorders[i]);
        mr_task_wake(&recorders[i].task);
        mr_task_wake(&recorders[i].task); /* once is enough */
    }
    assert_false(mr_executor_drive(executor, INT64_MAX));
    assert_int_equal(order_count, 16);
    for (int i = 0; i < 16; i++)
        into[i] = order[i];
}

TEST(a_seed_gives_one_order) {
    int first[16], again[16], other[16];
    draw_order(7, first);
    draw_order(7, again);
    draw_order(8, other);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
}

/* ---- descriptors ---- */
enum { RINGS = 2000 };
typedef struct listener {
    mr_task task;
    int fd;
    bool deaf;         /* it does not read the descriptor */
    atomic_int heard, ran;
} listener;

static void listen_on(void *context) {
    listener *self = context;
    uint64_t count;
    atomic_fetch_add(&self->ran, 1);
    if (!self->deaf && read(self->fd, &count, sizeof count) == sizeof count)
        atomic_fetch_add(&self->heard, (int)count);
}

static void open_listener(listener *self, mr_executor *executor) {
    self->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(self->fd >= 0);
    mr_task_init(&self->task, executor, listen_on, self);
}

static void ring_bell(const listener *self) {
    const uint64_t one = 1;
    assert_int_equal(write(self->fd, &one, sizeof one), sizeof one);
}

static void keep_busy(void *context) {
    counter *self = context;
    if (!atomic_load(&self->wanted))
        mr_task_wake(&self->task);
    atomic_fetch_add(&self->seen, 1);
}

/* Both sleeping workers and busy ones, kept busy by a task that wakes itself, notice it. Timers also fire. */
TEST(watched_descriptors_wake_their_tasks) {
    for (int turn = 0; turn < 4; turn++) {
        const bool busy = turn % 2;
        mr_executor *executor = make(1 + turn / 2, 0);
        listener ears[2] = {{.fd = -1}, {.fd = -1}};
        counter worker[2] = {{.wanted = 0}};
        alarm_task clock = {.due_ns = mr_executor_now_ns(executor) + 20000000};
        for (int i = 0; i < 2; i++) {
            open_listener(&ears[i], executor);
            assert_int_equal(mr_task_watch(&ears[i].task, ears[i].fd), MR_OK);
            mr_task_init(&worker[i].task, executor, keep_busy, &worker[i]);
            if (busy)
                mr_task_wake(&worker[i].task);
        }
        mr_task_init(&clock.task, executor, ring, &clock);
        mr_task_wake_at(&clock.task, clock.due_ns);
        for (int i = 0; i < RINGS; i++) {
            ring_bell(&ears[i % 2]);
            if (i % 100 == 0)
                sleep_ms(1);
        }
        await_count(&ears[0].heard, RINGS / 2);
        await_count(&ears[1].heard, RINGS / 2);
        await_alarm(&clock);
        assert_true(atomic_load(&clock.rang_ns) >= clock.due_ns);
        for (int i = 0; i < 2; i++) {
            atomic_store(&worker[i].wanted, 1);
            mr_task_unwatch(&ears[i].task);
            close(ears[i].fd);
        }
        destroy(executor, NULL);
    }
}

/* A descriptor that stays readable wakes the task only when there is more to read. */
TEST(each_ring_is_heard_once) {
    for (int workers = 1; workers <= 3; workers++) {
        mr_executor *executor = make(workers, 0);
        listener deaf = {.deaf = true}, other = {.fd = -1};
        open_listener(&deaf, executor);
        open_listener(&other, executor);
        assert_int_equal(mr_task_watch(&deaf.task, deaf.fd), MR_OK);
        assert_int_equal(mr_task_watch(&other.task, other.fd), MR_OK);
        for (int turn = 1; turn <= 50; turn++) {
            ring_bell(&deaf);
            await_count(&deaf.ran, turn);
            ring_bell(&other);
            await_count(&other.heard, turn);
            assert_int_equal(atomic_load(&deaf.ran), turn);
        }
        mr_task_unwatch(&deaf.task);
        ring_bell(&deaf);
        ring_bell(&other);
        await_count(&other.heard, 51);
        assert_int_equal(atomic_load(&deaf.ran), 50);
        destroy(executor, NULL);
        close(deaf.fd);
        close(other.fd);
    }
}

/* ---- one at work, others there ---- */
typedef struct worker_at_work {
    mr_task task;
    listener ear;
    alarm_task clock;
    bool heard, rang; /* before it had finished */
} worker_at_work;

static bool await(atomic_int *count, int wanted) {
    for (int i = 0; i < 12000 && atomic_load(count) < wanted; i++)
        sleep_ms(5);
    return atomic_load(count) >= wanted;
}

/* Keeps the worker busy until others have noticed the bell and the alarm, for at most a minute each. */
static void work_long(void *context) {
    worker_at_work *self = context;
    const int heard = atomic_load(&self->ear.heard);
    ring_bell(&self->ear);
    self->heard = await(&self->ear.heard, heard + 1);
    self->clock.due_ns = mr_executor_now_ns(self->task.executor) + 3000000;
    mr_task_wake_at(&self->clock.task, self->clock.due_ns);
    for (int i = 0; i < 12000 && atomic_load(&self->clock.rang_ns) < self->clock.due_ns; i++)
        sleep_ms(5);
    self->rang = atomic_load(&self->clock.rang_ns) >= self->clock.due_ns;
    atomic_fetch_add(&self->ear.ran, 1000);
}

/* A worker that finds work while others are idle leaves bells and timers to them. */
TEST(others_hear_while_one_works) {
    for (int workers = 2; workers <= 4; workers++) {
        mr_executor *executor = make(workers, 0);
        worker_at_work one = {.ear = {.fd = -1}};
        open_listener(&one.ear, executor);
        mr_task_init(&one.task, executor, work_long, &one);
        mr_task_init(&one.clock.task, executor, ring, &one.clock);
        assert_int_equal(mr_task_watch(&one.ear.task, one.ear.fd), MR_OK);
        for (int turn = 0; turn < 5; turn++) {
            one.heard = one.rang = false;
            atomic_store(&one.ear.ran, 0);
            atomic_store(&one.clock.rang_ns, 0);
            mr_task_wake(&one.task);
            assert_true(await(&one.ear.ran, 1000));
            assert_true(one.heard && one.rang);
        }
        mr_task_unwatch(&one.ear.task);
        destroy(executor, NULL);
        close(one.ear.fd);
    }
}

/* What a task woke, in run order. */
typedef struct aftermath {
    mr_task first, second, behind;
    bool quietly;
    atomic_int next_letter, count;
    char order[5];
} aftermath;

static void note(aftermath *self, char letter) {
    self->order[atomic_fetch_add(&self->next_letter, 1)] = letter;
    atomic_fetch_add(&self->count, 1);
}

static void run_first(void *context) {
    aftermath *self = context;
    note(self, 'a');
    mr_task_wake_behind(&self->behind, self->quietly);
    mr_task_wake(&self->second);
}

static void run_second(void *context) {
    note(context, 'b');
}

static void run_behind(void *context) {
    note(context, 'c');
}

TEST(what_has_time_runs_behind) {
    for (int turn = 0; turn < 4; turn++) {
        const int workers = 1 + turn / 2;
        mr_executor *executor = make(workers, 0);
        aftermath self = {.quietly = turn % 2};
        mr_task_init(&self.first, executor, run_first, &self);
        mr_task_init(&self.second, executor, run_second, &self);
        mr_task_init(&self.behind, executor, run_behind, &self);
        mr_task_wake(&self.first);
        await_count(&self.count, 3);
        if (workers == 1)
            assert_string_equal(self.order, "abc");
        mr_task_wake_behind(&self.behind, self.quietly);
        await_count(&self.count, 4);
        assert_int_equal(self.order[3], 'c');
        destroy(executor, NULL);
    }
}

TEST(what_cannot_be_watched_is_refused) {
    mr_executor *executor = make(1, 0), *seeded = make(1, 7);
    listener one = {.fd = -1};
    mr_task_init(&one.task, executor, listen_on, &one);
    assert_int_equal(mr_task_watch(&one.task, -1), MR_ERROR_UNAVAILABLE);
    assert_int_equal(mr_task_watch(&one.task, 1000000), MR_ERROR_UNAVAILABLE);
    mr_task_unwatch(&one.task);
    mr_task_init(&one.task, seeded, listen_on, &one);
    assert_int_equal(mr_task_watch(&one.task, 0), MR_ERROR_UNAVAILABLE);
    mr_task_unwatch(&one.task);
    destroy(executor, NULL);
    mr_executor_destroy(&seeded);
}

/* ---- idle workers ---- */
typedef struct holder {
    mr_task task;
    atomic_bool runs, released;
} holder;

static void hold(void *context) {
    holder *self = context;
    atomic_store(&self->runs, true);
    while (!atomic_load(&self->released))
        sched_yield();
}

static bool becomes(mr_executor *executor, bool busy) {
    for (int i = 0; i < 12000 && mr_executor_is_busy(executor) != busy; i++)
        sleep_ms(5);
    return mr_executor_is_busy(executor) == busy;
}

TEST(it_is_busy_while_every_worker_runs_a_task) {
    ENDED_BY(mr_executor_destroy) mr_executor *executor = make(2, 0);
    holder of[2] = {0};
    assert_true(becomes(executor, false));
    for (int i = 0; i < 2; i++) {
        mr_task_init(&of[i].task, executor, hold, &of[i]);
        assert_false(mr_executor_is_busy(executor));
        mr_task_wake(&of[i].task);
        while (!atomic_load(&of[i].runs))
            sleep_ms(1);
        assert_true(becomes(executor, i == 1));
    }
    atomic_store(&of[0].released, true);
    assert_true(becomes(executor, false));
    atomic_store(&of[1].released, true);
    mr_executor_stop(executor);
    for (int i = 0; i < 2; i++)
        mr_task_fini(&of[i].task);
}

/* The only worker waits in epoll. Once woken it does not count as idle, although it has not run yet. */
TEST(a_worker_that_is_woken_is_not_idle) {
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    mr_executor *executor = make(1, 0);
    listener ear = {.fd = pipes[0]};
    mr_task_init(&ear.task, executor, listen_on, &ear);
    assert_int_equal(mr_task_watch(&ear.task, pipes[0]), MR_OK);
    for (int turn = 0; turn < 200; turn++) {
        holder of = {0};
        mr_task_init(&of.task, executor, hold, &of);
        assert_true(becomes(executor, false));
        mr_task_wake(&of.task);
        while (!atomic_load(&of.runs))
            assert_true(mr_executor_is_busy(executor));
        atomic_store(&of.released, true);
        assert_true(becomes(executor, false));
        mr_task_fini(&of.task);
    }
    mr_task_unwatch(&ear.task);
    destroy(executor, &ear.task);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void) {
    static const int64_t polls_ns[] = {0, 1000000, 200000000};
    int failed = 0;
    for (size_t i = 0; i < sizeof polls_ns / sizeof *polls_ns; i++) {
        busy_poll_ns = polls_ns[i];
        failed += run_suite(NULL, NULL);
    }
    return failed;
}
