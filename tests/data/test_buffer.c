#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/huge/huge_heap.h"
#include "engine/base/memory.h"
#include "engine/data/pixel_heap.h"
#include "engine/data/pool.h"
#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/device/sim/sim.h"
#include "tests/base/huge/huge_mappings.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"

static void count_call(void *context) {
    atomic_fetch_add((atomic_int *)context, 1);
}

static mr_pool *pool_of(size_t bytes, int count) {
    mr_pool *pool;
    assert_int_equal(mr_pool_create(&pool, mr_device_cpu(), MR_MEMORY_HOST, bytes, count), MR_OK);
    return pool;
}

static mr_buffer *acquire(mr_pool *pool) {
    mr_buffer *buffer = NULL;
    assert_int_equal(mr_pool_acquire(pool, &buffer), MR_OK);
    return buffer;
}

TEST(a_pool_gives_what_it_has_and_no_more) {
    mr_pool *pool = pool_of(1000, 2);
    mr_buffer *a, *b, *c = NULL;
    assert_int_equal(mr_pool_free_count(pool), 2);
    assert_int_equal(mr_pool_buffer_bytes(pool), 1000);
    a = acquire(pool);
    b = acquire(pool);
    assert_ptr_not_equal(a->data, b->data);
    assert_int_equal((uintptr_t)a->data % 64, 0);
    assert_int_equal((uintptr_t)b->data % 64, 0);
    assert_int_equal(a->bytes, 1000);
    assert_int_equal(a->memory, MR_MEMORY_HOST);
    assert_null(a->device);
    memset(a->data, 1, a->bytes);
    memset(b->data, 2, b->bytes);
    assert_int_equal(mr_pool_acquire(pool, &c), MR_ERROR_AGAIN);
    assert_null(c);
    assert_int_equal(mr_pool_free_count(pool), 0);
    mr_buffer *again = mr_buffer_ref(a);
    mr_buffer_unref(&a);
    assert_null(a);
    assert_int_equal(mr_pool_free_count(pool), 0);
    mr_buffer_unref(&again);
    assert_int_equal(mr_pool_free_count(pool), 1);
    mr_buffer_unref(&b);
    mr_buffer_unref(&b);
    assert_int_equal(mr_pool_free_count(pool), 2);
    mr_pool_release(&pool);
    assert_null(pool);
}

static mr_buffer *acquire_bytes(mr_pool *pool, size_t bytes) {
    mr_buffer *buffer = NULL;
    assert_int_equal(mr_pool_acquire_bytes(pool, bytes, &buffer), MR_OK);
    assert_true(buffer->bytes >= bytes);
    return buffer;
}

/* Sizes are mixed; all together stay within 2000 bytes, and what is free makes room. */
TEST(a_bounded_pool_never_takes_more_bytes) {
    ENDED_BY(mr_pool_release) mr_pool *pool;
    mr_buffer *none = NULL;
    atomic_int room = 0;
    mr_pool_wait wait = {0};
    assert_int_equal(mr_pool_create_bounded(&pool, mr_device_cpu(), MR_MEMORY_HOST, 1000, 10, 2000), MR_OK);
    assert_int_equal(mr_pool_free_count(pool), 2);
    mr_buffer *large = acquire_bytes(pool, 1000), *small = acquire_bytes(pool, 100), *other = acquire_bytes(pool, 900);
    assert_int_equal(mr_pool_free_count(pool), 0);
    assert_int_equal(mr_pool_acquire_bytes(pool, 1, &none), MR_ERROR_AGAIN);
    /* 100 free bytes are no room for the largest. */
    mr_pool_notify(pool, 1, &wait, count_call, &room);
    mr_buffer_unref(&small);
    assert_int_equal(room, 0);
    assert_int_equal(mr_pool_acquire_bytes(pool, 101, &none), MR_ERROR_AGAIN);
    mr_buffer_unref(&other);
    assert_int_equal(room, 1);
    assert_int_equal(mr_pool_free_count(pool), 1);
    /* The 900 bytes are reused, but not for a far smaller request: then that buffer is freed. */
    mr_buffer *again = acquire_bytes(pool, 300);
    assert_int_equal(again->bytes, 900);
    mr_buffer_unref(&again);
    again = acquire_bytes(pool, 200);
    assert_int_equal(again->bytes, 200);
    mr_buffer_unref(&again);
    mr_buffer_unref(&large);
    large = acquire_bytes(pool, 1000);
    other = acquire_bytes(pool, 1000);
    assert_int_equal(mr_pool_acquire_bytes(pool, 1, &none), MR_ERROR_AGAIN);
    mr_buffer_unref(&large);
    mr_buffer_unref(&other);
    mr_pool_forget(&wait);
}

TEST(a_pool_may_be_widened) {
    ENDED_BY(mr_pool_release) mr_pool *pool;
    mr_buffer *none = NULL;
    assert_int_equal(mr_pool_create_bounded(&pool, mr_device_cpu(), MR_MEMORY_HOST, 100, 4, 400), MR_OK);
    ENDED_BY(mr_buffer_unref) mr_buffer *small = acquire(pool);
    mr_pool_widen(pool, 250, 0);
    assert_int_equal(mr_pool_buffer_bytes(pool), 250);
    assert_int_equal(mr_pool_free_count(pool), 1);
    ENDED_BY(mr_buffer_unref) mr_buffer *large = acquire(pool);
    assert_int_equal(large->bytes, 250);
    assert_int_equal(mr_pool_acquire(pool, &none), MR_ERROR_AGAIN);
    mr_pool_widen(pool, 250, 600);
    ENDED_BY(mr_buffer_unref) mr_buffer *more = acquire(pool);
    assert_int_equal(mr_pool_free_count(pool), 0);
}

/* Whatever is taken and given back, what the device counts stays within the bound. */
TEST(what_is_counted_stays_within_the_bound) {
    enum { HELD = 16, MOST = 5000 };
    ENDED_BY(mr_pool_release) mr_pool *pool;
    mr_buffer *held[HELD] = {0};
    ENDED_BY(mr_device_destroy) mr_device *device = NULL;
    uint64_t random = 7;
    assert_int_equal(mr_device_open(&device, "sim:0", 1, false), MR_OK);
    assert_int_equal(mr_pool_create_bounded(&pool, device, MR_MEMORY_PINNED, 1000, HELD, MOST), MR_OK);
    for (int i = 0; i < 20000; i++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        size_t which = random >> 60, bytes = 1 + (random >> 20) % 1000;
        if (held[which])
            mr_buffer_unref(&held[which]);
        else
            mr_pool_acquire_bytes(pool, bytes, &held[which]);
    }
    uint64_t most = mr_device_most_bytes(device, MR_MEMORY_PINNED);
    assert_true(most <= MOST);
    assert_true(most > MOST / 2);
    for (int i = 0; i < HELD; i++)
        mr_buffer_unref(&held[i]);
}

TEST(buffers_outlive_the_release_of_their_pool) {
    mr_pool *pool = pool_of(64, 2);
    mr_buffer *a = acquire(pool), *b = acquire(pool);
    mr_pool_release(&pool);
    memset(a->data, 7, 64);
    mr_buffer_unref(&a);
    memset(b->data, 7, 64);
    mr_buffer_unref(&b);
}

TEST(a_waiter_is_called_once_when_enough_came_back) {
    ENDED_BY(mr_pool_release) mr_pool *pool = pool_of(64, 2);
    atomic_int one = 0, two = 0;
    mr_pool_wait first = {0}, second = {0};
    mr_pool_notify(pool, 2, &second, count_call, &two);
    assert_int_equal(two, 1);
    mr_buffer *a = acquire(pool), *b = acquire(pool);
    mr_pool_notify(pool, 1, &first, count_call, &one);
    mr_pool_notify(pool, 2, &second, count_call, &two);
    assert_int_equal(one, 0);
    mr_buffer_unref(&a);
    assert_int_equal(one, 1);
    assert_int_equal(two, 1);
    mr_buffer_unref(&b);
    assert_int_equal(one, 1);
    assert_int_equal(two, 2);
    mr_pool_forget(&first);
    mr_pool_forget(&second);
}

TEST(any_number_may_wait_for_a_pool) {
    enum { WAITERS = 1000 };
    static mr_pool_wait waits[WAITERS];
    static atomic_int calls[WAITERS];
    ENDED_BY(mr_pool_release) mr_pool *pool = pool_of(64, 1);
    mr_buffer *a = acquire(pool);
    for (int i = 0; i < WAITERS; i++)
        mr_pool_notify(pool, 1, &waits[i], count_call, &calls[i]);
    mr_pool_notify(pool, 1, &waits[0], count_call, &calls[0]);
    mr_buffer_unref(&a);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(calls[i], 1);
    for (int i = 0; i < WAITERS; i++)
        mr_pool_forget(&waits[i]);
}

/* Also with another pool's waiter, and after the pool is released: the last waiter frees it. */
TEST(who_forgets_a_pool_is_not_called) {
    mr_pool *pool = pool_of(64, 1), *other = pool_of(64, 1);
    atomic_int gone = 0, moved = 0, stays = 0;
    mr_pool_wait first = {0}, second = {0}, third = {0};
    mr_buffer *a = acquire(pool), *b = acquire(other);
    mr_pool_notify(pool, 1, &first, count_call, &gone);
    mr_pool_notify(pool, 1, &second, count_call, &moved);
    mr_pool_notify(pool, 1, &third, count_call, &stays);
    mr_pool_forget(&first);
    mr_pool_forget(&first);
    mr_pool_notify(other, 1, &second, count_call, &moved);
    mr_pool_release(&pool);
    mr_buffer_unref(&a);
    assert_int_equal(gone, 0);
    assert_int_equal(moved, 0);
    assert_int_equal(stays, 1);
    mr_buffer_unref(&b);
    assert_int_equal(moved, 1);
    mr_pool_forget(&second);
    mr_pool_forget(&third);
    mr_pool_release(&other);
}

TEST(an_allocation_that_fails_leaves_the_pool_usable) {
    ENDED_BY(mr_pool_release) mr_pool *pool;
    ENDED_BY(mr_device_destroy) mr_device *device;
    ENDED_BY(mr_buffer_unref) mr_buffer *buffer = NULL;
    mr_sim_params params = {.manual = true, .fail_allocation = 1};
    assert_int_equal(mr_sim_create(&device, &params), MR_OK);
    assert_int_equal(mr_pool_create(&pool, device, MR_MEMORY_DEVICE, 256, 1), MR_OK);
    assert_int_equal(mr_pool_acquire(pool, &buffer), MR_ERROR_MEMORY);
    assert_null(buffer);
    assert_int_equal(mr_pool_free_count(pool), 1);
    buffer = acquire(pool);
    assert_ptr_equal(buffer->device, device);
    assert_int_equal(buffer->memory, MR_MEMORY_DEVICE);
}

/* Plain memory replaces pinned memory that fails. If the host has none either, the message is about the host. */
TEST(the_host_is_named_if_it_has_no_memory) {
#ifdef SANITIZED
    skip(); /* sanitizers end the process */
#endif
    ENDED_BY(mr_pool_release) mr_pool *pool;
    ENDED_BY(mr_device_destroy) mr_device *device;
    mr_buffer *buffer = NULL;
    const size_t bytes = (size_t)1 << 60;
    const mr_sim_params params = {.manual = true, .fail_allocation = 1};
    assert_int_equal(mr_sim_create(&device, &params), MR_OK);
    assert_int_equal(mr_pool_create(&pool, device, MR_MEMORY_PINNED, bytes, 1), MR_OK);
    assert_int_equal(mr_pool_acquire(pool, &buffer), MR_ERROR_MEMORY);
    assert_string_equal(mr_message(), "cpu: no memory for 1152921504606846976 bytes");
}

/* The device has limited memory: the pool makes as many buffers as fit, and reports how many. */
TEST(a_pool_that_was_filled_allocates_no_more) {
    ENDED_BY(mr_device_destroy) mr_device *device;
    const mr_sim_params params = {.manual = true, .memory_bytes = 1000};
    assert_int_equal(mr_sim_create(&device, &params), MR_OK);
    for (int count = 3; count <= 4; count++) {
        ENDED_BY(mr_pool_release) mr_pool *pool;
        mr_buffer *taken[4] = {0};
        int made = -1;
        assert_int_equal(mr_pool_create(&pool, device, MR_MEMORY_DEVICE, 256, count), MR_OK);
        assert_int_equal(mr_pool_fill(pool, &made), count == 3 ? MR_OK : MR_ERROR_MEMORY);
        assert_int_equal(made, 3);
        assert_int_equal(mr_pool_free_count(pool), count);
        int64_t calls = mr_sim_calls(device);
        for (int i = 0; i < 3; i++)
            taken[i] = acquire(pool);
        assert_int_equal(mr_sim_calls(device), calls);
        assert_int_equal(mr_pool_acquire(pool, &taken[3]), count == 3 ? MR_ERROR_AGAIN : MR_ERROR_MEMORY);
        for (int i = 0; i < 3; i++)
            mr_buffer_unref(&taken[i]);
        assert_int_equal(mr_device_most_bytes(device, MR_MEMORY_DEVICE), 3 * 256);
    }
}

/* Large buffers of all pools share huge pages, which hold little else, and go when the pools do. */
TEST(large_buffers_are_in_huge_pages) {
    enum { COUNT = 20 };
    static const size_t sizes[] = {700 << 10, 1200 << 10, 5 << 20};
    mr_pool *pool[3];
    mr_buffer *buffer[3][COUNT];
    uint64_t resident, used = 0;
    skip_emulated("it ignores the advice to use huge pages");
    if (!mr_huge_pages_given())
        skip();
    for (int i = 0; i < 3; i++) {
        pool[i] = pool_of(sizes[i], COUNT);
        for (int j = 0; j < COUNT; j++) {
            buffer[i][j] = acquire(pool[i]);
            memset(buffer[i][j]->data, j + 1, sizes[i]);
            used += sizes[i];
        }
    }
    assert_true(huge_mappings(&resident) > 0);
    assert_in_range(resident, used, used + used / 8 + MR_HUGE_PAGE);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < COUNT; j++) {
            assert_int_equal(buffer[i][j]->data[0], j + 1);
            assert_int_equal(buffer[i][j]->data[sizes[i] - 1], j + 1);
            mr_buffer_unref(&buffer[i][j]);
        }
    for (int i = 0; i < 3; i++)
        mr_pool_release(&pool[i]);
    assert_int_equal(huge_mappings(NULL), 0);
}

/* One pool still has a buffer in the region when another, which had the rest, goes. */
TEST(a_pool_that_goes_leaves_no_pages) {
    enum { COUNT = 49, BYTES = 300 << 10 };
    mr_pool *staying = pool_of(BYTES, 1), *going = pool_of(BYTES, COUNT);
    mr_buffer *buffer[COUNT], *left = NULL;
    uint64_t resident;
    if (mr_huge_pages_given())
        left = acquire(staying);
    for (int i = 0; left && i < COUNT; i++) {
        buffer[i] = acquire(going);
        memset(buffer[i]->data, i, BYTES);
    }
    for (int i = 0; left && i < COUNT; i++)
        mr_buffer_unref(&buffer[i]);
    mr_pool_release(&going);
    if (left) {
        memset(left->data, 1, BYTES);
        huge_mappings(&resident);
        assert_in_range(resident, BYTES, 3 * MR_HUGE_PAGE);
        mr_buffer_unref(&left);
    }
    mr_pool_release(&staying);
}

TEST(small_buffers_are_not) {
    skip_emulated("some of its own memory is in huge pages");
    mr_pool *pool = pool_of(MR_PIXEL_HEAP_LEAST - 1, 2);
    mr_buffer *buffer = acquire(pool);
    assert_int_equal(huge_mappings(NULL), 0);
    mr_buffer_unref(&buffer);
    mr_pool_release(&pool);
}

TEST(foreign_memory_is_released_once) {
    uint8_t data[16];
    atomic_int released = 0;
    mr_buffer *a = mr_buffer_wrap(data, sizeof data, count_call, &released);
    assert_non_null(a);
    assert_ptr_equal(a->data, data);
    assert_int_equal(a->bytes, sizeof data);
    ENDED_BY(mr_buffer_unref) mr_buffer *b = mr_buffer_ref(a);
    mr_buffer_unref(&a);
    assert_int_equal(released, 0);
    mr_buffer_unref(&b);
    assert_int_equal(released, 1);
    b = mr_buffer_wrap(data, 3, NULL, NULL);
}

static void use_once(mr_pool *pool) {
    uint8_t data[8];
    atomic_int released = 0;
    mr_buffer *a = acquire(pool), *b = mr_buffer_wrap(data, sizeof data, count_call, &released);
    atomic_int called = 0;
    mr_pool_wait wait = {0};
    mr_pool_notify(pool, 4, &wait, count_call, &called);
    mr_buffer_unref(&b);
    mr_buffer_unref(&a);
    assert_int_equal(called, 1);
    mr_pool_forget(&wait);
}

TEST(nothing_is_allocated_in_steady_state) {
    ENDED_BY(mr_pool_release) mr_pool *pool = pool_of(64, 4);
    use_once(pool);
    uint64_t before = mr_allocation_count();
    for (int i = 0; i < 10000; i++)
        use_once(pool);
    assert_int_equal(mr_allocation_count() - before, 0);
}

static void free_media(mr_media *media) {
    free(media);
}

TEST(media_live_while_they_are_referred_to) {
    mr_media *media = calloc(1, sizeof *media);
    assert_non_null(media);
    media->references = 1;
    media->release = free_media;
    ENDED_BY(mr_media_unref) mr_media *other = mr_media_ref(media);
    mr_media_unref(&media);
    assert_null(media);
    assert_int_equal(other->references, 1);
    mr_media_unref(&other);
}

/* ---- several threads ------------------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 5000, BUFFERS = 3 };

static void *take_and_give(void *context) {
    mr_pool *pool = context;
    for (int taken = 0; taken < ROUNDS;) {
        mr_buffer *buffer = NULL;
        if (mr_pool_acquire(pool, &buffer) == MR_ERROR_AGAIN) {
            sched_yield();
            continue;
        }
        /* Nobody else holds it: what is written now is what is read. */
        memset(buffer->data, taken & 255, 64);
        mr_buffer *other = mr_buffer_ref(buffer);
        mr_buffer_unref(&buffer);
        if (other->data[0] != (taken & 255) || other->data[63] != (taken & 255))
            return "a buffer was given to two";
        mr_buffer_unref(&other);
        taken++;
    }
    return NULL;
}

TEST(threads_share_a_pool) {
    ENDED_BY(mr_pool_release) mr_pool *pool = pool_of(64, BUFFERS);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, pool), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(mr_pool_free_count(pool), BUFFERS);
}

static void *give_back(void *buffer) {
    mr_buffer *mine = buffer;
    mr_buffer_unref(&mine);
    return NULL;
}

TEST(a_pool_may_be_released_while_others_give_back) {
    for (int round = 0; round < 200; round++) {
        mr_pool *pool = pool_of(64, 2);
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, give_back, acquire(pool)), 0);
        mr_pool_release(&pool);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
    }
}

RUN_TESTS(NULL, NULL)
