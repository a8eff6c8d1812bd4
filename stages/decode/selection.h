/* Which pictures are wanted: `start`, `end`, `every` and `fps` of a media, applied in presentation order. One selection
 * for each epoch of a source; a copy continues from the same picture. One thread. */
#ifndef MILLRACE_STAGES_DECODE_SELECTION_H
#define MILLRACE_STAGES_DECODE_SELECTION_H

#include "millrace/frame.h"

typedef struct mr_selection {
    uint64_t in_range;  /* pictures so far between start and end */
    int64_t last_ns;    /* of the last picture that `fps` was asked about; MR_NO_TIME: none */
    double distance_ns; /* of two such pictures, smoothed */
    double due_ns;      /* the next picture of `fps` */
} mr_selection;

void mr_selection_begin(mr_selection *selection);

/* To be called once for each picture. `time_ns` may be MR_NO_TIME: only `every` applies then. First start and end
 * decide, then every, of what is left the first of so many, then fps: a picture is wanted if at least 1/fps seconds
 * have passed for each one before it, up to rounding and jitter of times, so that none is missing of a source of that
 * rate, or a lower one. */
bool mr_selection_wants(mr_selection *selection, const mr_media *media, int64_t time_ns);
/* Whether a picture has a number: none before `start` has one, since how many there are depends on where a container
 * lets reading begin. */
bool mr_selection_has_begun(const mr_media *media, int64_t time_ns);

#endif
