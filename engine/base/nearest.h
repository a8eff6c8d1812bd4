/* "Did you mean ...?": the nearest among several names. Pure functions, which allocate nothing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The caller offers names one by one. To start, set `wanted` and clear the rest. Distance: insertions, deletions,
 * replacements and swapped neighbours (optimal string alignment); at most a third of the name may differ. On a tie the
 * name with the longest common prefix wins, else the first. */
typedef struct mr_nearest {
    const char *wanted;
    const char *best; /* NULL: nothing is near */
    size_t distance;
    size_t length;    /* private: `wanted`'s length and letters */
    uint64_t letters;
} mr_nearest;

void mr_nearest_offer(mr_nearest *nearest, const char *name);
/* Writes "did you mean "NAME"?" into `text` and returns it, or returns `otherwise` (which may be NULL) if no name is
 * near. */
const char *mr_nearest_hint(const mr_nearest *nearest, char *text, size_t bytes, const char *otherwise);
