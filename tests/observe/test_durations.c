/* Histograms: each duration lies between the public bucket's bounds; sums, percentiles, several threads. */
#include <pthread.h>

#include "engine/observe/histogram.h"
#include "tests/support/suite.h"

static mr_durations published(const mr_histogram *from) {
    mr_histogram_sums sums = {0};
    mr_durations durations;
    mr_histogram_sum(from, &sums);
    mr_histogram_publish(&sums, &durations);
    return durations;
}

static int expected_bucket(int64_t duration_ns) {
    int at = 0;
    while (at < MR_DURATION_BUCKETS - 1 && duration_ns >= mr_duration_bound_ns(at))
        at++;
    return at;
}

TEST(durations_lie_between_their_bounds) {
    for (int bit = 0; bit < 63; bit++)
        for (int64_t more = -1; more <= 1; more++) {
            mr_histogram histogram = {0};
            const int64_t duration_ns = (INT64_C(1) << bit) + more;
            mr_histogram_add(&histogram, duration_ns);
            mr_durations found = published(&histogram);
            assert_int_equal(found.count, 1);
            assert_int_equal(found.sum_ns, duration_ns);
            if (found.bucket[expected_bucket(duration_ns)] != 1)
                fail_msg("%lld ns", (long long)duration_ns);
        }
}

/* A clock that was set back gives no negative sum. */
TEST(negative_durations_count_as_none) {
    mr_histogram histogram = {0};
    mr_histogram_add(&histogram, -5);
    mr_histogram_add_shared(&histogram, -7);
    mr_durations found = published(&histogram);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.bucket[0], 2);
    assert_int_equal(found.sum_ns, 0);
}

TEST(percentiles_are_near) {
    mr_histogram histogram = {0};
    mr_histogram_sums sums = {0};
    for (int64_t i = 1; i <= 1000; i++)
        mr_histogram_add(&histogram, i * 1000);
    mr_histogram_sum(&histogram, &sums);
    mr_histogram_sum(&histogram, &sums); /* twice as many of each */
    assert_in_range(mr_histogram_percentile(&sums, 0.5), 500000 / 8 * 7, 500000 / 8 * 9);
    assert_in_range(mr_histogram_percentile(&sums, 0.99), 990000 / 8 * 7, 990000 / 8 * 9);
    assert_int_equal(sums.sum_ns, 2 * INT64_C(500500000));
}

enum { THREADS = 4, EACH = 50000 };

static void *add(void *context) {
    for (int64_t i = 0; i < EACH; i++)
        mr_histogram_add_shared(context, i * 100);
    return NULL;
}

TEST(several_threads_lose_nothing) {
    static mr_histogram histogram;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add, &histogram), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    mr_durations found = published(&histogram);
    assert_int_equal(found.count, THREADS * EACH);
    assert_int_equal(found.sum_ns, INT64_C(100) * THREADS * EACH * (EACH - 1) / 2);
}

RUN_TESTS(NULL, NULL)
