/* The section `nodes`. */
#pragma once

#include "engine/spec/spec_parser.h"

/* Keys for an entry in `nodes`, and for a stage's `cut`. */
extern const mr_option mr_node_keys[], mr_cut_keys[];

int mr_spec_read_nodes(mr_spec_parser *parser);
