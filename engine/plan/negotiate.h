/* Between the files that decide formats (negotiate.c, ask.c, needs.c, choose.c, misfit.c); nobody else includes
 * this. */
#ifndef MILLRACE_PLAN_NEGOTIATE_H
#define MILLRACE_PLAN_NEGOTIATE_H

#include "engine/plan/builder.h"

/* negotiate.c: the port behind an input. */
const mr_port *mr_plan_port(const mr_plan_builder *builder, int vertex, int input);
/* Fills what comes in from what the stages before give; false where something does not fit, which is diagnosed. */
bool mr_plan_read_inputs(mr_plan_builder *builder, int vertex, mr_planned_input *inputs);
void mr_plan_set_inputs(mr_plan_vertex *vertex, mr_planned_input *inputs);
/* What outputs are before their stage was asked. */
void mr_plan_assume_outputs(mr_plan_vertex *vertex);

/* ask.c: asks a stage whose inputs and outputs are prepared; its answer goes into the vertex and into needs. False
 * where it refuses, or takes nothing of what comes, which is diagnosed. */
bool mr_plan_ask(mr_plan_builder *builder, int vertex);

/* The same file: whether every file that it names, and that can be looked for from here, is there. Each that is not is
 * diagnosed, whatever else is wrong. */
bool mr_plan_check_files(mr_plan_builder *builder, int vertex);

/* needs.c: backward. */
void mr_plan_narrow(mr_plan_builder *builder);

/* choose.c: MR_ERROR_MEMORY. */
int mr_plan_choose(mr_plan_builder *builder);

/* misfit.c: what comes over a link is `given`, and the port takes `need` (NULL: what it accepts), which is no part of
 * it. Names both ends and what to change: options of the stage that gives it, or stages that would convert. */
void mr_plan_misfit(mr_plan_builder *builder, const mr_plan_link *link, const mr_port *port, const mr_plan_need *need,
                    const mr_format_set *given);
/* What can come over a link fits each of two stages, but never both. */
void mr_plan_conflict(mr_plan_builder *builder, const mr_plan_link *link, const mr_plan_need *one,
                      const mr_plan_need *other);

#endif
