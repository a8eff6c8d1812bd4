/* What the engine knows of the ends of cuts. Internal to engine/flow and engine/transport. */
#ifndef MILLRACE_TRANSPORT_CUT_STAGES_H
#define MILLRACE_TRANSPORT_CUT_STAGES_H

#include "engine/flow/instance.h"
#include "engine/transport/cut/cut.h"

/* Ends all sources of a cut in that could not be opened, so that what comes behind ends too. */
void mr_cut_in_end(mr_instance *instance);

/* Gives a mark that has come to a cut out to the other side. MR_ERROR_AGAIN: to be called again with the same mark when
 * the instance's first entry is woken: the end of the last source passes once the other side knows all. */
int mr_cut_out_mark(mr_stage *self, const mr_item *mark);
/* A run of a cut out's entry is over: sends what it has gathered. */
void mr_cut_out_flush(mr_stage *self);

#endif
