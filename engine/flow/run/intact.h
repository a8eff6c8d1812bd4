/* Checks that a stage's calls leave their inputs as they are. Frames are immutable once they are emitted: another stage
 * may read the same memory, and nothing else would notice a change. For authors of stage types (check_stages in
 * millrace.h). Any thread.
 *
 * Calls take turns while this is on: the stage in whose call a frame changes is the one that changes it. Each call's
 * inputs are held until it has ended, so mr_io_change finds another holder and copies. Device memory is not read, and
 * neither are frames that a device has not finished. */
#pragma once

#include "millrace/frame.h"

typedef struct mr_intact mr_intact;

/* Which part a call has changed. MEMBERS: the frame's own, such as a time, a flag, or the list of results. */
typedef enum mr_intact_change { MR_INTACT, MR_INTACT_PAYLOAD, MR_INTACT_RESULTS, MR_INTACT_MEMBERS } mr_intact_change;

int mr_intact_create(mr_intact **intact);
void mr_intact_destroy(mr_intact **intact);
/* A call begins: waits for its turn. */
void mr_intact_begin(mr_intact *intact);
/* Adds one of the call's inputs. If there is no memory for that, the input is not checked. */
void mr_intact_add(mr_intact *intact, mr_frame *frame);
/* The call has ended, and the next one may begin. */
mr_intact_change mr_intact_end(mr_intact *intact);
