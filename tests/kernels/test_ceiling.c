/* The work that measures device limits must give results on every device. */
#include <stdlib.h>
#include <string.h>

#include "kernels/ceiling/ceiling.h"
#include "tests/support/on_device.h"
#include "tests/support/suite.h"

enum { COUNT = 4 * 1037 };

static uint32_t words[COUNT] __attribute__((aligned(64)));

static void fill_words(void) {
    uint64_t state = 7;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        words[i] = (uint32_t)(state >> 32);
    }
}

static void check_read(on_device *d) {
    uint32_t sum = 1, wanted = 0;
    for (int i = 0; i < COUNT; i++)
        wanted += words[i];
    mr_read_work work = {on_device_put(d, words, COUNT * sizeof words[0]), on_device_put(d, &sum, sizeof sum), COUNT};
    assert_int_equal(mr_read_enqueue(d->stream, &work), MR_OK);
    on_device_take(d, work.sum, &sum, sizeof sum);
    assert_int_equal(sum, wanted);
    on_device_free(d, (void *)(uintptr_t)work.src);
}

static void check_triad(on_device *d) {
    static float a[COUNT], b[COUNT], dst[COUNT];
    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)(int32_t)words[i];
        b[i] = (float)(words[i] & 0xffff);
    }
    mr_triad_work work = {on_device_put(d, dst, sizeof dst), on_device_put(d, a, sizeof a),
                          on_device_put(d, b, sizeof b), COUNT};
    assert_int_equal(mr_triad_enqueue(d->stream, &work), MR_OK);
    on_device_take(d, work.dst, dst, sizeof dst);
    for (int i = 0; i < COUNT; i++) {
        float wanted = 3.0f * b[i];
        wanted = a[i] + wanted;
        assert_memory_equal(&dst[i], &wanted, sizeof wanted);
    }
    on_device_free(d, (void *)(uintptr_t)work.a);
    on_device_free(d, (void *)(uintptr_t)work.b);
}

static void check_device(on_device *d) {
    fill_words();
    check_read(d);
    check_triad(d);
    assert_int_equal(mr_nothing_enqueue(d->stream), MR_OK);
    on_device_finish(d);
}

PLAIN_TEST(on_the_processors) {
    on_device_test("cpu", check_device);
}

DEVICE_TEST(on_a_device) {
    check_device(d);
}

RUN_TESTS(NULL, NULL)
