/* The JSON Schema (draft-07) of a pipeline, for editors and validators, made from the option tables of the stage types
 * and of the common keys (spec.h): exactly the keys that the parser reads.
 *
 * It accepts every text that the parser accepts, as YAML readers see it: values with units, numbers in quotes,
 * variables (${VAR}) in place of any plain value. It refuses unknown keys, missing keys, wrong types, unknown choices
 * and plain numbers out of range. `millrace check` finds the errors that a schema cannot see: missing inputs, formats,
 * ranges of values with units, ids used twice. */
#ifndef MILLRACE_SPEC_SCHEMA_H
#define MILLRACE_SPEC_SCHEMA_H

#include <yajl/yajl_gen.h>

#include "millrace/stage.h"

/* Writes the schema as one value. `types` is ended by NULL. */
void mr_schema_write(yajl_gen json, const mr_stage_type *const *types);

#endif
