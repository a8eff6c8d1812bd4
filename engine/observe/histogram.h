/* A histogram of durations: eight buckets for each power of two, so that a percentile is right within 12.5%. One thread
 * adds, any thread may read meanwhile. */
#ifndef MILLRACE_OBSERVE_HISTOGRAM_H
#define MILLRACE_OBSERVE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum { MR_HISTOGRAM_BUCKETS = 320 };

typedef struct mr_histogram {
    _Atomic uint32_t bucket[MR_HISTOGRAM_BUCKETS];
} mr_histogram;

static inline uint32_t mr_histogram_bucket(int64_t duration_ns) {
    uint64_t value = duration_ns < 8 ? (duration_ns < 0 ? 0 : (uint64_t)duration_ns) : (uint64_t)duration_ns;
    if (value < 8)
        return (uint32_t)value;
    uint32_t exponent = 63 - (uint32_t)__builtin_clzll(value);
    uint32_t bucket = (exponent - 2) * 8 + ((uint32_t)(value >> (exponent - 3)) & 7);
    return bucket < MR_HISTOGRAM_BUCKETS ? bucket : MR_HISTOGRAM_BUCKETS - 1;
}

static inline void mr_histogram_add(mr_histogram *histogram, int64_t duration_ns) {
    _Atomic uint32_t *bucket = &histogram->bucket[mr_histogram_bucket(duration_ns)];
    uint32_t count = atomic_load_explicit(bucket, memory_order_relaxed);
    atomic_store_explicit(bucket, count + 1, memory_order_relaxed);
}

/* Adds all of `from`'s counts to plain sums. */
void mr_histogram_sum(const mr_histogram *from, uint64_t sums[MR_HISTOGRAM_BUCKETS]);
/* The duration below which `fraction` (0..1) of the sums lie: the middle of its bucket; 0 if there are none. */
int64_t mr_histogram_percentile(const uint64_t sums[MR_HISTOGRAM_BUCKETS], double fraction);

#endif
