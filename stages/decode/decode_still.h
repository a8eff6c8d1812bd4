/* Reports still pictures whose files hold more than the picture: bytes behind its end, or further pictures. Each is
 * decoded as far as it goes; the first of a source is logged as a warning, the others as information, and their count
 * at the end. One thread. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_STILL_H
#define MILLRACE_STAGES_DECODE_DECODE_STILL_H

#include "millrace/stage.h"

typedef struct mr_still_notes {
    uint64_t pictures; /* that more follows */
} mr_still_notes;

/* Looks at a packet before it is decoded; others than still pictures are skipped. */
void mr_still_note(mr_still_notes *notes, const mr_stage *self, const mr_frame *packet);
/* At the end of the source. */
void mr_still_sum_up(const mr_still_notes *notes, const mr_stage *self);

#endif
