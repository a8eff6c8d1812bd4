/* Which pictures are wanted: start, end, every and fps of a media, applied to decoded pictures in presentation
 * order. One thread; one selection for each epoch of a source. */
#ifndef MILLRACE_STAGES_DECODE_SELECT_H
#define MILLRACE_STAGES_DECODE_SELECT_H

#include "millrace/frame.h"

typedef struct mr_selection {
    uint64_t in_range;  /* pictures so far between start and end */
    int64_t last_slot;  /* of `fps`, that a picture was given for */
} mr_selection;

void mr_selection_begin(mr_selection *selection);

/* To be asked once for each picture. `time_ns` may be MR_NO_TIME: only `every` applies then. First start and end
 * decide, then every, of what is left the first of so many, then fps: time from start on is cut into slots of
 * 1/fps seconds, and the first picture in each is wanted. */
bool mr_selection_wants(mr_selection *selection, const mr_media *media, int64_t time_ns);
/* Whether all that is shown before the packet's picture has come, where no packet comes behind the one that is decoded
 * at `last_dts_ns`: those that are missing are decoded later, and shown no sooner than that. */
bool mr_selection_can_count(const mr_frame *packet, int64_t last_dts_ns);

#endif
