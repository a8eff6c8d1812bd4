/* Chooses pictures by a media's `start`, `end`, `every` and `fps`, in presentation order. Each epoch has one selection.
 * A copy continues from the same picture. One thread. */
#pragma once

#include "millrace/frame.h"

typedef struct mr_selection {
    uint64_t in_range;  /* pictures between start and end up to now */
    int64_t last_ns;    /* the last picture that `fps` was applied to; MR_NO_TIME: none */
    double distance_ns; /* between two such pictures, smoothed */
    double due_ns;      /* when `fps` wants the next picture */
} mr_selection;

void mr_selection_begin(mr_selection *selection);

/* Call once per picture. If `time_ns` is MR_NO_TIME, only `every` applies. Order: start and end, then every (the first
 * in each group), then fps. fps accepts a picture once 1/fps seconds have passed for each accepted one. Rounding and
 * jitter are allowed for: a source with that rate or a lower one loses no picture. */
bool mr_selection_wants(mr_selection *selection, const mr_media *media, int64_t time_ns);
/* Whether a picture has a number. Pictures before `start` have none, since how many there are depends on where the
 * container lets reading begin. */
bool mr_selection_has_begun(const mr_media *media, int64_t time_ns);
