/* Stage types by name, and the plugins that bring some. */
#pragma once

#include "engine/spec/spec_parser.h"

/* Loads the libraries of `plugins`, before a type is needed. */
int mr_spec_read_plugins(mr_spec_parser *parser);
/* Registers the types by name. Must be called again after plugins have added some. */
int mr_spec_index_types(mr_spec_parser *parser);
