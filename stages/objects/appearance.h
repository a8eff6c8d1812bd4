/* How tracks look: for each a running mean of the feature vectors of its objects, and cosine distances to it.
 *
 * A vector counts by its direction alone. The mean is that of all vectors while they are few. Later ones count with
 * dt / (dt + 1 s), where dt is the time since the last one, so that the frame rate does not matter.
 *
 * Memory: a vector for each track. One thread at a time. Errors: MR_ERROR_MEMORY, MR_ERROR_DATA. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The feature vectors of a frame's objects. */
typedef struct mr_looks {
    const float *const *of; /* one for each object; NULL: the object has none */
    size_t length;          /* numbers in each */
} mr_looks;

typedef struct mr_appearance mr_appearance;

/* For up to `tracks` tracks, numbered from 0. */
int mr_appearance_create(mr_appearance **appearance, size_t tracks);
void mr_appearance_destroy(mr_appearance **appearance);

/* Sets the vectors of `count` objects, which must stay valid until the next call. `features` NULL: none has one.
 * Vectors that are zero or not finite count as none. MR_ERROR_DATA: the length is not that of earlier vectors. */
int mr_appearance_look(mr_appearance *appearance, const mr_looks *features, size_t count);
/* An object's vector does not count in this frame. */
void mr_appearance_ignore(mr_appearance *appearance, size_t object);
/* How many vectors were zero or not finite. */
uint64_t mr_appearance_odd(const mr_appearance *appearance);

/* Forgets a track's vectors. */
void mr_appearance_forget(mr_appearance *appearance, size_t track);
/* Adds an object's vector, if it has one, to a track's mean. */
void mr_appearance_add(mr_appearance *appearance, size_t track, size_t object, int64_t now_ns);
/* Adds another track's mean, so that both count alike. */
void mr_appearance_join(mr_appearance *appearance, size_t track, size_t other);
/* Cosine distance between a track's mean and an object's vector, or another track's mean: from 0, alike, to 2. NAN: one
 * of them has none. */
double mr_appearance_distance(const mr_appearance *appearance, size_t track, size_t object);
double mr_appearance_between(const mr_appearance *appearance, size_t track, size_t other);
