/* A data set's vectors: from the cache if it has them, else from the pipeline. */
#pragma once

#include "tools/millrace/train/cache.h"
#include "tools/millrace/train/extract.h"
#include "tools/millrace/train/set.h"

typedef struct mr_features {
    const float *data; /* count x width */
    size_t count, width;
    size_t *row;    /* row in the set for each one; ascending */
    int64_t *at_ns; /* picture's time for each one; 0 if the file is a picture */
    size_t made;    /* by the pipeline, this time */
    double seconds; /* that took */
    mr_cache cache;
    void *mapped; /* memory for the vectors, unless the cache has them in this order */
    size_t mapped_bytes;
} mr_features;

/* A picture file gives one vector, a video one per picture. Rows without a vector become MR_FATE_DAMAGED. New vectors
 * are kept in the cache; if the run was interrupted, only those from picture files. Errors: as mr_extraction_run and
 * mr_cache_*. *told: the error has been printed. The caller must finish it in any case. */
int mr_features_make(mr_features *features, mr_set *set, mr_extraction *extraction, const char *folder, bool *told);
/* Takes vectors for a set whose rows describe vectors in a file: the file's memory, unless rows are excluded. */
int mr_features_take(mr_features *features, const mr_set *set, const char *folder);
void mr_features_fini(mr_features *features);
