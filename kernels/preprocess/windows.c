#include "kernels/preprocess/windows.h"

#include <stdbool.h>
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

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

enum { GROUP = 2 * MR_WINDOW_RESULTS };

/* Whether every eight results have their samples within one window. */
static bool fits_pairs(const mr_filter *filter) {
    int from;
    for (int i = 0; i < filter->count; i += MR_WINDOW_RESULTS) {
        int left = filter->count - i;
        if (results_within(filter, i, &from) < (left < MR_WINDOW_RESULTS ? left : MR_WINDOW_RESULTS))
            return false;
    }
    return filter->chunks == 0 && filter->end - filter->begin >= MR_WINDOW;
}

/* The begin of the window of eight results, which may lie behind the last. */
static int pair_window(const mr_filter *filter, int begin) {
    int from = 0, last = filter->end - filter->begin - MR_WINDOW;
    if (begin < filter->count)
        results_within(filter, begin, &from);
    return from < last ? from : last;
}

int mr_column_pairs_init(mr_column_pairs *p, const mr_filter *filter) {
    if (!fits_pairs(filter))
        return MR_OK;
    const size_t count = ((size_t)filter->count + GROUP - 1) / GROUP;
    p->from = mr_calloc(2 * count, sizeof *p->from);
    p->places = mr_alloc_aligned(64, count * MR_WINDOW_SLOTS * sizeof(int16_t));
    if (!p->from || !p->places)
        return MR_ERROR_MEMORY;
    memset(p->places, 0, count * MR_WINDOW_SLOTS * sizeof(int16_t));
    p->count = (int)count;
    for (int half = 0; half < 2 * p->count; half++)
        p->from[half] = pair_window(filter, half * MR_WINDOW_RESULTS);
    for (int i = 0; i < filter->count; i++)
        for (int tap = 0; tap < filter->length[i]; tap++) {
            int half = i / MR_WINDOW_RESULTS;
            p->places[2 * i + tap] = (int16_t)(filter->first[i] + tap - p->from[half] + half % 2 * MR_WINDOW);
        }
    return MR_OK;
}

void mr_column_pairs_fini(mr_column_pairs *p) {
    mr_free(p->from);
    mr_free(p->places);
    memset(p, 0, sizeof *p);
}
