#include "engine/base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { LONGEST = 64 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool same_letter(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Optimal string alignment distance, without regard to case; any number above `limit` if it exceeds that. Both are at
 * most LONGEST long. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length, size_t limit) {
    size_t row[3][LONGEST + 1];
    /* A common beginning or end costs nothing, and similar names consist mostly of those. */
    for (; a_length && b_length && same_letter(*a, *b); a++, b++)
        a_length--, b_length--;
    for (; a_length && b_length && same_letter(a[a_length - 1], b[b_length - 1]); a_length--)
        b_length--;
    size_t *two_up = row[0], *up = row[1], *here = row[2];
    for (size_t j = 0; j <= b_length; j++)
        up[j] = two_up[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t smallest = here[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            here[j] = least(least(up[j], here[j - 1]) + 1, up[j - 1] + !same_letter(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
                here[j] = least(here[j], two_up[j - 2] + 1);
            smallest = least(smallest, here[j]);
        }
        /* A swap leads past one row, and costs one itself. */
        if (smallest > limit)
            return smallest;
        size_t *oldest = two_up;
        two_up = up;
        up = here;
        here = oldest;
    }
    return up[b_length];
}

/* One bit for each letter that is in the name, without regard to case; and how long it is. */
static uint64_t letters(const char *name, size_t *length) {
    uint64_t bits = 0;
    const char *at = name;
    for (; *at; at++)
        bits |= UINT64_C(1) << (((unsigned char)*at | 32) & 63);
    *length = (size_t)(at - name);
    return bits;
}

/* How many letters both begin with: people mistype what comes late, or leave it out. */
static size_t common(const char *a, const char *b) {
    size_t count = 0;
    while (a[count] && same_letter(a[count], b[count]))
        count++;
    return count;
}

static bool has_more_bits(uint64_t bits, size_t than) {
    for (; bits && than > 0; than--)
        bits &= bits - 1;
    return bits != 0;
}

void mr_nearest_offer(mr_nearest *nearest, const char *name) {
    size_t length;
    if (nearest->best && nearest->distance == 0)
        return;
    if (!nearest->length)
        nearest->letters = letters(nearest->wanted, &nearest->length);
    const uint64_t there = letters(name, &length);
    const size_t wanted = nearest->length, gap = wanted > length ? wanted - length : length - wanted;
    const size_t limit = nearest->best ? nearest->distance : wanted < 4 ? 1 : wanted / 3;
    /* A replacement changes at most two letters, an insertion or deletion one, a swap none. That alone rules out most
     * names. */
    if (wanted > LONGEST || length > LONGEST || gap > limit || has_more_bits(nearest->letters ^ there, 2 * limit))
        return;
    size_t d = distance(nearest->wanted, wanted, name, length, limit);
    /* A name of one or two letters is near to every other such name; nothing is gained by offering those. */
    if (d > limit || d >= wanted)
        return;
    if (nearest->best && d == nearest->distance &&
        common(nearest->wanted, name) <= common(nearest->wanted, nearest->best))
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
