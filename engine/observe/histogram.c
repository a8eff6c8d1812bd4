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

/* Powers of two bound buckets of both. */
void mr_histogram_publish(const mr_histogram_sums *sums, mr_durations *durations) {
    int at = 0;
    *durations = (mr_durations){.sum_ns = sums->sum_ns};
    for (int i = 0; i < MR_HISTOGRAM_BUCKETS; i++) {
        while (at < MR_DURATION_BUCKETS - 1 && middle(i) >= mr_duration_bound_ns(at))
            at++;
        durations->bucket[at] += sums->bucket[i];
        durations->count += sums->bucket[i];
    }
}
