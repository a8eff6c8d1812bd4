/* How far an instance has been opened. Its fields are read and written by the functions below alone.
 *
 *     created -> (begun, if its source waits for its turn) -> open -> ready -> (its source has left -> created)
 *
 * An instance that is not ready ignores wakes. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_OPENING_H
#define MILLRACE_FLOW_INSTANCE_OPENING_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct mr_opening {
    bool waits;              /* its source waits for its turn (turns.h), and it opens with the source */
    atomic_bool begun;       /* likewise: it may open itself */
    bool opens_itself;       /* by its own thread, when that first runs */
    bool tried;              /* its thread has tried to */
    atomic_bool ready;       /* it may run: it is open, and was started */
} mr_opening;

static inline bool mr_opening_waits(const mr_opening *opening) {
    return opening->waits;
}
static inline bool mr_opening_opens_itself(const mr_opening *opening) {
    return opening->opens_itself;
}
/* Before the start. */
static inline void mr_opening_init(mr_opening *opening, bool waits) {
    opening->waits = waits;
}
static inline void mr_opening_let_open_itself(mr_opening *opening) {
    opening->opens_itself = true;
}

/* The turn of its source has come. Any thread. */
static inline void mr_opening_begin(mr_opening *opening) {
    atomic_store(&opening->begun, true);
}
/* Whether there is no turn to wait for, or it has come. Any thread. */
static inline bool mr_opening_has_begun(const mr_opening *opening) {
    return !opening->waits || atomic_load(&opening->begun);
}
/* True at the first call: it is to be opened. By its own thread. */
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
/* Its source has left or is about to: it is as if it had not begun. */
static inline void mr_opening_withdraw(mr_opening *opening) {
    atomic_store(&opening->begun, false);
    atomic_store(&opening->ready, false);
}

#endif
