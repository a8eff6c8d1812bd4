/* Reference counts in public structs. They are plain ints there, since C++ has no atomic_int. All counting must go
 * through these functions, which use the compiler's atomic operations and cost the same as stdatomic.h. Any thread. */
#pragma once

#include <stdbool.h>

/* One reference: the caller's. */
static inline void mr_references_begin(int *references) {
    __atomic_store_n(references, 1, __ATOMIC_RELAXED);
}

static inline void mr_references_take(int *references) {
    __atomic_fetch_add(references, 1, __ATOMIC_RELAXED);
}

/* True if it was the last one: all writes under other references are then visible. */
static inline bool mr_references_drop(int *references) {
    return __atomic_fetch_sub(references, 1, __ATOMIC_ACQ_REL) == 1;
}

/* True if there are exactly `count` references. If all are the caller's, no other thread can take one. */
static inline bool mr_references_are(const int *references, int count) {
    return __atomic_load_n(references, __ATOMIC_ACQUIRE) == count;
}

static inline bool mr_references_alone(const int *references) {
    return mr_references_are(references, 1);
}
