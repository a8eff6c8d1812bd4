/* Hooks of the ends of cuts for the engine. Internal to engine/flow and engine/transport. */
#ifndef MILLRACE_TRANSPORT_CUT_STAGES_H
#define MILLRACE_TRANSPORT_CUT_STAGES_H

#include "engine/flow/instance.h"
#include "engine/transport/cut/cut.h"

/* Ends all sources of a cut in that could not be opened, so that the stages behind it end too. */
void mr_cut_in_end(mr_instance *instance);

/* Passes a mark to the other side. MR_ERROR_AGAIN: call again with the same mark when the instance's first entry is
 * woken: the end of the last source passes once the other side knows everything. */
int mr_cut_out_mark(mr_stage *self, const mr_item *mark);
/* A run of a cut out's entry is over: sends the gathered items. */
void mr_cut_out_flush(mr_stage *self);

#endif
