/* Pictures that look alike although they are in different parts: by a perceptual hash (stage phash), which differs in
 * at most MR_NEAR_BITS of 64 bits. A picture that is smaller than 48 pixels on a side, or of one colour, has no hash:
 * it is alike to those with the same vector. A test part that holds pictures that were trained on says nothing. */
#pragma once

#include "tools/millrace/train/extract.h"
#include "tools/millrace/train/features.h"
#include "tools/millrace/train/set.h"

enum { MR_NEAR_BITS = 4, MR_NEAR_LISTED = 1000 };

typedef struct mr_near_pair {
    size_t a, b; /* rows of the set */
    int64_t a_ns, b_ns; /* the times of their pictures */
    int bits;    /* in which they differ */
} mr_near_pair;

typedef struct mr_near {
    bool looked;    /* else it was not asked for */
    bool cut_short; /* so many are alike that not all were compared */
    size_t hashless; /* pictures that were compared by their vectors alone */
    size_t count;   /* pairs, of those compared */
    size_t listed;  /* of them the first MR_NEAR_LISTED, those that differ least first */
    mr_near_pair *pair;
} mr_near;

/* Makes the hashes, in the cache of `folder`, of the pictures that `like` takes, and compares those of rows that are
 * taken. `vectors`: what the pipeline made of the same pictures. Errors of mr_features_make. */
int mr_near_find(mr_near *near, mr_set *set, const mr_features *vectors, const mr_extraction *like, const char *folder,
                 int workers, bool *told);
void mr_near_fini(mr_near *near);
void mr_near_tell(const mr_near *near, const mr_set *set, FILE *stream);
void mr_near_put(const mr_near *near, const mr_set *set, yajl_gen json);
