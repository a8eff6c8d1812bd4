/* Links between vertices in a plan in the making. Only planner files may use it.
 *
 * Each function returns MR_OK or MR_ERROR_MEMORY and diagnoses all else. */
#pragma once

#include "engine/planner/graph/builder.h"

/* Names to links. */
int mr_plan_resolve_links(mr_plan_builder *builder);
/* Finds cycles; puts vertices and links in topological order, and lists in and out. */
int mr_plan_order(mr_plan_builder *builder);
/* Which sources reach which vertex. */
int mr_plan_reach(mr_plan_builder *builder);
/* Marks the vertices from which frames come to one input of `vertex`, and no others. Once ordered. */
void mr_plan_mark_to(const mr_plan_builder *builder, int vertex, int port, bool *marked);
/* plan->edges, from the links. */
int mr_plan_list_edges(mr_plan_builder *builder);

/* How many ports there are; NULL has none. */
int mr_port_count(const mr_port *ports);
/* Compares ids with an unknown name, as long as that costs little for all of a file's unknown names. */
void mr_plan_offer_ids(mr_plan_builder *builder, mr_nearest *nearest, bool sources, bool stages);

/* Vertices that the planner inserts into links. */
typedef struct mr_plan_insertion {
    bool (*needed)(const mr_plan_builder *builder, const mr_plan_link *link);
    /* Whether the vertices inserted for one reader of an output port serve another, too. */
    bool (*shared)(const mr_plan_vertex *reader, const mr_plan_vertex *other);
    int count; /* vertices to insert, one after the other */
    /* Fills them; the caller must wire the ports. MR_ERROR_MEMORY. */
    int (*make)(mr_plan_builder *builder, const mr_plan_link *link, mr_plan_vertex *vertices, mr_spec_vertex *specs);
} mr_plan_insertion;
/* Numbers vertices and links anew. */
int mr_plan_splice(mr_plan_builder *builder, const mr_plan_insertion *insertion);
/* Makes the input and the output for a vertex that passes on frames from `from`'s port unchanged. A vertex without an
 * output port (a cut's end) gets the output nevertheless, for the link to the other end, but counts none. */
int mr_plan_repeat(mr_plan_builder *builder, mr_plan_vertex *vertex, const mr_plan_vertex *from, int port);
