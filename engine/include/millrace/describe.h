/* The language of pipelines, described: the keys of the YAML, the options of stage types in words, and the JSON Schema.
 * It is what `millrace inspect` and `millrace schema` print, from the tables that the parser reads.
 *
 *     char text[MR_OPTION_TEXT];
 *     for (const mr_option *option = type->options; option && option->name; option++)
 *         printf("%s: %s\n", option->name, mr_option_describe(option, text, sizeof text));
 *
 * The stage types are structs of their own (stage.h, option.h); mr_stage_types lists those of millrace. Pure functions;
 * any thread. Functions that take `text` write up to `bytes` there, with a final 0, cut if there is no room, and return
 * it. */
#ifndef MILLRACE_DESCRIBE_H
#define MILLRACE_DESCRIBE_H

#include <stddef.h>
#include <stdio.h>

#include "millrace/export.h"
#include "millrace/option.h"
#include "millrace/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- keys ------------------------------------------------------------------------------------------------------- */

/* The keys of a pipeline's top level, those that every source and every stage has beside the options of its type, and
 * those of a device under `devices` and of a node under `nodes`. */
typedef enum mr_spec_level {
    MR_SPEC_PIPELINE,
    MR_SPEC_SOURCE,
    MR_SPEC_STAGE,
    MR_SPEC_DEVICE,
    MR_SPEC_NODE
} mr_spec_level;
/* The table of a level. It ends with an element whose name is NULL, and lives as long as the process. */
MR_API const mr_option *mr_spec_keys(mr_spec_level level);

/* ---- records ---------------------------------------------------------------------------------------------------- */

/* One field of the record that jsonl, zmq.pub and zmq.push write of a frame, and csv as a column. */
typedef struct mr_record_field {
    mr_field field;  /* its offset is private; the type MR_FIELD_TYPES: a list */
    uint32_t number; /* in message Record of proto/results.proto */
} mr_record_field;
/* The fields in the order of JSON, from 0 on; NULL past the last. */
MR_API const mr_record_field *mr_record_field_at(size_t index);

/* ---- options ---------------------------------------------------------------------------------------------------- */

/* Enough room for a text of the functions below. */
enum { MR_OPTION_TEXT = 256 };
/* "whole number", "nearest | bilinear | area", "duration", "width x height", ... */
MR_API const char *mr_option_type_text(const mr_option *option, char *text, size_t bytes);
/* "1 to 64 frames", "at least 1ms", or "" if any value is accepted. */
MR_API const char *mr_option_range_text(const mr_option *option, char *text, size_t bytes);
/* Type, range and default at once: "whole number, 1 to 64 frames; default 8". */
MR_API const char *mr_option_describe(const mr_option *option, char *text, size_t bytes);
/* An accepted value as YAML text, of index 0, 1, ...: the option's own example, a telling default, or examples of its
 * kind; NULL after the last one. */
MR_API const char *mr_option_example(const mr_option *option, int index);
/* The entry of that name; NULL if there is none. `table` may be NULL. */
MR_API const mr_option *mr_option_find(const mr_option *table, const char *name);
/* The text of a STRING, PATH or URI in a filled options struct, such as mr_view_stage.options; NULL if it has none. The
 * text belongs to the struct's owner. */
MR_API const char *mr_option_string(const mr_option *option, const void *options);

/* ---- the schema ------------------------------------------------------------------------------------------------- */

/* Writes the JSON Schema (draft-07) of pipelines with these stage types (ended by NULL), for editors and validators:
 * exactly the keys that the parser reads.
 *
 * It accepts every text that the parser accepts, as YAML readers see it: values with units, numbers in quotes,
 * variables (${VAR}) in place of any plain value. It refuses unknown keys, missing keys, wrong types, unknown choices
 * and plain numbers out of range. A schema cannot see missing inputs, formats, ranges of values with units and ids used
 * twice: opening the pipeline or its plan reports them.
 *
 * MR_ERROR_MEMORY; MR_ERROR_IO if the stream fails; MR_ERROR_CLOSED if it is standard output, a pipe without a
 * reader. */
MR_API int mr_schema_print(const mr_stage_type *const *types, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
