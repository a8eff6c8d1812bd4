#include "stages/objects/appearance.h"

#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "kernels/vector/vector.h"
#include "millrace/status.h"

static const double MEAN_NS = 1e9;

/* Of a track. Its mean has any length. */
typedef struct look {
    int64_t samples, at_ns;
    double factor; /* scales the mean to length 1; 0: there is none */
} look;

struct mr_appearance {
    size_t tracks, length; /* length: 0 before the first vector */
    look *looks;
    float *means;
    const float *const *of; /* the frame's vectors; NULL: none */
    double *factors;        /* scale them to length 1; 0: the object has none */
    size_t room;
    uint64_t odd;
};

static int no_memory(size_t count) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for the features of %zu objects", count);
}

int mr_appearance_create(mr_appearance **appearance, size_t tracks) {
    mr_appearance *made = *appearance = mr_calloc(1, sizeof *made);
    if (!made)
        return no_memory(tracks);
    made->tracks = tracks;
    made->looks = mr_calloc(tracks, sizeof *made->looks);
    if (made->looks)
        return MR_OK;
    mr_appearance_destroy(appearance);
    return no_memory(tracks);
}

void mr_appearance_destroy(mr_appearance **appearance) {
    mr_appearance *a = *appearance;
    if (!a)
        return;
    mr_free(a->looks);
    mr_free(a->means);
    mr_free(a->factors);
    mr_free(a);
    *appearance = NULL;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static float *mean_of(const mr_appearance *a, size_t track) {
    return a->means + track * a->length;
}

/* 0 if the vector has no direction. */
static double factor_of(const float *vector, size_t length) {
    const double squares = (double)mr_dot(vector, vector, (int)length);
    return squares > 1e-24 && isfinite(squares) ? 1 / sqrt(squares) : 0;
}

static int set_length(mr_appearance *a, size_t length) {
    if (a->length == length)
        return MR_OK;
    if (a->length)
        return mr_fail(MR_ERROR_DATA, "the features of objects have %zu numbers, and had %zu before", length,
                       a->length);
    if (length == 0 || length > INT32_MAX || length > SIZE_MAX / sizeof(float) / a->tracks)
        return mr_fail(MR_ERROR_DATA, "the features of objects have %zu numbers", length);
    a->means = mr_alloc(a->tracks * length * sizeof *a->means);
    a->length = a->means ? length : 0;
    return a->means ? MR_OK : no_memory(a->tracks);
}

static int make_room(mr_appearance *a, size_t count) {
    if (count <= a->room)
        return MR_OK;
    mr_free(a->factors);
    a->factors = mr_alloc(count * sizeof *a->factors);
    a->room = a->factors ? count : 0;
    return a->factors ? MR_OK : no_memory(count);
}

int mr_appearance_look(mr_appearance *a, const mr_looks *features, size_t count) {
    a->of = NULL;
    if (!features || !count)
        return MR_OK;
    int status = set_length(a, features->length);
    if (!status)
        status = make_room(a, count);
    if (status)
        return status;
    a->of = features->of;
    for (size_t k = 0; k < count; k++) {
        a->factors[k] = a->of[k] ? factor_of(a->of[k], a->length) : 0;
        a->odd += a->of[k] && a->factors[k] <= 0;
    }
    return MR_OK;
}

void mr_appearance_ignore(mr_appearance *a, size_t object) {
    a->factors[object] = 0;
}

uint64_t mr_appearance_odd(const mr_appearance *a) {
    return a->odd;
}

/* ---- tracks ------------------------------------------------------------------------------------------------------ */

void mr_appearance_forget(mr_appearance *a, size_t track) {
    a->looks[track] = (look){0};
}

/* mean = kept * mean + more * vector */
static void mix(float *mean, const float *vector, size_t length, double kept, double more) {
    const float old = (float)kept, new = (float)more;
    for (size_t i = 0; i < length; i++)
        mean[i] = old * mean[i] + new * vector[i];
}

void mr_appearance_add(mr_appearance *a, size_t track, size_t object, int64_t now_ns) {
    look *l = &a->looks[track];
    if (!a->of || a->factors[object] <= 0)
        return;
    if (!l->samples)
        memset(mean_of(a, track), 0, a->length * sizeof(float));
    const double elapsed = (double)(now_ns - l->at_ns), first = 1 / (double)(l->samples + 1);
    const double share = l->samples ? fmax(first, elapsed / (elapsed + MEAN_NS)) : 1;
    mix(mean_of(a, track), a->of[object], a->length, 1 - share, share * a->factors[object]);
    *l = (look){l->samples + 1, now_ns, factor_of(mean_of(a, track), a->length)};
}

void mr_appearance_join(mr_appearance *a, size_t track, size_t other) {
    look *l = &a->looks[track];
    const look *o = &a->looks[other];
    if (!l->samples || !o->samples)
        return;
    mix(mean_of(a, track), mean_of(a, other), a->length, l->factor, o->factor);
    *l = (look){l->samples + o->samples, l->at_ns, factor_of(mean_of(a, track), a->length)};
}

double mr_appearance_distance(const mr_appearance *a, size_t track, size_t object) {
    const double factor = a->of ? a->looks[track].factor * a->factors[object] : 0;
    return factor > 0 ? 1 - (double)mr_dot(mean_of(a, track), a->of[object], (int)a->length) * factor : NAN;
}

double mr_appearance_between(const mr_appearance *a, size_t track, size_t other) {
    const double factor = a->looks[track].factor * a->looks[other].factor;
    return factor > 0 ? 1 - (double)mr_dot(mean_of(a, track), mean_of(a, other), (int)a->length) * factor : NAN;
}
