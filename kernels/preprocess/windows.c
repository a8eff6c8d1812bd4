#include "kernels/preprocess/windows.h"

#include <stdbool.h>
#include <string.h>

#include "engine/base/memory.h"
#include "kernels/preprocess/filter.h"
#include "millrace/status.h"

/* With fewer results per window on average, finding them one by one is faster. */
enum { LEAST_RESULTS = 4 };

/* How many results from `begin` on have samples within one window, at most MR_WINDOW_RESULTS; `from` gets its first
 * sample. */
static int results_within(const mr_filter *filter, bool even, int begin, int *from) {
    int low = filter->first[begin], high = low + filter->length[begin], count = 0;
    while (count < MR_WINDOW_RESULTS && begin + count < filter->count) {
        int first = filter->first[begin + count], end = first + filter->length[begin + count];
        low = first < low ? first : low;
        low -= even ? low % 2 : 0;
        high = end > high ? end : high;
        if (high - low > MR_WINDOW)
            break;
        *from = low;
        count++;
    }
    return count;
}

/* How many windows, or 0 if they would hold too few results. */
static int count_windows(const mr_filter *filter, bool even) {
    int count = 0, from;
    for (int i = 0, results; i < filter->count; i += results, count++) {
        results = results_within(filter, even, i, &from);
        if (results == 0)
            return 0;
    }
    return count * LEAST_RESULTS <= filter->count ? count : 0;
}

/* What stands before the taps of a result, so that they begin at an even sample. */
static int taps_before(const mr_filter *filter, bool even, int i) {
    return even ? filter->first[i] % 2 : 0;
}

static int count_vectors(const mr_filter *filter, bool even) {
    int most = 0;
    for (int i = 0; i < filter->count; i++) {
        int taps = filter->length[i] + taps_before(filter, even, i);
        most = taps > most ? taps : most;
    }
    return (most + MR_WINDOW_TAPS - 1) / MR_WINDOW_TAPS;
}

/* Window k, with `results` results from `begin` on. */
static void fill_window(mr_windows *w, int k, const mr_filter *filter, int begin, int results, int from) {
    int16_t *weights = w->weights + k * w->vectors * MR_WINDOW_SLOTS;
    w->from[k] = from;
    w->result[k] = begin;
    for (int slot = 0; slot < MR_WINDOW_SLOTS; slot++) {
        int i = slot % 16 / 2, tap = slot / 16 * 2 + slot % 2;
        if (i >= results)
            continue;
        int before = taps_before(filter, w->even, begin + i);
        int place = filter->first[begin + i] - before - from + tap;
        if (w->even)
            w->pairs[(k * MR_WINDOW_SLOTS + slot) / 2] = place / 2;
        else
            w->places[k * MR_WINDOW_SLOTS + slot] = (int16_t)place;
        for (tap -= before; tap < filter->length[begin + i]; tap += MR_WINDOW_TAPS)
            if (tap >= 0)
                weights[(tap + before) / MR_WINDOW_TAPS * MR_WINDOW_SLOTS + slot] =
                    filter->weights[mr_filter_weight(filter, begin + i, tap)];
    }
}

/* Arrays for `count` windows, zeroed. */
static int allocate(mr_windows *w, int count) {
    const size_t windows = (size_t)count, vector = MR_WINDOW_SLOTS * sizeof(int16_t);
    void *places = mr_alloc_aligned(64, windows * vector);
    w->places = w->even ? NULL : places;
    w->pairs = w->even ? places : NULL;
    w->from = mr_calloc(windows, sizeof *w->from);
    w->result = mr_calloc(windows, sizeof *w->result);
    w->weights = mr_alloc_aligned(64, windows * (size_t)w->vectors * vector);
    if (!w->from || !w->result || !places || !w->weights)
        return MR_ERROR_MEMORY;
    memset(places, 0, windows * vector);
    memset(w->weights, 0, windows * (size_t)w->vectors * vector);
    return MR_OK;
}

int mr_windows_init(mr_windows *w, const mr_filter *filter) {
    if (!filter->chunks)
        return MR_OK;
    w->vectors = count_vectors(filter, false);
    w->even = w->vectors == count_vectors(filter, true) && count_windows(filter, true) > 0;
    w->vectors = w->even ? w->vectors : count_vectors(filter, false);
    const int count = count_windows(filter, w->even);
    if (count == 0)
        return MR_OK;
    int status = allocate(w, count);
    if (status)
        return status;
    for (int i = 0, results, from = 0; i < filter->count; i += results) {
        results = results_within(filter, w->even, i, &from);
        fill_window(w, w->count++, filter, i, results, from);
    }
    return MR_OK;
}

void mr_windows_fini(mr_windows *w) {
    mr_free(w->from);
    mr_free(w->result);
    mr_free(w->places);
    mr_free(w->pairs);
    mr_free(w->weights);
    memset(w, 0, sizeof *w);
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

enum { GROUP = 2 * MR_WINDOW_RESULTS };

/* Whether the samples of every sixteen results lie in the window of the first eight. */
static bool fits_single(const mr_filter *filter, const mr_column_pairs *p) {
    for (int i = 0; i < filter->count; i++) {
        const int place = filter->first[i] - p->from[i / GROUP * 2];
        if (place < 0 || place + filter->length[i] > MR_WINDOW)
            return false;
    }
    return true;
}

/* Whether every eight results have samples within one window. */
static bool fits_pairs(const mr_filter *filter) {
    int from;
    for (int i = 0; i < filter->count; i += MR_WINDOW_RESULTS) {
        int left = filter->count - i;
        if (results_within(filter, false, i, &from) < (left < MR_WINDOW_RESULTS ? left : MR_WINDOW_RESULTS))
            return false;
    }
    return filter->chunks == 0 && filter->end - filter->begin >= MR_WINDOW;
}

/* Where the window for eight results begins; some may be after the last. */
static int pair_window(const mr_filter *filter, int begin) {
    int from = 0, last = filter->end - filter->begin - MR_WINDOW;
    if (begin < filter->count)
        results_within(filter, false, begin, &from);
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
    p->single = fits_single(filter, p);
    for (int i = 0; i < filter->count; i++)
        for (int tap = 0; tap < filter->length[i]; tap++) {
            const int half = p->single ? i / GROUP * 2 : i / MR_WINDOW_RESULTS;
            p->places[2 * i + tap] = (int16_t)(filter->first[i] + tap - p->from[half] + half % 2 * MR_WINDOW);
        }
    return MR_OK;
}

void mr_column_pairs_fini(mr_column_pairs *p) {
    mr_free(p->from);
    mr_free(p->places);
    memset(p, 0, sizeof *p);
}
