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

/* Whether all cuts on the way to this vertex are reliable. Then frames with the same identity are the same frame and
 * pass once. After a live cut a new process is a new run, and all frames pass. */
bool mr_cut_is_exact(const mr_plan *plan, const mr_plan_vertex *vertex);

/* What the end of a way gets (a sink, or a cut to a node from which nothing comes back) if the process that makes its
 * frames is replaced, while this process goes on. */
typedef enum mr_again {
    MR_AGAIN_NOT,       /* nothing again: a cut before it remembers what was settled, or what has passed */
    MR_AGAIN_LEFT_OUT,  /* some frames, which are absorbed ("done before", flow/instance/again.h) */
    MR_AGAIN_TWICE_LIVE,  /* some, after a live cut: nothing tells them from new ones */
    MR_AGAIN_TWICE_WAYS,  /* some, on several ways without a join: identities are ambiguous */
    MR_AGAIN_TWICE_SHARED /* some, for one of several processes: another one may have had them */
} mr_again;

/* *maker: the node whose processes make the frames; -1 for MR_AGAIN_NOT. Without memory too. */
mr_again mr_plan_again(const mr_plan *plan, const mr_plan_vertex *end, int *maker);

/* How often a frame can come into one process, and one more. */
static inline int mr_plan_most_passes(const mr_plan *plan) {
    return (int)plan->cut_count + 1;
}

/* Counts the separate ways on which a source's frames reach each vertex without a join, up to two. */
void mr_plan_count_ways(const mr_plan *plan, uint32_t source, unsigned char *ways);
