/* For sinks that write files: if the disk, a quota or a file size limit is full, the run fails, or waits until there is
 * room.
 *
 * A sink that waits takes back any part of the frame that it has written and returns MR_WAIT; it is called again a
 * little later. No thread blocks, nothing is written twice, and a file always ends with a whole record. If the run is
 * asked to end meanwhile, mr_stage_gives_up tells when to stop waiting. One thread at a time. */
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
    bool over;     /* it waited; now the run has ended */
    bool said, is; /* that it was full, in the log; it is now */
} mr_full;

/* What the sink's option says to do. */
mr_full mr_full_make(const mr_stage *self, int on_full);
/* A write to `path` failed with errno `error`. MR_ERROR_AGAIN: the disk is full, and is waited for;
 * MR_ERROR_CANCELLED: it was, and no longer is; MR_ERROR_IO: it is full, and that is a failure; MR_OK: it is not
 * full. */
int mr_full_meet(mr_full *full, const mr_stage *self, int error, const char *path);
/* The run has ended: nothing is waited for any more. */
void mr_full_end(mr_full *full);
/* A write went well. */
void mr_full_pass(mr_full *full, const mr_stage *self, const char *path);
/* What process must return after MR_ERROR_AGAIN. */
int mr_full_wait(mr_io *io);
