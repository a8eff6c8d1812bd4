/* An array that grows by one element at a time, and a block of bytes. */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "engine/base/memory.h"

/* Makes room for one more element in an array that has `count` of them. False: no memory; nothing has changed. */
static inline bool mr_grow(void **array, size_t count, size_t *room, size_t element_bytes) {
    if (count < *room)
        return true;
    size_t wanted = *room ? *room * 2 : 4;
    void *grown = mr_realloc(*array, wanted * element_bytes);
    if (!grown)
        return false;
    *array = grown;
    *room = wanted;
    return true;
}

/* Makes room for `wanted` bytes in all, and some more. False as above. */
static inline bool mr_grow_bytes(void **block, size_t *room, size_t wanted) {
    if (wanted <= *room)
        return true;
    const size_t larger = wanted + wanted / 2 + 256;
    void *grown = mr_realloc(*block, larger);
    if (!grown)
        return false;
    *block = grown;
    *room = larger;
    return true;
}

/* Appends `more` bytes to a block that has *count of them. False as above. */
static inline bool mr_append_bytes(void **block, size_t *room, size_t *count, const void *bytes, size_t more) {
    if (!mr_grow_bytes(block, room, *count + more))
        return false;
    if (more) /* without any there may be no memory yet */
        memcpy((char *)*block + *count, bytes, more);
    *count += more;
    return true;
}
