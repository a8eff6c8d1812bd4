/* "Did you mean ...?": the nearest of several names. Pure functions, which allocate nothing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A name is offered to the search one by one; all zero but `wanted` starts it. Distance: insertions, deletions,
 * replacements and swaps of neighbours (optimal string alignment); at most a third of the name may differ. Of names
 * that are equally near the one that begins alike for longer is taken, else the first. */
typedef struct mr_nearest {
    const char *wanted;
    const char *best; /* NULL: nothing is near */
    size_t distance;
    size_t length;    /* private: the length of `wanted`, and its letters */
    uint64_t letters;
} mr_nearest;

void mr_nearest_offer(mr_nearest *nearest, const char *name);
/* Writes "did you mean "NAME"?" into `text` and returns it, or returns `otherwise` (which may be NULL) if no name is
 * near. */
const char *mr_nearest_hint(const mr_nearest *nearest, char *text, size_t bytes, const char *otherwise);
