/* Whether formats fit, and the messages if they do not. Between the files of the planner. */
#pragma once

#include "engine/planner/graph/builder.h"

bool mr_port_accepts_anything(const mr_port *port);
/* Whether a port accepts any of `set`, and which part (`met` may be NULL). */
bool mr_port_accepts(const mr_port *port, const mr_format_set *set, mr_format_set *met);
/* Whether some formats known to arrive are not accepted. */
bool mr_format_set_exceeds(const mr_format_set *comes, const mr_format_set *taken);
/* "packets", "pictures", ... or the set in full. */
const char *mr_plan_describe(const mr_format_set *set, char *text, size_t bytes);

/* A link carries `given`, and the port accepts `need` (NULL: all the port's formats), which does not contain it. The
 * message names both ends and the fix: producer options, or stages that would convert. */
void mr_plan_mismatch(mr_plan_builder *builder, const mr_plan_link *link, const mr_port *port, const mr_plan_need *need,
                      const mr_format_set *given);
/* A link's formats fit each of two stages, but never both. */
void mr_plan_conflict(mr_plan_builder *builder, const mr_plan_link *link, const mr_plan_need *one,
                      const mr_plan_need *other);
