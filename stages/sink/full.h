/* For sinks that write files: if the disk, a quota or a file size limit is full, the run fails, or waits until there is
 * room.
 *
 * A sink that waits must remove what it has written of the frame and return MR_WAIT; it is called again later. No
 * thread blocks, nothing is written twice, and a file always ends with a complete record. If the run is asked to end,
 * mr_stage_gives_up says when to stop waiting. One thread at a time. */
#pragma once

#include <stdbool.h>

#include "millrace/stage.h"

enum { MR_ON_FULL_AUTO, MR_ON_FULL_FAIL, MR_ON_FULL_WAIT };
extern const char *const mr_on_full_choices[];

/* An option table row for the int at that offset. */
#define MR_ON_FULL_OPTION(at)                                                                                          \
    {.name = "on_full", .kind = MR_OPTION_ENUM, .offset = at, .fallback = "auto", .choices = mr_on_full_choices,       \
     .help = "if the disk is full: fail the run, or wait until there is room; auto waits if frames come over a "       \
             "reliable cut from another node, and fails elsewhere"}

typedef struct mr_full {
    bool waits;
    bool over;     /* it waited, but the run has ended */
    bool said, is; /* the log has reported it as full; it is full now */
} mr_full;

/* What the sink's option says to do. */
mr_full mr_full_make(const mr_stage *self, int on_full);
/* Call when a write to `path` failed with errno `error`. MR_ERROR_AGAIN: the disk is full, wait. MR_ERROR_CANCELLED: it
 * was full, but waiting has ended. MR_ERROR_IO: it is full, which is a failure. MR_OK: it is not full. */
int mr_full_meet(mr_full *full, const mr_stage *self, int error, const char *path);
/* Call when the run has ended: no more waiting. */
void mr_full_end(mr_full *full);
/* A write went well. */
void mr_full_pass(mr_full *full, const mr_stage *self, const char *path);
/* What process must return after MR_ERROR_AGAIN. */
int mr_full_wait(mr_io *io);
