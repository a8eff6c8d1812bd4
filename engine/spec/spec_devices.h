/* The section `devices`, and stages' devices. */
#pragma once

#include "engine/spec/spec_parser.h"

/* Keys for an entry in `devices`. */
extern const mr_option mr_device_keys[];

int mr_spec_read_devices(mr_spec_parser *parser);
/* Whether a stage's `device` names devices. */
void mr_spec_check_device(const mr_spec_parser *parser, mr_spec_vertex *vertex);
