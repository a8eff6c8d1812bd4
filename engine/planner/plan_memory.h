/* Sizes pools and device memory. Only planner files may use it. */
#pragma once

#include "engine/planner/graph/builder.h"

/* Finds the pools, from output_buffers; may be called again. MR_ERROR_MEMORY. */
int mr_plan_pools(mr_plan_builder *builder);
/* Pools, totals and limits. MR_OK or MR_ERROR_MEMORY; diagnoses all else. */
int mr_plan_memory(mr_plan_builder *builder);
/* The most bytes for a whole frame with tensors, as a copy or a cut holds it. False if that is not known, with the
 * known part. */
bool mr_plan_frame_bytes(const mr_format_set *set, const mr_planned_result *results, bool more_results,
                         uint64_t *bytes);
/* About how much device memory the vertex uses, with the inputs uploaded for it. */
uint64_t mr_plan_estimate(const mr_plan_builder *builder, int vertex);
/* Whether a port's output is in buffers that the stage allocates, and how large they are; 0: not known. */
bool mr_plan_allocates(const mr_plan_vertex *vertex, size_t port, uint64_t *bytes);
