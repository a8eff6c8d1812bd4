/* The frame rate that a plan is expected to reach on cards that are not present: `plan --assume cuda:1xH100`, or on
 * simulated devices that are like one.
 *
 * It is a model, not a measurement. For every stage on such a card:
 *
 *     bytes that it reads and writes there / the memory's rate
 *     operations of networks / the rate of that precision
 *
 * The longer one keeps the card's processors busy. Launches are added to it, and calls in flight hide them from each
 * other. Copies move bytes at their direction's rate, and are alone on the engine. NVDEC's rate comes from its table
 * for the codec, by pixel count. Stages on the host take the time that a profile measured (--costs), or are reported as
 * not modelled. The model assumes that all source frames reach a stage, and that all sources emit equally many.
 *
 * Frames a second: limited by the resource with the most work, by a stage with too few calls in flight, or by sources
 * that keep to a clock. The arithmetic of kernels other than networks is not modelled, nor is what a stage names. Both
 * can only make it slower, so the rate is an upper bound. */
#pragma once

#include "engine/planner/graph/builder.h"

/* plan->expected, if a device is like a card. MR_ERROR_MEMORY. */
int mr_plan_expect(mr_plan_builder *builder);
