/* How far an instance is on its way to its end. Under the instance's lock. Its fields are read and written by the
 * functions below alone. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_CLOSING_H
#define MILLRACE_FLOW_INSTANCE_CLOSING_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mr_closing {
    size_t ends_left;  /* sources whose final end has not passed here */
    bool ended;        /* of a source: it gives no more frames */
    bool left;         /* its source has left: the instance waits for the next (turns.h) */
    bool reported;     /* all ends have passed, and that was reported */
} mr_closing;

static inline void mr_closing_init(mr_closing *closing, size_t source_count) {
    closing->ends_left = source_count;
}
static inline void mr_closing_renew(mr_closing *closing) {
    closing->ended = closing->left = false;
}
static inline void mr_closing_end_source(mr_closing *closing) {
    closing->ended = true;
}
static inline bool mr_closing_has_ended(const mr_closing *closing) {
    return closing->ended;
}
/* Final ends that are yet to pass. */
static inline size_t mr_closing_ends_left(const mr_closing *closing) {
    return closing->ends_left;
}
/* The end of a source has passed. `leaves`: its slot may have another source later. `alone`: the instance works for it
 * alone. */
static inline void mr_closing_pass_end(mr_closing *closing, bool leaves, bool alone) {
    closing->ends_left -= !leaves;
    closing->left |= leaves && alone;
}
/* With no call under way; each is true once: its source has left; all ends have passed. */
static inline bool mr_closing_take_left(mr_closing *closing) {
    const bool left = closing->left;
    closing->left = false;
    return left;
}
static inline bool mr_closing_take_end(mr_closing *closing) {
    const bool over = closing->ends_left == 0 && !closing->reported;
    closing->reported |= over;
    return over;
}

#endif
