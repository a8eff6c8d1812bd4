/* Changes the tree before it is read: overrides from the command line, and sources that name several streams. */
#pragma once

#include "engine/spec/spec_parser.h"

/* Replaces sources that name several streams by one for each, and applies the overrides of these. */
int mr_spec_spread(mr_spec_parser *parser);
/* Applies the command line's overrides to the tree. */
int mr_spec_override(mr_spec_parser *parser);
/* Sets an option by a dotted key; places show `name` instead of the file. */
int mr_spec_set(mr_spec_parser *parser, const char *name, const char *key, const char *value);
