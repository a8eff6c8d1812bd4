#include "engine/observe/histogram.h"

void mr_histogram_sum(const mr_histogram *from, mr_histogram_sums *sums) {
    for (int i = 0; i < MR_HISTOGRAM_BUCKETS; i++)
        sums->bucket[i] += atomic_load_explicit(&from->bucket[i], memory_order_relaxed);
    sums->sum_ns += atomic_load_explicit(&from->sum_ns, memory_order_relaxed);
}

static int64_t middle(int bucket) {
    if (bucket < 8)
        return bucket;
    int exponent = bucket / 8 + 2;
    int64_t width = INT64_C(1) << (exponent - 3);
    return (8 + bucket % 8) * width + width / 2;
}

int64_t mr_histogram_percentile(const mr_histogram_sums *sums, double fraction) {
    uint64_t total = 0;
    for (int i = 0; i < MR_HISTOGRAM_BUCKETS; i++)
        total += sums->bucket[i];
    double wanted = fraction * (double)total;
    uint64_t seen = 0;
    for (int i = 0; i < MR_HISTOGRAM_BUCKETS; i++) {
        seen += sums->bucket[i];
        if (seen && (double)seen >= wanted)
            return middle(i);
    }
    return 0;
}

/* The public bucket that holds a whole bucket: powers of two bound both. */
static int public_bucket(int bucket) {
    enum { BEFORE = (14 - 2) * 8, LAST = MR_DURATION_BUCKETS - 1 }; /* BEFORE: below the first bound */
    int at = bucket < BEFORE ? 0 : (bucket - BEFORE) / 8 + 1;
    return at < LAST ? at : LAST;
}

void mr_histogram_publish(const mr_histogram_sums *sums, mr_durations *durations) {
    *durations = (mr_durations){.sum_ns = sums->sum_ns};
    for (int i = 0; i < MR_HISTOGRAM_BUCKETS; i++) {
        durations->bucket[public_bucket(i)] += sums->bucket[i];
        durations->count += sums->bucket[i];
    }
}
