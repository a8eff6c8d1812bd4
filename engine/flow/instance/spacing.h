/* The frames of each source on which an instance works (mr_negotiation.every), and those that it passes. Needs the
 * instance's lock. Internal to the engine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/plan/plan_data.h"

/* Of one source. */
typedef struct mr_spaced {
    bool begun, passed;      /* passed: the last frame that was judged */
    mr_identity last;        /* that frame; others made from the same frame are passed alike */
    int64_t last_ns, due_ns; /* its time, and that of the next one to work on */
} mr_spaced;

typedef struct mr_spacing {
    mr_every every;
    bool spared;        /* as in mr_view_calls */
    size_t source_count;
    mr_spaced *sources; /* NULL: times do not matter */
} mr_spacing;

/* MR_ERROR_MEMORY. */
int mr_spacing_create(mr_spacing *spacing, const mr_view_calls *calls, size_t source_count);
void mr_spacing_destroy(mr_spacing *spacing);
/* Forgets all frames. */
void mr_spacing_renew(mr_spacing *spacing);
/* Whether some frames may be passed. */
static inline bool mr_spacing_is_on(const mr_spacing *spacing) {
    return spacing->spared || spacing->sources || spacing->every.frames > 1;
}
/* Whether the source's next frame is passed. The answer stays until mr_spacing_take is called for that frame. */
bool mr_spacing_passes(const mr_spacing *spacing, uint32_t source, const mr_frame *frame);
void mr_spacing_take(mr_spacing *spacing, uint32_t source, const mr_frame *frame);
/* Takes back that frame, on which there will be no work: the source's next one is worked on in its place. */
void mr_spacing_take_back(mr_spacing *spacing, uint32_t source, const mr_frame *frame);
