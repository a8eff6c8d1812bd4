/* Describes the pipeline language: YAML keys, stage options in words, and the JSON Schema. `millrace inspect` and
 * `millrace schema` print it from the tables that the parser reads.
 *
 *     char text[MR_OPTION_TEXT];
 *     for (const mr_option *option = type->options; option && option->name; option++)
 *         printf("%s: %s\n", option->name, mr_option_describe(option, text, sizeof text));
 *
 * Stage types are structs (stage.h, option.h); mr_stage_types lists those of millrace. All functions are pure; any
 * thread. Functions with `text` write up to `bytes` there, with a final 0, and return it. They cut a text that does not
 * fit. */
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

/* Where a key may stand: at the top level, in a source, in a stage, in a device under `devices`, or in a node under
 * `nodes`. Sources and stages can also have the options of their types. */
typedef enum mr_spec_level {
    MR_SPEC_PIPELINE,
    MR_SPEC_SOURCE,
    MR_SPEC_STAGE,
    MR_SPEC_DEVICE,
    MR_SPEC_NODE
} mr_spec_level;
/* A level's table. It ends with a NULL name and lives as long as the process. */
MR_API const mr_option *mr_spec_keys(mr_spec_level level);

/* ---- records ---------------------------------------------------------------------------------------------------- */

/* A field in a frame's record. jsonl, zmq.pub and zmq.push write it as a field, csv as a column. */
typedef struct mr_record_field {
    mr_field field;  /* The offset is private. The type MR_FIELD_TYPES: a list. */
    uint32_t number; /* number in message Record of proto/results.proto */
} mr_record_field;
/* The fields in JSON order, from 0. NULL past the last. */
MR_API const mr_record_field *mr_record_field_at(size_t index);

/* ---- options ---------------------------------------------------------------------------------------------------- */

/* Enough room for a text from the functions below. */
enum { MR_OPTION_TEXT = 256 };
/* "whole number", "nearest | bilinear | area", "duration", "width x height", ... */
MR_API const char *mr_option_type_text(const mr_option *option, char *text, size_t bytes);
/* "1 to 64 frames", "at least 1ms", or "" if any value is accepted. */
MR_API const char *mr_option_range_text(const mr_option *option, char *text, size_t bytes);
/* Type, range and default: "whole number, 1 to 64 frames; default 8". */
MR_API const char *mr_option_describe(const mr_option *option, char *text, size_t bytes);
/* An accepted value as YAML text, for index 0, 1, ...: the option's example, an informative default, or examples of the
 * option's kind. NULL past the last. */
MR_API const char *mr_option_example(const mr_option *option, int index);
/* The entry with that name. NULL: there is none. `table` may be NULL. */
MR_API const mr_option *mr_option_find(const mr_option *table, const char *name);
/* The text of a STRING, PATH or URI in a filled options struct, such as mr_view_stage.options. NULL: it has none. The
 * struct's owner owns the text. */
MR_API const char *mr_option_string(const mr_option *option, const void *options);

/* ---- the schema ------------------------------------------------------------------------------------------------- */

/* Writes the JSON Schema (draft-07) of pipelines with these stage types (ended by NULL), for editors and validators. It
 * has exactly the keys that the parser reads.
 *
 * It accepts every text that the parser accepts, as YAML readers see it: values with units, quoted numbers, and
 * variables (${VAR}) in place of any plain value. It refuses unknown keys, missing keys, wrong types, unknown choices
 * and plain numbers out of range. A schema cannot check inputs, formats, ranges of values with units, or repeated ids:
 * opening the pipeline or its plan reports those.
 *
 * MR_ERROR_MEMORY. MR_ERROR_IO: the stream failed. MR_ERROR_CLOSED: the stream is standard output, a pipe without a
 * reader. */
MR_API int mr_schema_print(const mr_stage_type *const *types, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
