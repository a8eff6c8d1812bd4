/* Finds pictures that look alike although they are in different parts. Their perceptual hashes (stage phash) differ in
 * at most MR_NEAR_BITS of 64 bits. A uniform picture, or one with a side below 48 pixels, has no hash: it only matches
 * an equal vector. A test part with pictures that were trained on proves nothing. */
#pragma once

#include "tools/millrace/train/extract.h"
#include "tools/millrace/train/features.h"
#include "tools/millrace/train/set.h"

enum { MR_NEAR_BITS = 4, MR_NEAR_LISTED = 1000 };

typedef struct mr_near_pair {
    size_t a, b; /* rows in the set */
    int64_t a_ns, b_ns; /* their pictures' times */
    int bits;    /* in which they differ */
} mr_near_pair;

typedef struct mr_near {
    bool looked;    /* false: not requested */
    bool cut_short; /* not all were compared, since too many are alike */
    size_t hashless; /* pictures compared only by vector */
    size_t count;   /* pairs found */
    size_t listed;  /* the first MR_NEAR_LISTED pairs, smallest difference first */
    mr_near_pair *pair;
} mr_near;

/* Computes hashes for the pictures that `like` takes, cached in `folder`, and compares the used rows' pictures.
 * `vectors`: the pipeline's vectors for the same pictures. Errors: as mr_features_make. */
int mr_near_find(mr_near *near, mr_set *set, const mr_features *vectors, const mr_extraction *like, const char *folder,
                 int workers, bool *told);
void mr_near_fini(mr_near *near);
void mr_near_tell(const mr_near *near, const mr_set *set, FILE *stream);
void mr_near_put(const mr_near *near, const mr_set *set, yajl_gen json);
