#include "kernels/fit/fit_sum.h"

#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

int mr_fit_sum_init(mr_fit_sum *sum, size_t length, size_t leaves) {
    *sum = (mr_fit_sum){.length = length, .levels = 1};
    while ((size_t)1 << (sum->levels - 1) < leaves)
        sum->levels++;
    sum->levels++; /* and the leaf that is being added */
    sum->partial = mr_alloc_aligned(64, mr_aligned_bytes(sum->levels * length * sizeof(double)));
    if (!sum->partial)
        return mr_fail(MR_ERROR_MEMORY, "no memory for sums of %zu numbers", length);
    return MR_OK;
}

void mr_fit_sum_fini(mr_fit_sum *sum) {
    mr_free(sum->partial);
    *sum = (mr_fit_sum){0};
}

void mr_fit_sum_clear(mr_fit_sum *sum) {
    sum->leaves = 0;
}

/* to = left + right. */
static void add(double *to, const double *left, const double *right, size_t length) {
    for (size_t i = 0; i < length; i++)
        to[i] = left[i] + right[i];
}

/* Partial sums lie in leaf order, the widest first: one for each bit that is set in the number of leaves, like a binary
 * counter's digits. */
static size_t partials(const mr_fit_sum *sum) {
    return (size_t)__builtin_popcountll(sum->leaves);
}

double *mr_fit_sum_next(mr_fit_sum *sum) {
    return sum->partial + partials(sum) * sum->length;
}

void mr_fit_sum_added(mr_fit_sum *sum) {
    double *last = mr_fit_sum_next(sum);
    for (size_t carry = sum->leaves; carry & 1; carry >>= 1, last -= sum->length)
        add(last - sum->length, last - sum->length, last, sum->length);
    sum->leaves++;
}

void mr_fit_sum_finish(const mr_fit_sum *sum, double *to) {
    size_t count = partials(sum);
    memcpy(to, sum->partial + (count - 1) * sum->length, sum->length * sizeof(double));
    while (--count)
        add(to, sum->partial + (count - 1) * sum->length, to, sum->length);
}

void mr_fit_sum_add(double *left, const double *right, size_t length) {
    add(left, left, right, length);
}
