/* The request `tap` of the control socket (control.h). */
#pragma once

#include <yajl/yajl_gen.h>

#include "millrace/sample.h"

/* Reads its options: wait (seconds), values, picture. MR_ERROR_USAGE for others. */
int mr_control_choose_sample(mr_sample_choices *choices, size_t count, const mr_override *options);
/* Writes the members of the answer's object `sample`. */
void mr_control_put_sample(yajl_gen json, const mr_sample *sample);
