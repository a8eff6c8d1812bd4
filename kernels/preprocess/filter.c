#include "kernels/preprocess/filter.h"

#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

/* The taps of one result before they are rounded. Samples outside low..high are folded into the border or left
 * out. */
typedef struct taps {
    int first, length, room;
    double *weight;
} taps;

static double triangle(double x) {
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* R. Keys, Cubic convolution interpolation for digital image processing, 1981, with free parameter a. */
static double cubic(double x, double a) {
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

static int held(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}

/* Four or two taps around the centre; those beyond the border count for the border's sample. */
static void interpolated_taps(taps *result, const mr_axis *axis, double center, bool is_cubic) {
    double position = center - 0.5, base = floor(position);
    int begin = (int)base - (is_cubic ? 1 : 0), count = is_cubic ? 4 : 2;
    result->first = held(begin, axis->low, axis->high - 1);
    result->length = held(begin + count - 1, axis->low, axis->high - 1) - result->first + 1;
    memset(result->weight, 0, (size_t)result->length * sizeof(double));
    for (int i = 0; i < count; i++) {
        double distance = begin + i - position;
        int at = held(begin + i, axis->low, axis->high - 1) - result->first;
        result->weight[at] += is_cubic ? cubic(distance, -0.75) : triangle(distance);
    }
}

/* The filter widened by the scale, at every sample that it reaches; Pillow's precompute_coeffs. */
static void widened_taps(taps *result, const mr_axis *axis, double center, bool is_cubic) {
    double scale = axis->step > 1.0 ? axis->step : 1.0, support = (is_cubic ? 2.0 : 1.0) * scale;
    int begin = held((int)floor(center - support + 0.5), axis->low, axis->high - 1);
    int end = held((int)floor(center + support + 0.5), begin + 1, axis->high);
    result->first = begin;
    result->length = end - begin;
    for (int i = 0; i < result->length; i++) {
        double x = (begin + i - center + 0.5) / scale;
        result->weight[i] = is_cubic ? cubic(x, -0.5) : triangle(x);
    }
}

static void covered_taps(taps *result, const mr_axis *axis, double from, double to) {
    int begin = held((int)floor(from), axis->low, axis->high - 1);
    int end = held((int)ceil(to), begin + 1, axis->high);
    result->first = begin;
    result->length = end - begin;
    for (int i = 0; i < result->length; i++) {
        double a = fmax(from, begin + i), b = fmin(to, begin + i + 1);
        /* A sliver left by rounding counts for no pixel. */
        result->weight[i] = b - a > 1e-9 * axis->step ? b - a : 0.0;
    }
    if (result->length == 1)
        result->weight[0] = 1.0;
}

static void find_taps(taps *result, const mr_axis *axis, int i, mr_interpolation interpolation, bool antialias) {
    int index = axis->reverse ? axis->count - 1 - i : i;
    double center = axis->start + (index + 0.5) * axis->step;
    if (interpolation == MR_AREA)
        covered_taps(result, axis, axis->start + index * axis->step, axis->start + (index + 1) * axis->step);
    else if (antialias)
        widened_taps(result, axis, center, interpolation == MR_BICUBIC);
    else
        interpolated_taps(result, axis, center, interpolation == MR_BICUBIC);
    while (result->length > 1 && result->weight[result->length - 1] == 0.0)
        result->length--;
    while (result->length > 1 && result->weight[0] == 0.0) {
        result->first++;
        result->length--;
        memmove(result->weight, result->weight + 1, (size_t)result->length * sizeof(double));
    }
    double sum = 0.0;
    for (int k = 0; k < result->length; k++)
        sum += result->weight[k];
    for (int k = 0; k < result->length; k++)
        result->weight[k] /= sum;
}

static int room_for(const mr_axis *axis) {
    int room = (int)ceil(4.0 * (axis->step > 1.0 ? axis->step : 1.0)) + 4;
    return room;
}

/* First pass over the axis: how many taps, and the largest weight. */
static void measure(mr_filter *filter, taps *scratch, const mr_axis *axis, mr_interpolation interpolation,
                    bool antialias) {
    double largest = 0.0;
    filter->begin = axis->high;
    filter->end = axis->low;
    for (int i = 0; i < axis->count; i++) {
        find_taps(scratch, axis, i, interpolation, antialias);
        for (int k = 0; k < scratch->length; k++)
            largest = fmax(largest, fabs(scratch->weight[k]));
        filter->taps = scratch->length > filter->taps ? scratch->length : filter->taps;
        filter->begin = scratch->first < filter->begin ? scratch->first : filter->begin;
        int end = scratch->first + scratch->length;
        filter->end = end > filter->end ? end : filter->end;
    }
    /* Rows mostly begin at a cache line, and whole vectors should not cross one. */
    if (axis->horizontal)
        filter->begin = filter->begin / 64 * 64;
    filter->bits = axis->most_bits;
    while (ldexp(largest, filter->bits) > 32766.0)
        filter->bits--;
}

/* Rounds the running sum, so that the weights sum to exactly 1 << bits and no result drifts. */
static void round_taps(mr_filter *filter, int i, const taps *from, int begin) {
    double sum = 0.0;
    long given = 0;
    for (int k = 0; k < from->length; k++) {
        sum += from->weight[k];
        long total = k + 1 == from->length ? 1L << filter->bits : lround(ldexp(sum, filter->bits));
        filter->weights[mr_filter_weight(filter, i, k)] = (int16_t)(total - given);
        given = total;
    }
    filter->first[i] = from->first - begin;
    filter->length[i] = from->length;
}

int mr_filter_init(mr_filter *filter, const mr_axis *axis, mr_interpolation interpolation, bool antialias) {
    memset(filter, 0, sizeof *filter);
    taps scratch = {.room = room_for(axis)};
    scratch.weight = mr_alloc((size_t)scratch.room * sizeof(double));
    if (!scratch.weight)
        goto fail;
    measure(filter, &scratch, axis, interpolation, antialias);
    filter->count = axis->count;
    size_t results = ((size_t)axis->count + 15) / 16 * 16;
    if (axis->horizontal) {
        filter->taps = filter->taps > 2 ? filter->taps : 2;
        filter->chunks = filter->taps > 2 ? (filter->taps + 7) / 8 : 0;
    }
    size_t weights = results * (size_t)(filter->chunks ? 8 * filter->chunks : filter->taps);
    size_t weight_bytes = (weights * sizeof(int16_t) + 63) / 64 * 64;
    filter->first = mr_calloc(results, sizeof(int32_t));
    filter->length = mr_calloc(results, sizeof(int32_t));
    filter->weights = mr_alloc_aligned(64, weight_bytes);
    if (!filter->first || !filter->length || !filter->weights)
        goto fail;
    memset(filter->weights, 0, weight_bytes);
    for (int i = 0; i < axis->count; i++) {
        find_taps(&scratch, axis, i, interpolation, antialias);
        round_taps(filter, i, &scratch, axis->horizontal ? filter->begin : 0);
    }
    if (axis->horizontal && (mr_windows_init(&filter->windows, filter) || mr_column_pairs_init(&filter->pairs, filter)))
        goto fail;
    filter->blends = filter->taps <= 2;
    for (size_t i = 0; i < weights; i++)
        filter->blends &= filter->weights[i] >= 0;
    mr_free(scratch.weight);
    return MR_OK;
fail:
    mr_free(scratch.weight);
    mr_filter_fini(filter);
    return mr_fail(MR_ERROR_MEMORY, "no memory for a resize filter of %d pixels", axis->count);
}

void mr_filter_fini(mr_filter *filter) {
    mr_free(filter->first);
    mr_free(filter->length);
    mr_free(filter->weights);
    mr_windows_fini(&filter->windows);
    mr_column_pairs_fini(&filter->pairs);
    memset(filter, 0, sizeof *filter);
}
