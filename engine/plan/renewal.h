/* Frames that come back to the node from which they came, such as pictures of objects. If that node's process is
 * replaced, the new one makes them again, and must not get those that were made for the former one: they could arrive
 * before earlier frames. So a mark goes through the other nodes, after all that was made for the former process
 * (engine/data/gap.h, `renewed`). */
#pragma once

#include "engine/plan/plan_data.h"

/* Whether frames that arrive over the cut whose end is `in` go back to its producer. */
bool mr_cut_comes_back(const mr_plan *plan, const mr_plan_vertex *in);

/* The node to which all frames at a cut's end come back, if marks tell there which of its processes made them; -1 if
 * there is none, or no memory. Marks need reliable cuts with one producing process each, and a single process of that
 * node. They do not pass a join with frames from elsewhere, which would take them for lost frames and pass over others.
 */
int mr_cut_maker(const mr_plan *plan, const mr_plan_vertex *end);
