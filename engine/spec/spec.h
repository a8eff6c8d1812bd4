/* The specification: the content of a pipeline's YAML file, checked by itself. text -> spec -> plan.
 *
 * Ids, types, options and inputs are kept as written, with places. The plan checks whether inputs exist and formats fit
 * (plan.h). The engine knows no stage type by name: the caller must pass a list, and the default source type's name.
 *
 * Command line overrides and inputs change the tree before anything is read from it, so a variable that they replace
 * need not be set. Relative paths in them start in the working directory, those in the file in the file's directory.
 *
 * A spec owns all strings and options and must not change once parsed. One thread at a time. */
#pragma once

#include "engine/spec/spec_data.h"

/* A source's name in the file. */
const char *mr_spec_source_name(const mr_spec *spec, size_t source);

/* The type of a source that gives none: the first source type marked so (mr_stage_type.implied); NULL if none is. */
const char *mr_spec_implied_source(const mr_stage_type *const *types);

/* The first error's status, or MR_OK. If the text is a tree at all, *spec is created even with errors (`broken`), so
 * that mr_plan_create can find those of the graph too; else it is NULL. */
int mr_spec_parse(mr_spec **spec, const mr_spec_params *params, mr_diagnostics *diagnostics);
void mr_spec_destroy(mr_spec **spec);

/* Reads a regular file, or standard input, up to one byte more than is accepted, so that too long a file is refused by
 * the parser. 0, EINVAL for any other file, ENOMEM, or the error of the read. */
int mr_spec_read_bytes(mr_arena *arena, int descriptor, const char **text, size_t *bytes);
