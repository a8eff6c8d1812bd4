#include "kernels/preprocess/windows.h"

#include <string.h>

#include "engine/base/memory.h"
#include "kernels/preprocess/filter.h"
#include "millrace/status.h"

/* Fewer results in a window than these, on average, are found faster one by one. */
enum { LEAST_RESULTS = 4 };

/* The number of results from `begin` on whose samples lie within one window, at most MR_WINDOW_RESULTS; its first
 * sample goes to `from`. */
static int results_within(const mr_filter *filter, int begin, int *from) {
    int low = filter->first[begin], high = low + filter->length[begin], count = 0;
    while (count < MR_WINDOW_RESULTS && begin + count < filter->count) {
        int first = filter->first[begin + count], end = first + filter->length[begin + count];
        low = first < low ? first : low;
        high = end > high ? end : high;
        if (high - low > MR_WINDOW)
            break;
        *from = low;
        count++;
    }
    return count;
}

/* The number of windows, or 0 if they would hold too few results. */
static int count_windows(const mr_filter *filter) {
    int count = 0, from;
    for (int i = 0, results; i < filter->count; i += results, count++) {
        results = results_within(filter, i, &from);
        if (results == 0)
            return 0;
    }
    return count * LEAST_RESULTS <= filter->count ? count : 0;
}

/* Window k, of `results` results from `begin` on. */
static void fill_window(mr_windows *w, int k, const mr_filter *filter, int begin, int results, int from) {
    int16_t *places = w->places + k * MR_WINDOW_SLOTS, *weights = w->weights + k * w->vectors * MR_WINDOW_SLOTS;
    w->from[k] = from;
    w->result[k] = begin;
    for (int slot = 0; slot < MR_WINDOW_SLOTS; slot++) {
        int i = slot % 16 / 2, tap = slot / 16 * 2 + slot % 2;
        if (i >= results)
            continue;
        places[slot] = (int16_t)(filter->first[begin + i] - from + tap);
        for (; tap < filter->length[begin + i]; tap += MR_WINDOW_TAPS)
            weights[tap / MR_WINDOW_TAPS * MR_WINDOW_SLOTS + slot] =
                filter->weights[mr_filter_weight(filter, begin + i, tap)];
    }
}

int mr_windows_init(mr_windows *w, const mr_filter *filter) {
    const int count = filter->chunks ? count_windows(filter) : 0;
    if (count == 0)
        return MR_OK;
    const size_t vector = MR_WINDOW_SLOTS * sizeof(int16_t);
    w->vectors = (filter->taps + MR_WINDOW_TAPS - 1) / MR_WINDOW_TAPS;
    const size_t weight_bytes = (size_t)count * (size_t)w->vectors * vector;
    w->from = mr_calloc((size_t)count, sizeof *w->from);
    w->result = mr_calloc((size_t)count, sizeof *w->result);
    w->places = mr_alloc_aligned(64, (size_t)count * vector);
    w->weights = mr_alloc_aligned(64, weight_bytes);
    if (!w->from || !w->result || !w->places || !w->weights)
        return MR_ERROR_MEMORY;
    memset(w->places, 0, (size_t)count * vector);
    memset(w->weights, 0, weight_bytes);
    for (int i = 0, results, from = 0; i < filter->count; i += results) {
        results = results_within(filter, i, &from);
        fill_window(w, w->count++, filter, i, results, from);
    }
    return MR_OK;
}

void mr_windows_fini(mr_windows *w) {
    mr_free(w->from);
    mr_free(w->result);
    mr_free(w->places);
    mr_free(w->weights);
    memset(w, 0, sizeof *w);
}
