#include "kernels/fit/lbfgs.h"

#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

enum { VECTORS = 5 + 2 * MR_LBFGS_PAIRS, MOST_TRIES = 25, SLOW_STEPS = 3 };
static const double sufficient = 1e-4, flat = 0.9;

/* Eight sums, which compilers may keep in one vector, joined in one order. */
static double dot(const double *a, const double *b, size_t length) {
    double lane[8] = {0};
    size_t i = 0;
    for (; i + 8 <= length; i += 8)
        for (size_t k = 0; k < 8; k++)
            lane[k] += a[i + k] * b[i + k];
    for (; i < length; i++)
        lane[i % 8] += a[i] * b[i];
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

/* to = from + factor * along; `to` may be `from`. */
static void move(double *to, const double *from, double factor, const double *along, size_t length) {
    for (size_t i = 0; i < length; i++)
        to[i] = from[i] + factor * along[i];
}

static double largest(const double *x, size_t length) {
    double most = 0.0;
    for (size_t i = 0; i < length; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

static int take_memory(mr_lbfgs *s) {
    size_t stride = mr_aligned_bytes(s->params.length * sizeof(double)) / sizeof(double);
    double *next = s->memory = mr_alloc_aligned(64, VECTORS * stride * sizeof(double));
    if (!next)
        return mr_fail(MR_ERROR_MEMORY, "no memory to fit %zu weights", s->params.length);
    double **vectors[VECTORS] = {&s->x, &s->gradient, &s->direction, &s->next, &s->next_gradient};
    for (size_t i = 0; i < MR_LBFGS_PAIRS; i++) {
        vectors[5 + 2 * i] = &s->moved[i];
        vectors[6 + 2 * i] = &s->turned[i];
    }
    for (size_t i = 0; i < VECTORS; i++, next += stride)
        *vectors[i] = next;
    return MR_OK;
}

static void look_at_gradient(mr_lbfgs *s) {
    const mr_lbfgs_params *p = &s->params;
    const double shrunk = p->small > 0.0 ? fmin(1.0, fabs(s->value) / p->small) : 1.0;
    if (largest(s->gradient, p->length) <= p->gradient * shrunk)
        s->end = MR_LBFGS_GRADIENT;
    else if (s->step >= s->params.steps)
        s->end = MR_LBFGS_STEPS;
}

int mr_lbfgs_init(mr_lbfgs *search, const mr_lbfgs_params *params, const double *x) {
    *search = (mr_lbfgs){.params = *params};
    int status = take_memory(search);
    if (status)
        return status;
    memcpy(search->x, x, params->length * sizeof(double));
    search->evaluations = 1;
    status = params->evaluate(params->user, search->x, &search->value, search->gradient);
    if (status)
        mr_lbfgs_fini(search);
    else
        look_at_gradient(search);
    return status;
}

void mr_lbfgs_fini(mr_lbfgs *search) {
    mr_free(search->memory);
    *search = (mr_lbfgs){0};
}

/* Algorithm 7.4: the direction is minus the approximate inverse Hessian times the gradient. */
static void find_direction(mr_lbfgs *s) {
    double share[MR_LBFGS_PAIRS];
    const size_t length = s->params.length;
    for (size_t i = 0; i < length; i++)
        s->direction[i] = -s->gradient[i];
    if (!s->pairs)
        return;
    for (int back = 1; back <= s->pairs; back++) {
        int i = (s->step - back) % MR_LBFGS_PAIRS;
        share[i] = s->curvature[i] * dot(s->moved[i], s->direction, length);
        move(s->direction, s->direction, -share[i], s->turned[i], length);
    }
    int last = (s->step - 1) % MR_LBFGS_PAIRS;
    double scale = 1.0 / (s->curvature[last] * dot(s->turned[last], s->turned[last], length));
    for (size_t i = 0; i < length; i++)
        s->direction[i] *= scale;
    for (int back = s->pairs; back >= 1; back--) {
        int i = (s->step - back) % MR_LBFGS_PAIRS;
        double turn = s->curvature[i] * dot(s->turned[i], s->direction, length);
        move(s->direction, s->direction, share[i] - turn, s->moved[i], length);
    }
}

/* A step length that was tried. */
typedef struct trial {
    double length, value, slope;
} trial;

static int try_length(mr_lbfgs *s, double length, trial *made) {
    move(s->next, s->x, length, s->direction, s->params.length);
    s->evaluations++;
    int status = s->params.evaluate(s->params.user, s->next, &made->value, s->next_gradient);
    made->length = length;
    made->slope = dot(s->next_gradient, s->direction, s->params.length);
    return status;
}

/* The minimum of the cubic through both trials (formula 3.59), not too near to either. */
static double between(const trial *a, const trial *b) {
    double d1 = a->slope + b->slope - 3.0 * (a->value - b->value) / (a->length - b->length);
    double under = d1 * d1 - a->slope * b->slope, middle = 0.5 * (a->length + b->length);
    if (!(under >= 0.0))
        return middle;
    double d2 = copysign(sqrt(under), b->length - a->length);
    double at = b->length - (b->length - a->length) * (b->slope + d2 - d1) / (b->slope - a->slope + 2.0 * d2);
    double low = fmin(a->length, b->length), wide = fabs(b->length - a->length);
    if (!isfinite(at))
        return middle;
    return fmin(fmax(at, low + 0.1 * wide), low + 0.9 * wide);
}

static bool too_high(const trial *now, const trial *start, const trial *low) {
    return !isfinite(now->value) || now->value > start->value + sufficient * now->length * start->slope ||
           now->value >= low->value;
}

/* Algorithms 3.5 and 3.6 as one loop: `low` is the best length so far; while `bracketed`, the minimum is between it and
 * `high`. *found: whether some length makes the value fall enough. The last trial is in `next`. */
static int search_length(mr_lbfgs *s, const trial *start, double first, trial *now, bool *found) {
    trial low = *start, high = *start;
    bool bracketed = false;
    double length = first;
    *found = false;
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        int status = try_length(s, length, now);
        if (status)
            return status;
        if (too_high(now, start, &low) && (now->length != low.length)) {
            high = *now;
            bracketed = true;
        } else if (fabs(now->slope) <= -flat * start->slope) {
            *found = true;
            return MR_OK;
        } else {
            if (bracketed ? now->slope * (high.length - low.length) >= 0.0 : now->slope >= 0.0) {
                high = low;
                bracketed = true;
            }
            low = *now;
        }
        if (bracketed && !isfinite(high.value))
            length = 0.5 * (low.length + high.length);
        else
            length = bracketed ? between(&low, &high) : 2.0 * length;
    }
    return MR_OK;
}

/* Remembers the step to `next`, unless the function curved the wrong way. */
static void remember(mr_lbfgs *s) {
    const size_t length = s->params.length;
    int i = s->step % MR_LBFGS_PAIRS;
    move(s->moved[i], s->next, -1.0, s->x, length);
    move(s->turned[i], s->next_gradient, -1.0, s->gradient, length);
    double product = dot(s->moved[i], s->turned[i], length);
    if (!(product > 0.0)) {
        s->pairs = 0;
        return;
    }
    s->curvature[i] = 1.0 / product;
    s->pairs = s->pairs < MR_LBFGS_PAIRS ? s->pairs + 1 : MR_LBFGS_PAIRS;
}

static void swap(double **a, double **b) {
    double *held = *a;
    *a = *b;
    *b = held;
}

static void accept(mr_lbfgs *s, double value) {
    double fallen = s->value - value;
    remember(s);
    swap(&s->x, &s->next);
    swap(&s->gradient, &s->next_gradient);
    s->slow = fallen <= s->params.progress * fabs(value) ? s->slow + 1 : 0;
    s->value = value;
    s->step++;
    look_at_gradient(s);
    if (!s->end && s->params.progress > 0.0 && s->slow >= SLOW_STEPS)
        s->end = MR_LBFGS_PROGRESS;
}

int mr_lbfgs_step(mr_lbfgs *search) {
    bool found = false;
    if (search->end)
        return MR_OK;
    find_direction(search);
    trial now, start = {0.0, search->value, dot(search->gradient, search->direction, search->params.length)};
    double first = search->pairs ? 1.0 : 1.0 / sqrt(-start.slope);
    int status = start.slope < 0.0 ? search_length(search, &start, first, &now, &found) : MR_OK;
    if (status)
        return status;
    if (found)
        accept(search, now.value);
    else if (search->pairs)
        search->pairs = 0; /* try once more along the gradient */
    else
        search->end = MR_LBFGS_PRECISION;
    return MR_OK;
}

/* ---- the state --------------------------------------------------------------------------------------------------- */

typedef struct counters {
    double value;
    int end, step, evaluations, pairs, slow, filler;
    double curvature[MR_LBFGS_PAIRS];
} counters;

size_t mr_lbfgs_state_bytes(size_t length) {
    return sizeof(counters) + (2 + 2 * MR_LBFGS_PAIRS) * length * sizeof(double);
}

/* A state's vectors, in order. */
static void list_vectors(const mr_lbfgs *s, double *list[2 + 2 * MR_LBFGS_PAIRS]) {
    list[0] = s->x;
    list[1] = s->gradient;
    for (size_t i = 0; i < MR_LBFGS_PAIRS; i++) {
        list[2 + 2 * i] = s->moved[i];
        list[3 + 2 * i] = s->turned[i];
    }
}

/* Vectors for steps that were not made yet are zeros. */
static bool made(const mr_lbfgs *s, size_t vector) {
    return vector < 2 || (vector - 2) / 2 < (size_t)s->step;
}

void mr_lbfgs_save(const mr_lbfgs *search, void *state) {
    counters count = {.value = search->value, .end = (int)search->end, .step = search->step, .pairs = search->pairs,
                      .evaluations = search->evaluations, .slow = search->slow};
    double *list[2 + 2 * MR_LBFGS_PAIRS];
    size_t bytes = search->params.length * sizeof(double);
    char *to = (char *)state + sizeof count;
    memcpy(count.curvature, search->curvature, sizeof count.curvature);
    memcpy(state, &count, sizeof count);
    list_vectors(search, list);
    for (size_t i = 0; i < 2 + 2 * MR_LBFGS_PAIRS; i++, to += bytes) {
        if (made(search, i))
            memcpy(to, list[i], bytes);
        else
            memset(to, 0, bytes);
    }
}

/* Steps and pairs are indices. */
static bool can_be(const counters *count) {
    return count->step >= 0 && count->evaluations >= 0 && count->slow >= 0 && count->pairs >= 0 &&
           count->pairs <= MR_LBFGS_PAIRS && count->pairs <= count->step && count->end >= MR_LBFGS_RUNNING &&
           count->end <= MR_LBFGS_STEPS;
}

int mr_lbfgs_load(mr_lbfgs *search, const mr_lbfgs_params *params, const void *state) {
    counters count;
    double *list[2 + 2 * MR_LBFGS_PAIRS];
    size_t bytes = params->length * sizeof(double);
    const char *from = (const char *)state + sizeof count;
    memcpy(&count, state, sizeof count);
    if (!can_be(&count))
        return mr_fail(MR_ERROR_DATA, "the state of the search is not one");
    *search = (mr_lbfgs){.params = *params, .value = count.value, .step = count.step, .pairs = count.pairs,
                         .evaluations = count.evaluations, .slow = count.slow};
    search->end = (mr_lbfgs_end)count.end;
    memcpy(search->curvature, count.curvature, sizeof count.curvature);
    int status = take_memory(search);
    if (status)
        return status;
    list_vectors(search, list);
    for (size_t i = 0; i < 2 + 2 * MR_LBFGS_PAIRS; i++, from += bytes)
        memcpy(list[i], from, bytes);
    return MR_OK;
}
