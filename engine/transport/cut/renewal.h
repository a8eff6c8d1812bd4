/* Frames that come back to the node from which they came, such as pictures of objects. If that node's process is
 * replaced, the new one makes them again, and must not get those that were made for the former one: they could arrive
 * before earlier frames. Internal to engine/transport. */
#pragma once

#include "engine/plan/plan_data.h"

/* Whether frames that arrive over the cut whose end is `in` go back to its producer. */
bool mr_cut_comes_back(const mr_plan *plan, const mr_plan_vertex *in);
/* Whether this end then says when another process has replaced the producer (gap.h, `renewed`). Not if a join here also
 * gets frames from elsewhere: it would take the mark for lost frames, and pass over those. */
bool mr_cut_says_renewed(const mr_plan *plan, const mr_plan_vertex *in);
/* Whether all that goes over the cut whose end is `out` came from its consumer, over cuts that say so. */
bool mr_cut_is_renewed(const mr_plan *plan, const mr_plan_vertex *out);
