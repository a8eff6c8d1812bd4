/* How close an instance is to the end. Needs the instance's lock. Only the functions below may touch the fields.
 * Internal to the engine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct mr_closing {
    size_t ends_left;  /* sources whose final end has not passed yet */
    bool ended;        /* for a source: it gives no more frames */
    bool left;         /* the source left: the instance waits for the next (source_jobs.h) */
    bool reported;     /* all ends have passed, and this was reported */
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
/* Final ends that must still pass. */
static inline size_t mr_closing_ends_left(const mr_closing *closing) {
    return closing->ends_left;
}
/* A source's end has passed. `leaves`: another source may use the slot later. `alone`: the instance serves only this
 * source. */
static inline void mr_closing_pass_end(mr_closing *closing, bool leaves, bool alone) {
    closing->ends_left -= !leaves;
    closing->left |= leaves && alone;
}
/* Call them when no call is under way. Each returns true once: when the source has left; when all ends have passed. */
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
