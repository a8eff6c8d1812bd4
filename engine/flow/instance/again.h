/* An end of a way (a sink, or a cut to a node from which nothing comes back) that can get frames again, since another
 * node's process was replaced and makes them anew (plan/renewal.h). A source's frames come in order, those that come
 * again too. So what does not follow the last frame that came is left out, and each frame passes once, in order. Needs
 * the instance's lock. Internal to the engine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "millrace/frame.h"

typedef struct mr_had {
    bool any;
    mr_identity last;
} mr_had;

/* All zero: nothing comes again. */
typedef struct mr_again_filter {
    mr_had *sources;
} mr_again_filter;

/* MR_ERROR_MEMORY. */
int mr_again_create(mr_again_filter *filter, size_t source_count);
void mr_again_destroy(mr_again_filter *filter);
/* Whether the stage has had the frame, or a later one of its source. */
static inline bool mr_again_has(const mr_again_filter *filter, const mr_frame *frame) {
    const mr_had *had = filter->sources ? &filter->sources[frame->identity.source] : NULL;
    return had && had->any && mr_identity_compare(&frame->identity, &had->last) <= 0;
}
/* The stage gets the frame. */
static inline void mr_again_note(const mr_again_filter *filter, const mr_frame *frame) {
    if (filter->sources && !mr_again_has(filter, frame))
        filter->sources[frame->identity.source] = (mr_had){true, frame->identity};
}
