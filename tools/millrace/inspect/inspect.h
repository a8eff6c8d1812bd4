/* Describes a stage type in three forms: text for a terminal, JSON for scripts, and the Markdown reference. All of it
 * comes from the type itself and from the key tables that parsing reads. */
#pragma once

#include "engine/base/json.h"
#include "millrace/describe.h"
#include "millrace/stage.h"

/* Prints one type on standard output. */
void mr_inspect_text(const mr_stage_type *type);
/* Writes one type as an object. */
void mr_inspect_json(yajl_gen json, const mr_stage_type *type);
/* Prints all types (ended by NULL) and all pipeline keys on standard output. */
void mr_inspect_markdown(const mr_stage_type *const *types);

/* The common keys beside the type's options. */
const mr_option *mr_inspect_keys(const mr_stage_type *type);
/* "stateless: several workers at once", ... */
const char *mr_inspect_entry(const mr_stage_type *type);
/* "packets, or pictures I420", "anything"; returns `text`. */
enum { MR_INSPECT_FORMATS = 1024 };
const char *mr_inspect_formats(const mr_port *port, char *text, size_t bytes);
