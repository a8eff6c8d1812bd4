/* Which objects of a frame a stage takes, and their numbers. */
#pragma once

#include "millrace/frame.h"
#include "millrace/objects.h"
#include "millrace/stage.h"

/* Whether an input's frames can have objects with tracks. False only if planning knows all results. */
bool mr_may_have_tracks(const mr_planned_input *input);
/* The number of a result's object at `index`; objects without one are numbered in order. */
int64_t mr_object_number(const mr_result *objects, size_t index);
