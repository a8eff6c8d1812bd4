/* Finds rows whose neighbours have another class. */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/sized.h"
#include "engine/base/thread.h"
#include "kernels/draw.h"
#include "kernels/vector/vector.h"
#include "millrace/status.h"
#include "stages/train/training.h"

enum { MOST_NEAR = 20000, TOGETHER = 128, USUAL_K = 10 };

/* The rows to search for neighbours, standardised, with the bias that distances need (train_nearest.c). */
typedef struct reference {
    const mr_fitting *training;
    size_t k, count;
    double share;
    uint32_t *row;    /* for each one */
    float *vectors, *bias; /* count x width; count */
    mr_noisy_row *noisy; /* by position among the examined rows; share 0: nothing is wrong */
    const mr_noise_params *params;
    _Atomic bool stopped; /* the rest is left out */
} reference;

static uint64_t group_of(const mr_fitting *t, size_t row) {
    return t->given.groups ? t->given.groups[row] : row;
}

/* All examined rows: training, then validation. */
static uint32_t row_at(const mr_fitting *t, size_t at) {
    return at < t->train_count ? t->train[at] : t->validation[at - t->train_count];
}

static void standardise(const mr_fitting *t, uint32_t row, float *to, double *squares) {
    const float *x = t->given.features + row * t->given.stride;
    *squares = 0.0;
    for (size_t k = 0; k < t->given.width; k++) {
        to[k] = (float)(((double)x[k] - t->mean[k]) * t->factor[k]);
        *squares += (double)to[k] * (double)to[k];
    }
}

/* Draws rows without repetition, in order (Knuth, The Art of Computer Programming, 3.4.2, algorithm S). */
static void draw_rows(reference *r, uint64_t seed) {
    const mr_fitting *t = r->training;
    const size_t all = t->train_count + t->validation_count, most = all < MOST_NEAR ? all : MOST_NEAR;
    for (size_t at = 0; at < all && r->count < most; at++)
        if (mr_draw_below(&seed, all - at) < most - r->count)
            r->row[r->count++] = row_at(t, at);
    for (size_t i = 0; i < r->count; i++) {
        double squares;
        standardise(t, r->row[i], r->vectors + i * t->given.width, &squares);
        r->bias[i] = (float)(-0.5 * squares);
    }
}

/* Finds the k largest products in descending order; on a tie, the first. Returns how many there are. */
static size_t find_nearest(const reference *r, const float *near, uint32_t *best) {
    size_t found = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (!(near[i] > (found < r->k ? -INFINITY : near[best[found - 1]])))
            continue;
        size_t at = found < r->k ? found++ : found - 1;
        for (; at > 0 && near[i] > near[best[at - 1]]; at--)
            best[at] = best[at - 1];
        best[at] = (uint32_t)i;
    }
    return found;
}

/* The k nearest rows from other groups vote. `near` holds the product with each reference row, and is overwritten.
 * `votes` must have room for the classes and k more. */
static void vote(const reference *r, uint32_t row, float *near, uint32_t *votes, mr_noisy_row *noisy) {
    const mr_fitting *t = r->training;
    const uint64_t own = group_of(t, row);
    uint32_t *best = votes + t->given.class_count;
    int32_t most = 0;
    bool others = false; /* its class must exist in other groups: otherwise nothing could agree with it */
    memset(votes, 0, t->given.class_count * sizeof *votes);
    for (size_t i = 0; i < r->count; i++) {
        if (r->row[i] == row || group_of(t, r->row[i]) == own)
            near[i] = -INFINITY;
        else
            others = others || t->given.classes[r->row[i]] == t->given.classes[row];
    }
    const size_t found = find_nearest(r, near, best);
    for (size_t i = 0; i < found; i++)
        votes[t->given.classes[r->row[best[i]]]]++;
    for (size_t j = 1; j < t->given.class_count; j++)
        most = votes[j] > votes[most] ? (int32_t)j : most;
    const double share = found ? (double)votes[most] / (double)found : 0.0;
    const bool wrong = others && most != t->given.classes[row] && share >= r->share;
    *noisy = (mr_noisy_row){.row = row, .class_given = t->given.classes[row], .class_near = most,
                            .share = wrong ? share : 0.0};
}

static size_t scratch_bytes(const reference *r) {
    const mr_fitting *t = r->training;
    const size_t best = r->k < r->count ? r->k : r->count;
    return TOGETHER * (t->given.width + r->count) * sizeof(float) + (t->given.class_count + best) * sizeof(uint32_t);
}

static bool is_stopped(reference *r) {
    if (!atomic_load(&r->stopped) && r->params->stopped && r->params->stopped(r->params->user))
        atomic_store(&r->stopped, true);
    return atomic_load(&r->stopped);
}

static void look_at_chunk(void *context, size_t chunk, void *scratch, double *sum) {
    reference *r = context;
    const mr_fitting *t = r->training;
    const size_t width = t->given.width, all = t->train_count + t->validation_count;
    const size_t first = chunk * MR_FIT_CHUNK, end = all - first < MR_FIT_CHUNK ? all : first + MR_FIT_CHUNK;
    float *x = scratch, *near = x + TOGETHER * width;
    uint32_t *votes = (uint32_t *)(void *)(near + TOGETHER * r->count);
    double squares;
    *sum = 0.0;
    for (size_t at = first, some; at < end && !is_stopped(r); at += some) {
        some = end - at < TOGETHER ? end - at : TOGETHER;
        for (size_t i = 0; i < some; i++)
            standardise(t, row_at(t, at + i), x + i * width, &squares);
        mr_linear(&(mr_linear_work){.weights = r->vectors, .bias = r->bias, .weight_stride = width,
                                    .bias_stride = 1, .outputs = (int)r->count, .inputs = (int)width,
                                    .batch = (int)some, .src = x, .src_stride = width, .dst = near,
                                    .dst_stride = r->count});
        for (size_t i = 0; i < some; i++)
            vote(r, row_at(t, at + i), near + i * r->count, votes, &r->noisy[at + i]);
    }
}

static int by_surety(const void *a, const void *b) {
    const mr_noisy_row *one = a, *other = b;
    if (one->share != other->share)
        return one->share > other->share ? -1 : 1;
    return (one->row > other->row) - (one->row < other->row);
}

static int look(reference *r, mr_noisy_row *noisy, size_t most, size_t *found) {
    const mr_fitting *t = r->training;
    const size_t all = t->train_count + t->validation_count;
    double nodes[MR_FIT_BLOCKS];
    mr_fit_workers *workers = NULL;
    draw_rows(r, r->params->seed);
    const mr_fit_task task = {.chunks = mr_fit_chunks(all), .length = 1, .scratch_bytes = scratch_bytes(r),
                              .make = look_at_chunk, .context = r};
    int status = mr_fit_workers_create(&workers, &task, t->params.threads);
    if (status)
        return status;
    mr_fit_workers_sum(workers, &task, nodes);
    mr_fit_workers_destroy(&workers);
    if (atomic_load(&r->stopped))
        return mr_fail(MR_ERROR_CANCELLED, "interrupted");
    qsort(r->noisy, all, sizeof *r->noisy, by_surety);
    for (*found = 0; *found < all && r->noisy[*found].share > 0.0; ++*found)
        if (*found < most)
            noisy[*found] = r->noisy[*found];
    return MR_OK;
}

static int prepare(reference *r, const mr_fitting *t, const mr_noise_params *params) {
    const size_t all = t->train_count + t->validation_count, most = all < MOST_NEAR ? all : MOST_NEAR;
    *r = (reference){.training = t, .params = params, .k = params->k ? params->k : USUAL_K,
                     .share = params->share > 0.0 ? params->share : 0.8};
    r->row = mr_alloc(most * sizeof *r->row);
    r->vectors = mr_alloc_aligned(64, mr_aligned_bytes(most * (t->given.width + 1) * sizeof *r->vectors));
    r->bias = r->vectors ? r->vectors + most * t->given.width : NULL;
    r->noisy = mr_alloc(all * sizeof *r->noisy);
    return r->row && r->vectors && r->noisy ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for %zu rows", most);
}

int mr_label_noise_sized(const mr_labelled_rows *rows, size_t rows_bytes, const mr_noise_params *params,
                         mr_noisy_row *noisy, size_t most, size_t *found) {
    MR_PLAIN_NUMBERS;
    mr_labelled_rows own;
    mr_fitting t = {0};
    reference r = {0};
    const mr_fit_params fit = {
        .kind = MR_CLASSIFIER_NEIGHBORS, .scaling = MR_SCALING_STANDARD, .threads = params->threads};
    *found = 0;
    int status = mr_sized_copy(&own, sizeof own, rows, rows_bytes, MR_SIZE_THROUGH(mr_labelled_rows, class_names),
                               "mr_labelled_rows");
    if (!status)
        status = mr_training_begin(&t, &own, &fit);
    if (!status)
        status = prepare(&r, &t, params);
    if (!status)
        status = look(&r, noisy, most, found);
    mr_free(r.row);
    mr_free(r.vectors);
    mr_free(r.noisy);
    mr_training_end(&t);
    return status;
}
