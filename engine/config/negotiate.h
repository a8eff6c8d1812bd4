/* Between negotiate.c, which goes over the graph, and ask.c, which asks one stage; nobody else includes this. */
#ifndef MILLRACE_CONFIG_NEGOTIATE_H
#define MILLRACE_CONFIG_NEGOTIATE_H

#include "engine/config/plan_builder.h"

/* Asks a stage whose inputs and outputs are prepared; its answer goes into the vertex and into needs. False where it
 * refuses, or takes nothing of what comes, which is diagnosed. */
bool mr_plan_ask(mr_plan_builder *builder, int vertex);

#endif
