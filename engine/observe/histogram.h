/* A duration histogram: eight buckets per power of two, so that a percentile is right within 12.5%. Any thread can read
 * at any time, without a lock; counts and sums only rise. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "millrace/millrace.h"

enum { MR_HISTOGRAM_BUCKETS = 320 };

typedef struct mr_histogram {
    _Atomic uint64_t sum_ns;
    _Atomic uint64_t bucket[MR_HISTOGRAM_BUCKETS];
} mr_histogram;

/* A copy, or the sum of several. */
typedef struct mr_histogram_sums {
    uint64_t sum_ns, bucket[MR_HISTOGRAM_BUCKETS];
} mr_histogram_sums;

static inline uint32_t mr_histogram_bucket(int64_t duration_ns) {
    uint64_t value = duration_ns < 8 ? (duration_ns < 0 ? 0 : (uint64_t)duration_ns) : (uint64_t)duration_ns;
    if (value < 8)
        return (uint32_t)value;
    uint32_t exponent = 63 - (uint32_t)__builtin_clzll(value);
    uint32_t bucket = (exponent - 2) * 8 + ((uint32_t)(value >> (exponent - 3)) & 7);
    return bucket < MR_HISTOGRAM_BUCKETS ? bucket : MR_HISTOGRAM_BUCKETS - 1;
}

static inline void mr_histogram_raise(_Atomic uint64_t *count, uint64_t by) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + by, memory_order_relaxed);
}

/* For the only thread that adds. */
static inline void mr_histogram_add(mr_histogram *histogram, int64_t duration_ns) {
    mr_histogram_raise(&histogram->bucket[mr_histogram_bucket(duration_ns)], 1);
    mr_histogram_raise(&histogram->sum_ns, duration_ns > 0 ? (uint64_t)duration_ns : 0);
}

/* For several threads that add. */
static inline void mr_histogram_add_shared(mr_histogram *histogram, int64_t duration_ns) {
    _Atomic uint64_t *bucket = &histogram->bucket[mr_histogram_bucket(duration_ns)];
    atomic_fetch_add_explicit(bucket, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum_ns, duration_ns > 0 ? (uint64_t)duration_ns : 0, memory_order_relaxed);
}

/* Adds everything in `from` to the sums. */
void mr_histogram_sum(const mr_histogram *from, mr_histogram_sums *sums);
/* The duration that `fraction` (0..1) of the durations are below: the bucket's middle; 0 if there are none. */
int64_t mr_histogram_percentile(const mr_histogram_sums *sums, double fraction);
/* The sums in the public summary's buckets. */
void mr_histogram_publish(const mr_histogram_sums *sums, mr_durations *durations);
