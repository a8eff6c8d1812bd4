/* Between the files that make the schema (schema.c, schema_option.c); nobody else includes this. All write into an
 * open object of JSON. */
#ifndef MILLRACE_SPEC_SCHEMA_PARTS_H
#define MILLRACE_SPEC_SCHEMA_PARTS_H

#include "engine/base/json.h"
#include "engine/text/options.h"

/* A variable may stand where any plain value may: the pattern of a text that holds one. */
#define MR_SCHEMA_VARIABLE "\\$\\{"

/* A member `name`: what the option takes, and what an editor shows of it. */
void mr_schema_option(yajl_gen json, const char *name, const mr_option *option);
/* "description", "default" and "examples". */
void mr_schema_annotations(yajl_gen json, const mr_option *option);
/* What holds for a map from ids to anything: its size, and what an id may be. */
void mr_schema_ids(yajl_gen json, const mr_option *option);
/* "required" of those of one or two tables (either may be NULL), and "oneOf" of those that exclude each other. */
void mr_schema_required(yajl_gen json, const mr_option *table, const mr_option *other);
/* An alternative of "anyOf": a text that holds a variable. */
void mr_schema_variable(yajl_gen json);

#endif
