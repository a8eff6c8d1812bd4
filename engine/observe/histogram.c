#include "engine/observe/histogram.h"

void mr_histogram_sum(const mr_histogram *from, uint64_t sums[MR_HISTOGRAM_BUCKETS]) {
    for (int i = 0; i < MR_HISTOGRAM_BUCKETS; i++)
        sums[i] += atomic_load_explicit(&from->bucket[i], memory_order_relaxed);
}

static int64_t middle(int bucket) {
    if (bucket < 8)
        return bucket;
    int exponent = bucket / 8 + 2;
    int64_t width = INT64_C(1) << (exponent - 3);
    return (8 + bucket % 8) * width + width / 2;
}

int64_t mr_histogram_percentile(const uint64_t sums[MR_HISTOGRAM_BUCKETS], double fraction) {
    uint64_t total = 0;
    for (int i = 0; i < MR_HISTOGRAM_BUCKETS; i++)
        total += sums[i];
    double wanted = fraction * (double)total;
    uint64_t seen = 0;
    for (int i = 0; i < MR_HISTOGRAM_BUCKETS; i++) {
        seen += sums[i];
        if (seen && (double)seen >= wanted)
            return middle(i);
    }
    return 0;
}
