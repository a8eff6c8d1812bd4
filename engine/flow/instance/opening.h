/* How far an instance has been opened. Only the functions below may touch the fields.
 *
 *     created -> (begun, if its source waits) -> open -> ready -> (its source has left -> created)
 *
 * Until it is ready, an instance ignores wakes. Internal to the engine. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

typedef struct mr_opening {
    bool waits;              /* its source waits (source_jobs.h); it opens with that source */
    atomic_bool begun;       /* the source may begin: it may open itself */
    bool opens_itself;       /* its own thread opens it on the first run */
    bool tried;              /* the thread has tried */
    atomic_bool ready;       /* open and started: it may run */
} mr_opening;

static inline bool mr_opening_waits(const mr_opening *opening) {
    return opening->waits;
}
static inline bool mr_opening_opens_itself(const mr_opening *opening) {
    return opening->opens_itself;
}
/* Call before the start. */
static inline void mr_opening_init(mr_opening *opening, bool waits) {
    opening->waits = waits;
}
static inline void mr_opening_let_open_itself(mr_opening *opening) {
    opening->opens_itself = true;
}

/* The source may begin. Any thread. */
static inline void mr_opening_begin(mr_opening *opening) {
    atomic_store(&opening->begun, true);
}
/* Whether it may open: its source does not wait, or may begin. Any thread. */
static inline bool mr_opening_has_begun(const mr_opening *opening) {
    return !opening->waits || atomic_load(&opening->begun);
}
/* True on the first call: the instance's own thread must now open it. */
static inline bool mr_opening_try(mr_opening *opening) {
    if (!opening->opens_itself || opening->tried)
        return false;
    return opening->tried = true;
}

/* Any thread. */
static inline void mr_opening_set_ready(mr_opening *opening) {
    atomic_store(&opening->ready, true);
}
static inline bool mr_opening_is_ready(const mr_opening *opening) {
    return atomic_load(&opening->ready);
}
/* The source has left or is about to leave: as if it had not begun. */
static inline void mr_opening_withdraw(mr_opening *opening) {
    atomic_store(&opening->begun, false);
    atomic_store(&opening->ready, false);
}
