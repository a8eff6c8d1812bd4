/* Formats for all links. Only planner files may use it. */
#pragma once

#include "engine/planner/graph/builder.h"

/* MR_OK or MR_ERROR_MEMORY; diagnoses all else. */
int mr_plan_negotiate(mr_plan_builder *builder);

/* A vertex's outputs before it is asked. */
void mr_plan_assume_outputs(mr_plan_vertex *vertex);

/* ask.c: one stage is asked. */

/* The port that a vertex's input goes to. */
const mr_port *mr_plan_port(const mr_plan_builder *builder, int vertex, int input);
/* Whether the vertex is a source that need not be asked: its formats are known, or are all that the type gives. Notes
 * the answer. */
bool mr_plan_is_not_asked(mr_plan_builder *builder, int vertex);
/* Whether no file that the stage reads is known to be missing; diagnoses those that are. */
bool mr_plan_has_files(mr_plan_builder *builder, int vertex);
/* Asks the stage and notes the answer. False: it refused, or the answer cannot be right, and this was diagnosed. */
bool mr_plan_ask(mr_plan_builder *builder, int vertex);
/* Asks a listed source that is not in the plan about its options alone, and opens nothing. MR_OK or MR_ERROR_MEMORY;
 * everything else is diagnosed. */
int mr_plan_ask_listed(void *builder, const mr_spec_vertex *source);
