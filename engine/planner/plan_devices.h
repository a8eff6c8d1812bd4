/* Devices, and stages on those that they name. Between the files of the planner. */
#pragma once

#include "engine/planner/graph/builder.h"

/* MR_OK or MR_ERROR_MEMORY; diagnoses all else. */
int mr_plan_place(mr_plan_builder *builder);
/* Sets entries and calls in flight, which depend on how many devices there are. */
void mr_plan_set_calls(mr_plan_builder *builder, int vertex);
void mr_plan_set_turns(mr_plan_builder *builder);
bool mr_plan_is_cuda(const mr_plan_device *device);
bool mr_plan_is_auto(const mr_spec_vertex *spec);
/* Whether the device exists, as far as can be known, and how much memory it has. Reports if it does not. */
int mr_plan_probe(mr_plan_builder *builder, mr_plan_device *device);
/* The type's objection to the vertex's inputs, on a device that exists: MR_OK, or mr_fail's status. Adds other remarks
 * from the type to the vertex's if `remarks` is set. */
int mr_plan_check_inputs(mr_plan_builder *builder, int vertex, const char *device, bool remarks);
/* Diagnoses why the stage cannot compute on that device, which it names at `place`. */
void mr_plan_check_device(mr_plan_builder *builder, const mr_spec_vertex *spec, mr_location place, int device);
void mr_plan_name_device(mr_plan_builder *builder, mr_plan_vertex *vertex);
/* Whether there is a device in reserve. Processors do not fail, and no device takes over from itself. */
bool mr_plan_settle_reserve(mr_plan_vertex *vertex);
/* The lesser of limit and memory; 0: neither is known. */
uint64_t mr_plan_most_bytes(const mr_plan_device *device);
/* A copy in the plan's memory; NULL without memory. */
const mr_card *mr_plan_keep_card(mr_plan_builder *builder, const mr_card *card);
