/* Gathers the next few bytes of a stream that arrives in pieces, for readers that parse one item at a time. One thread
 * at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MR_MOST_GATHERED = 32 };

typedef struct mr_gathered {
    uint8_t data[MR_MOST_GATHERED];
    size_t have, wanted; /* bytes */
    int64_t at;          /* stream offset for data[0] */
} mr_gathered;

/* The next item begins at `at` and needs `wanted` bytes. If it begins within the gathered bytes, the rest is kept. */
static inline void mr_gathered_move(mr_gathered *gathered, int64_t at, size_t wanted) {
    const int64_t past = at - gathered->at;
    if (past >= 0 && past < (int64_t)gathered->have) {
        gathered->have -= (size_t)past;
        memmove(gathered->data, gathered->data + past, gathered->have);
    } else
        gathered->have = 0;
    gathered->at = at;
    gathered->wanted = wanted;
}

static inline bool mr_gathered_full(const mr_gathered *gathered) {
    return gathered->have >= gathered->wanted;
}

/* Takes missing bytes from the piece at `offset`. False if it does not have the next one. */
static inline bool mr_gathered_take(mr_gathered *gathered, int64_t offset, const uint8_t *piece, size_t bytes) {
    const int64_t past = gathered->at + (int64_t)gathered->have - offset;
    if (mr_gathered_full(gathered))
        return true;
    if (past < 0 || past >= (int64_t)bytes)
        return false;
    const size_t lacking = gathered->wanted - gathered->have, there = bytes - (size_t)past;
    const size_t count = lacking < there ? lacking : there;
    memcpy(gathered->data + gathered->have, piece + past, count);
    gathered->have += count;
    return true;
}
