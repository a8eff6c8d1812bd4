/* Formats of all links. Between the files of the planner. */
#pragma once

#include "engine/planner/builder.h"

/* MR_OK or MR_ERROR_MEMORY; diagnoses all else. */
int mr_plan_negotiate(mr_plan_builder *builder);

/* The outputs of a vertex before it is asked. */
void mr_plan_assume_outputs(mr_plan_vertex *vertex);

/* ask.c: one stage is asked. */

/* The port that an input of the vertex goes to. */
const mr_port *mr_plan_port(const mr_plan_builder *builder, int vertex, int input);
/* Whether the vertex is a source that need not be asked: its formats are known, or are all that its type gives. Notes
 * its answer. */
bool mr_plan_is_not_asked(mr_plan_builder *builder, int vertex);
/* Whether no file that the stage reads is known to be missing; diagnoses those that are. */
bool mr_plan_has_files(mr_plan_builder *builder, int vertex);
/* Asks the stage, and notes its answer; false: it refused, or its answer cannot be right. It was diagnosed. */
bool mr_plan_ask(mr_plan_builder *builder, int vertex);
/* Asks a source that is not in the plan, but in a list, about its options alone, and opens nothing. MR_OK or
 * MR_ERROR_MEMORY; all else is diagnosed. */
int mr_plan_ask_listed(void *builder, const mr_spec_vertex *source);
