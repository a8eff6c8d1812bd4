/* What the engine knows of the ends of cuts. Internal to engine/flow and engine/transport. */
#ifndef MILLRACE_TRANSPORT_CUT_STAGES_H
#define MILLRACE_TRANSPORT_CUT_STAGES_H

#include "engine/flow/instance.h"
#include "engine/transport/cut.h"

/* Ends all sources of a cut in that was not opened, so that what comes behind ends too. */
void mr_cut_in_end(mr_instance *instance);

#endif
