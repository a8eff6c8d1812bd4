/* The tensors that infer adds to frames, by name. Any thread. */
#pragma once

#include "millrace/frame.h"
#include "millrace/stage.h"

/* The newest tensor, or the newest with that name; NULL: none. */
const mr_planned_result *mr_planned_tensor(const mr_planned_input *input, const char *name);
const mr_result *mr_frame_tensor(const mr_frame *frame, const char *name);
