/* One suite for every kind of device, then opening by name. test_sim*.c tests what only the simulated device has. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "tests/support/device_work.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

static const char *const kinds[] = {"cpu", "sim:0", "sim:0 manual", "cuda:0"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

typedef struct fixture {
    mr_device *device;
    mr_stream *stream;
    bool manual;
} fixture;

static fixture opened;
static const char *device_kind;

static int open_device(void **state) {
    char name[32];
    snprintf(name, sizeof name, "%s", device_kind);
    char *space = strchr(name, ' ');
    if (space)
        *space = '\0';
    opened = (fixture){.manual = space != NULL};
    int status = mr_device_open(&opened.device, name, 7, opened.manual);
    if (status == MR_ERROR_UNAVAILABLE) {
        print_message("%s\n", mr_message());
        return 0;
    }
    return status ? status : mr_stream_create(opened.device, &opened.stream);
}

static int close_device(void **state) {
    mr_stream_destroy(&opened.stream);
    mr_device_destroy(&opened.device);
    return 0;
}

/* A test that runs with each kind of device, `opened`, that this machine has. */
#define EACH_DEVICE(name)                                                                                             \
    static void on_device_##name(void);                                                                               \
    TEST_WITH(name, open_device, close_device) {                                                                      \
        if (!opened.device)                                                                                           \
            skip();                                                                                                   \
        on_device_##name();                                                                                           \
    }                                                                                                                 \
    static void on_device_##name(void)

static int settle_on(mr_stream *stream) {
    return work_settle(opened.device, opened.manual, stream);
}

/* ---- every device ---------------------------------------------------------------------------------------------- */

EACH_DEVICE(memory_is_given_aligned) {
    for (mr_memory memory = MR_MEMORY_PINNED; memory <= MR_MEMORY_DEVICE; memory++) {
        void *a = NULL, *b = NULL;
        assert_int_equal(mr_device_allocate(opened.device, memory, 1000, &a), MR_OK);
        assert_int_equal(mr_device_allocate(opened.device, memory, 1000, &b), MR_OK);
        assert_int_equal((uintptr_t)a % 64, 0);
        assert_int_equal((uintptr_t)b % 64, 0);
        assert_ptr_not_equal(a, b);
        if (memory == MR_MEMORY_PINNED)
            memset(a, 1, 1000);
        mr_device_free(opened.device, memory, a);
        mr_device_free(opened.device, memory, b);
    }
}

EACH_DEVICE(work_is_done_in_order) {
    int list[100], count = 0;
    for (int i = 0; i < 100; i++) {
        work_note add = {list, &count, i};
        assert_int_equal(mr_stream_submit(opened.stream, work_add_note, &add, sizeof add), MR_OK);
        add.value = -1; /* The stream has its own copy. */
    }
    assert_int_equal(settle_on(opened.stream), MR_OK);
    assert_int_equal(count, 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(list[i], i);
}

EACH_DEVICE(a_failure_fails_one_event) {
    int wrong = MR_ERROR_DATA, fine = MR_OK;
    bool told_at_once = opened.device->type->kind == MR_DEVICE_CPU;
    assert_int_equal(mr_stream_submit(opened.stream, work_fail_with, &wrong, sizeof wrong),
                     told_at_once ? wrong : MR_OK);
    assert_int_equal(mr_stream_submit(opened.stream, work_fail_with, &fine, sizeof fine), MR_OK);
    assert_int_equal(settle_on(opened.stream), told_at_once ? MR_OK : wrong);
    assert_int_equal(settle_on(opened.stream), MR_OK);
}

EACH_DEVICE(events_tell_once) {
    atomic_int before = 0, after = 0;
    mr_event_wait first = {0}, second = {0};
    mr_event *event;
    mr_stage stage = {.id = "resize"};
    assert_int_equal(mr_event_create(&event, opened.device, &stage), MR_OK);
    assert_false(mr_event_done(event));
    assert_ptr_equal(mr_event_device(event), opened.device);
    assert_ptr_equal(mr_event_stage(event), &stage);
    mr_event_notify(event, &first, work_count_call, &before);
    mr_event_notify(event, &first, work_count_call, &before);
    assert_int_equal(before, 0);
    assert_int_equal(mr_stream_record(opened.stream, event), MR_OK);
    work_finish(opened.device, opened.manual, event);
    for (int i = 0; i < 1200000 && before == 0; i++)
        work_nap();
    assert_int_equal(before, 1);
    mr_event_notify(event, &second, work_count_call, &after);
    assert_int_equal(after, 1);
    mr_event *other = mr_event_ref(event);
    mr_event_unref(&event);
    assert_null(event);
    assert_true(mr_event_done(other));
    mr_event_unref(&other);
    mr_event_unref(&other);
    mr_event_forget(&first);
    mr_event_forget(&second);
}

static mr_event *fresh_event(void) {
    mr_event *event;
    assert_int_equal(mr_event_create(&event, opened.device, NULL), MR_OK);
    return event;
}

EACH_DEVICE(any_number_may_wait_for_an_event) {
    enum { WAITERS = 1000 };
    static mr_event_wait waits[WAITERS];
    atomic_int calls[WAITERS] = {0};
    mr_event *event = fresh_event();
    for (int i = 0; i < WAITERS; i++)
        mr_event_notify(event, &waits[i], work_count_call, &calls[i]);
    mr_event_complete(event, MR_ERROR_DEVICE);
    assert_int_equal(mr_event_status(event), MR_ERROR_DEVICE);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(calls[i], 1);
    mr_event_unref(&event);
    for (int i = 0; i < WAITERS; i++)
        mr_event_forget(&waits[i]);
}

/* The first, the last and one between; one that waits for another event now; and one whose event nobody else holds. */
EACH_DEVICE(who_forgets_an_event_is_not_called) {
    enum { WAITERS = 6 };
    mr_event_wait waits[WAITERS] = {0};
    atomic_int calls[WAITERS] = {0};
    mr_event *event = fresh_event(), *other = fresh_event(), *left = fresh_event();
    for (int i = 0; i < WAITERS; i++)
        mr_event_notify(event, &waits[i], work_count_call, &calls[i]);
    mr_event_forget(&waits[0]);
    mr_event_forget(&waits[2]);
    mr_event_forget(&waits[2]);
    mr_event_forget(&waits[WAITERS - 1]);
    mr_event_notify(other, &waits[3], work_count_call, &calls[3]);
    mr_event_notify(left, &waits[2], work_count_call, &calls[2]);
    mr_event_unref(&left);
    mr_event_notify(event, &waits[0], work_count_call, &calls[0]);
    mr_event_complete(event, MR_OK);
    const int after_one[WAITERS] = {1, 1, 0, 0, 1, 0};
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(calls[i], after_one[i]);
    mr_event_complete(other, MR_OK);
    assert_int_equal(calls[3], 1);
    for (int i = 0; i < WAITERS; i++)
        mr_event_forget(&waits[i]);
    assert_int_equal(calls[2], 0);
    mr_event_unref(&event);
    mr_event_unref(&other);
}

typedef struct follower {
    mr_event *first, *next;
    mr_event_wait *own, *others;
    atomic_int calls;
} follower;

/* Reuses the place at once, and removes a later one from the list. */
static void follow(void *context) {
    follower *self = context;
    if (atomic_fetch_add(&self->calls, 1))
        return;
    mr_event_notify(self->next, self->own, follow, self);
    mr_event_forget(self->others);
    mr_event_unref(&self->first);
}

EACH_DEVICE(waiters_may_change_the_list_that_they_are_called_from) {
    mr_event_wait own = {0}, others = {0}, last = {0};
    atomic_int forgotten = 0, stays = 0;
    follower self = {.first = fresh_event(), .next = fresh_event(), .own = &own, .others = &others};
    mr_event *first = self.first;
    mr_event_notify(first, &own, follow, &self);
    mr_event_notify(first, &others, work_count_call, &forgotten);
    mr_event_notify(first, &last, work_count_call, &stays);
    mr_event_complete(first, MR_OK);
    assert_null(self.first);
    assert_int_equal(self.calls, 1);
    assert_int_equal(forgotten, 0);
    assert_int_equal(stays, 1);
    mr_event_complete(self.next, MR_OK);
    assert_int_equal(self.calls, 2);
    mr_event_forget(&own);
    mr_event_forget(&last);
    mr_event_unref(&self.next);
}

typedef struct asker {
    mr_event *event;
    mr_event_wait *behind;
    atomic_int *calls;
} asker;

static void ask_again(void *context) {
    const asker *self = context;
    mr_event_notify(self->event, self->behind, work_count_call, self->calls);
}

/* The event is done, but has not come to this place yet: it is called at once, and is free to wait for another
 * event. */
EACH_DEVICE(a_place_may_be_asked_for_again_before_it_is_told) {
    atomic_int calls = 0;
    mr_event_wait first = {0}, behind = {0};
    ENDED_BY(mr_event_unref) mr_event *event = fresh_event(), *other = fresh_event();
    asker self = {.event = event, .behind = &behind, .calls = &calls};
    mr_event_notify(event, &first, ask_again, &self);
    mr_event_notify(event, &behind, work_count_call, &calls);
    mr_event_complete(event, MR_OK);
    assert_int_equal(calls, 1);
    mr_event_notify(other, &behind, work_count_call, &calls);
    assert_int_equal(calls, 1);
    mr_event_complete(other, MR_OK);
    assert_int_equal(calls, 2);
    mr_event_forget(&first);
    mr_event_forget(&behind);
}

enum { CROWD = 4, PLACES = 50, TURNS = 100 };
typedef struct crowd {
    pthread_t thread;
    mr_event *event; /* of this round */
    mr_event_wait waits[PLACES];
    atomic_int calls[PLACES];
} crowd;

/* Places that waited for earlier rounds' events now wait for this one. One in three cancels, and one asks twice; the
 * event may be done by then. */
static void *come_and_go(void *context) {
    crowd *self = context;
    for (int i = 0; i < PLACES; i++)
        mr_event_notify(self->event, &self->waits[i], work_count_call, &self->calls[i]);
    for (int i = 0; i < PLACES; i++) {
        if (i % 3 == 0)
            mr_event_forget(&self->waits[i]);
        if (i % 3 == 1)
            mr_event_notify(self->event, &self->waits[i], work_count_call, &self->calls[i]);
    }
    return NULL;
}

EACH_DEVICE(waiters_come_and_go_while_an_event_is_told) {
    static crowd crowds[CROWD];
    for (int round = 0; round < TURNS; round++) {
        mr_event *event = fresh_event();
        for (int c = 0; c < CROWD; c++) {
            crowds[c].event = event;
            assert_int_equal(pthread_create(&crowds[c].thread, NULL, come_and_go, &crowds[c]), 0);
        }
        if (round % 2)
            work_nap();
        mr_event_complete(event, MR_OK);
        for (int c = 0; c < CROWD; c++)
            pthread_join(crowds[c].thread, NULL);
        mr_event_unref(&event);
        for (int i = 0; i < CROWD * PLACES; i++) {
            atomic_int *calls = &crowds[i / PLACES].calls[i % PLACES];
            const int kind = i % PLACES % 3;
            assert_in_range(*calls, kind != 0, 1 + (kind == 1));
            atomic_store(calls, 0);
        }
    }
    for (int i = 0; i < CROWD * PLACES; i++)
        mr_event_forget(&crowds[i / PLACES].waits[i % PLACES]);
}

/* Work on `first`, an event, and then work on `second`; returns the status recorded there. */
static int chain(mr_stream *first, mr_stream *second, int *list, int *count, int status) {
    mr_event *between;
    work_note one = {list, count, 1}, two = {list, count, 2};
    assert_int_equal(mr_event_create(&between, opened.device, NULL), MR_OK);
    assert_int_equal(mr_stream_submit(first, work_add_note, &one, sizeof one), MR_OK);
    if (status)
        mr_event_complete(between, status);
    else
        assert_int_equal(mr_stream_record(first, between), MR_OK);
    assert_int_equal(mr_stream_wait(second, between), MR_OK);
    assert_int_equal(mr_stream_submit(second, work_add_note, &two, sizeof two), MR_OK);
    mr_event_unref(&between);
    return settle_on(second);
}

EACH_DEVICE(a_stream_waits_for_another) {
    ENDED_BY(mr_stream_destroy) mr_stream *second;
    assert_int_equal(mr_stream_create(opened.device, &second), MR_OK);
    for (int round = 0; round < 50; round++) {
        int list[2] = {0}, count = 0;
        assert_int_equal(chain(opened.stream, second, list, &count, MR_OK), MR_OK);
        assert_int_equal(count, 2);
        assert_int_equal(list[0], 1);
        assert_int_equal(list[1], 2);
    }
}

EACH_DEVICE(a_failed_event_fails_who_waits_for_it) {
    ENDED_BY(mr_stream_destroy) mr_stream *second;
    int list[4], count = 0;
    assert_int_equal(mr_stream_create(opened.device, &second), MR_OK);
    assert_int_equal(chain(second, second, list, &count, MR_ERROR_DATA), MR_ERROR_DATA);
    assert_int_equal(settle_on(second), MR_OK);
}

EACH_DEVICE(destroying_a_stream_finishes_its_work) {
    ENDED_BY(mr_stream_destroy) mr_stream *stream;
    int list[20], count = 0;
    assert_int_equal(mr_stream_create(opened.device, &stream), MR_OK);
    for (int i = 0; i < 20; i++) {
        work_note add = {list, &count, i};
        assert_int_equal(mr_stream_submit(stream, work_add_note, &add, sizeof add), MR_OK);
    }
    mr_stream_destroy(&stream);
    assert_null(stream);
    assert_int_equal(count, 20);
}

EACH_DEVICE(too_many_arguments_are_refused) {
    char many[MR_WORK_BYTES + 1] = {0};
    assert_int_equal(mr_stream_submit(opened.stream, work_fail_with, many, sizeof many), MR_ERROR_INTERNAL);
    assert_int_equal(mr_stream_submit(opened.stream, work_fail_with, many, MR_WORK_BYTES), MR_OK);
    assert_int_equal(settle_on(opened.stream), MR_OK);
}

/* A device's threads release finished work when they reach it, so a later chain may find less to reuse than an earlier
 * one. Allocations are bounded by the work in flight, however many rounds run. */
EACH_DEVICE(what_is_allocated_is_used_again) {
    enum { ROUNDS = 200, CHAIN_PARTS = 7 }; /* Two events; two pieces of work, two records and a wait. */
    int list[2], count = 0;
    ENDED_BY(mr_stream_destroy) mr_stream *second;
    assert_int_equal(mr_stream_create(opened.device, &second), MR_OK);
    assert_int_equal(chain(opened.stream, second, list, &count, MR_OK), MR_OK);
    uint64_t before = mr_allocation_count();
    for (int i = 0; i < ROUNDS; i++) {
        count = 0;
        assert_int_equal(chain(opened.stream, second, list, &count, MR_OK), MR_OK);
    }
    assert_in_range(mr_allocation_count() - before, 0, 2 * CHAIN_PARTS);
}

/* ---- several threads ------------------------------------------------------------------------------------------- */

typedef struct worker {
    mr_device *device;
    pthread_t thread;
    const char *wrong;
} worker;

static const char *use_streams(mr_device *device, mr_stream *a, mr_stream *b) {
    int sum = 0;
    int *target = &sum;
    for (int round = 0; round < 30; round++) {
        mr_event *half, *whole;
        if (mr_event_create(&half, device, NULL) || mr_event_create(&whole, device, NULL))
            return "no event";
        mr_stream_submit(a, work_add_one, &target, sizeof target);
        mr_stream_record(a, half);
        mr_stream_wait(b, half);
        mr_stream_submit(b, work_add_one, &target, sizeof target);
        mr_stream_record(b, whole);
        for (int i = 0; i < 1200000 && !mr_event_done(whole); i++)
            work_nap();
        if (!mr_event_done(whole) || mr_event_status(whole) || sum != 2 * (round + 1))
            return "work was lost";
        mr_event_unref(&half);
        mr_event_unref(&whole);
    }
    return NULL;
}

static void *use_device(void *context) {
    worker *self = context;
    mr_stream *a = NULL, *b = NULL;
    if (mr_stream_create(self->device, &a) || mr_stream_create(self->device, &b))
        self->wrong = "no stream";
    else
        self->wrong = use_streams(self->device, a, b);
    mr_stream_destroy(&a);
    mr_stream_destroy(&b);
    return NULL;
}

EACH_DEVICE(threads_use_streams_of_their_own) {
    /* A manual device has one driver. */
    if (opened.manual)
        skip();
    worker workers[MOST_WORKERS];
    EACH_WORKER_COUNT(count) {
        for (int i = 0; i < count; i++) {
            workers[i] = (worker){.device = opened.device};
            assert_int_equal(pthread_create(&workers[i].thread, NULL, use_device, &workers[i]), 0);
        }
        for (int i = 0; i < count; i++) {
            pthread_join(workers[i].thread, NULL);
            assert_null(workers[i].wrong);
        }
    }
}

/* ---- by name --------------------------------------------------------------------------------------------------- */

TEST(devices_open_by_name) {
    static const char *const names[][2] = {
        {"cpu", "cpu"}, {"sim", "sim:0"}, {"sim:3", "sim:3"}, {"sim:1?fail_every=7&max_delay=2000000", "sim:1"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        mr_device *device;
        assert_int_equal(mr_device_open(&device, names[i][0], 0, true), MR_OK);
        assert_string_equal(device->name, names[i][1]);
        mr_device_destroy(&device);
        assert_null(device);
    }
    mr_device *cpu = mr_device_cpu();
    mr_device_destroy(&cpu);
    assert_string_equal(mr_device_cpu()->name, "cpu");
}

TEST(other_names_are_refused) {
    static const char *const names[] = {"",        "gpu",     "cpu:0",  "CUDA:0",        "cuda:",        "cuda:-1",
                                        "cuda:x",
                                        "cuda:0x", "sim: 1",  "sim:+1", "sim:1?",        "sim:1?speed=1", "sims",
                                        "sim:1024", "sim:0?fail_every=", "sim:0?fail_every=1,2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        mr_device *device = mr_device_cpu();
        mr_fail(MR_OK, "%s", "");
        assert_int_equal(mr_device_open(&device, names[i], 0, true), MR_ERROR_CONFIG);
        assert_null(device);
        assert_string_not_equal(mr_message(), "");
    }
}

int main(void) {
    int failed = 0;
    for (size_t i = 0; i < KINDS; i++) {
        device_kind = kinds[i];
        print_message("%s:\n", device_kind);
        failed += run_suite(NULL, NULL);
    }
    return failed;
}
