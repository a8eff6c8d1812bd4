#include "engine/config/nearest.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 64 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Optimal string alignment distance, without regard to case; both at most LONGEST long. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t row[3][LONGEST + 1];
    size_t *two_up = row[0], *up = row[1], *here = row[2];
    for (size_t j = 0; j <= b_length; j++)
        up[j] = two_up[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        here[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            here[j] = least(least(up[j], here[j - 1]) + 1, up[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
                here[j] = least(here[j], two_up[j - 2] + 1);
        }
        size_t *oldest = two_up;
        two_up = up;
        up = here;
        here = oldest;
    }
    return up[b_length];
}

/* One bit for each letter that is in the name, without regard to case. */
static uint64_t letters(const char *name) {
    uint64_t bits = 0;
    for (; *name; name++)
        bits |= UINT64_C(1) << (tolower((unsigned char)*name) & 63);
    return bits;
}

void mr_nearest_offer(mr_nearest *nearest, const char *name) {
    size_t wanted = strlen(nearest->wanted), length = strlen(name);
    size_t limit = wanted < 4 ? 1 : wanted / 3;
    size_t gap = wanted > length ? wanted - length : length - wanted;
    if (wanted > LONGEST || length > LONGEST || gap > limit)
        return;
    /* A replacement changes two of the letters at most, an insertion or deletion one, a swap none: most names are
     * told apart by that alone. */
    if ((size_t)__builtin_popcountll(letters(nearest->wanted) ^ letters(name)) > 2 * limit)
        return;
    size_t d = distance(nearest->wanted, wanted, name, length);
    /* A name of one or two letters is near to every other such name; nothing is gained by offering those. */
    if (d > limit || d >= wanted || (nearest->best && d >= nearest->distance))
        return;
    nearest->best = name;
    nearest->distance = d;
}

const char *mr_nearest_hint(const mr_nearest *nearest, char *text, size_t bytes, const char *otherwise) {
    if (!nearest->best)
        return otherwise;
    snprintf(text, bytes, "did you mean \"%s\"?", nearest->best);
    return text;
}
