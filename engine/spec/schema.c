#include "engine/spec/schema.h"

#include <stdio.h>
#include <string.h>

#include "engine/spec/schema_parts.h"
#include "engine/spec/spec.h"

/* Sources or stages: how their parts of the schema are called, and which types they may have. */
typedef struct section {
    const char *name; /* "source", "stage" */
    const mr_option *keys;
    bool sources;
    const char *implied; /* the type of one that names none; NULL: it must name one */
} section;

static const char *reference(char *text, size_t bytes, const section *of, const char *part, const char *name) {
    snprintf(text, bytes, "#/definitions/%s%s%s", of->name, part, name);
    return text;
}

static void put_reference(yajl_gen json, const char *key, const section *of, const char *part, const char *name) {
    char text[256];
    mr_json_open_map(json, key);
    mr_json_text(json, "$ref", reference(text, sizeof text, of, part, name));
    yajl_gen_map_close(json);
}

/* The next type that fits the section, from `type` on; NULL behind the last. */
static const mr_stage_type *const *fitting(const mr_stage_type *const *type, const section *of) {
    while (*type && ((*type)->inputs == NULL) != of->sources)
        type++;
    return *type ? type : NULL;
}

#define EACH_TYPE(type, types, of)                                                                                   \
    const mr_stage_type *const *type = fitting(types, of); type; type = fitting(type + 1, of)

/* A type's name as YAML gives it: plain `null` is no text there. */
static void put_name(yajl_gen json, const char *name) {
    mr_json_open_array(json, "enum");
    mr_json_text(json, NULL, name);
    if (strcmp(name, "null") == 0)
        yajl_gen_null(json);
    yajl_gen_array_close(json);
}

/* ---- the keys that all have ------------------------------------------------------------------------------------ */

/* A variable, or once more any of the names: validators tell of this alternative, and then name them all. */
static void put_names_pattern(yajl_gen json, const section *of, const mr_stage_type *const *types) {
    char pattern[2048] = "^(";
    for (EACH_TYPE(type, types, of))
        for (const char *c = (*type)->name; *c; c++) {
            size_t length = strlen(pattern);
            snprintf(pattern + length, sizeof pattern - length, "%s%s%c", c == (*type)->name && length > 2 ? "|" : "",
                     *c == '.' ? "\\" : "", *c);
        }
    size_t length = strlen(pattern);
    snprintf(pattern + length, sizeof pattern - length, ")$|" MR_SCHEMA_VARIABLE);
    mr_json_open_map(json, NULL);
    mr_json_text(json, "type", "string");
    mr_json_text(json, "pattern", pattern);
    yajl_gen_map_close(json);
}

/* `type`: each with what it does, which an editor shows beside it. */
static void put_type_key(yajl_gen json, const char *name, const section *of, const mr_option *key,
                         const mr_stage_type *const *types) {
    mr_json_open_map(json, name);
    mr_option annotated = *key;
    annotated.fallback = of->implied;
    mr_schema_annotations(json, &annotated);
    mr_json_open_array(json, "anyOf");
    for (EACH_TYPE(type, types, of)) {
        mr_json_open_map(json, NULL);
        put_name(json, (*type)->name);
        mr_json_text(json, "description", (*type)->summary);
        yajl_gen_map_close(json);
    }
    put_names_pattern(json, of, types);
    yajl_gen_array_close(json);
    yajl_gen_map_close(json);
}

static void define_keys(yajl_gen json, const section *of, const mr_stage_type *const *types) {
    char name[128];
    for (const mr_option *key = of->keys; key->name; key++) {
        snprintf(name, sizeof name, "%sKey.%s", of->name, key->name);
        if (strcmp(key->name, "type") == 0)
            put_type_key(json, name, of, key, types);
        else
            mr_schema_option(json, name, key);
    }
}

static void put_keys(yajl_gen json, const section *of) {
    for (const mr_option *key = of->keys; key->name; key++)
        put_reference(json, key->name, of, "Key.", key->name);
}

/* ---- a source or stage of one type ----------------------------------------------------------------------------- */

static void define_type(yajl_gen json, const section *of, const mr_stage_type *type) {
    char name[128], text[2048];
    snprintf(name, sizeof name, "%s.%s", of->name, type->name);
    snprintf(text, sizeof text, "%s%s%s", type->summary, type->help ? ". " : "", type->help ? type->help : "");
    mr_json_open_map(json, name);
    mr_json_text(json, "title", type->name);
    mr_json_text(json, "description", text);
    mr_json_text(json, "type", "object");
    mr_json_open_map(json, "properties");
    put_keys(json, of);
    for (const mr_option *option = type->options; option && option->name; option++)
        mr_schema_option(json, option->name, option);
    yajl_gen_map_close(json);
    mr_schema_required(json, of->keys, type->options);
    mr_json_bool(json, "additionalProperties", false);
    yajl_gen_map_close(json);
}

/* ---- a source or stage of any type ----------------------------------------------------------------------------- */

static void put_requires_type(yajl_gen json) {
    mr_json_open_array(json, "required");
    mr_json_text(json, NULL, "type");
    yajl_gen_array_close(json);
}

/* Where `type` says so, what the type says. */
static void put_if_type(yajl_gen json, const section *of, const mr_stage_type *type) {
    mr_json_open_map(json, NULL);
    mr_json_open_map(json, "if");
    mr_json_open_map(json, "properties");
    mr_json_open_map(json, "type");
    put_name(json, type->name);
    yajl_gen_map_close(json);
    yajl_gen_map_close(json);
    put_requires_type(json);
    yajl_gen_map_close(json);
    put_reference(json, "then", of, ".", type->name);
    yajl_gen_map_close(json);
}

/* Where there is no `type`, what the type `otherwise` says. */
static void put_unless_typed(yajl_gen json, const section *of, const char *otherwise) {
    mr_json_open_map(json, "if");
    put_requires_type(json);
    yajl_gen_map_close(json);
    put_reference(json, "then", of, "", "");
    put_reference(json, "else", of, ".", otherwise);
}

/* One whose type is told by `type`. A variable there may stand for any type: then only the keys that all have are
 * known. */
static void define_any(yajl_gen json, const section *of, const mr_stage_type *const *types) {
    mr_json_open_map(json, of->name);
    mr_json_text(json, "title", of->name);
    mr_json_text(json, "type", "object");
    mr_json_open_map(json, "properties");
    put_keys(json, of);
    yajl_gen_map_close(json);
    put_requires_type(json);
    mr_json_open_array(json, "allOf");
    for (EACH_TYPE(type, types, of))
        put_if_type(json, of, *type);
    yajl_gen_array_close(json);
    yajl_gen_map_close(json);
}

static void define_section(yajl_gen json, const section *of, const mr_stage_type *const *types) {
    define_keys(json, of, types);
    define_any(json, of, types);
    for (EACH_TYPE(type, types, of))
        define_type(json, of, *type);
}

/* ---- the pipeline ---------------------------------------------------------------------------------------------- */

/* Those whose id is the name of a type. */
static void put_named(yajl_gen json, const section *of, const mr_stage_type *const *types) {
    mr_json_open_map(json, "properties");
    for (EACH_TYPE(type, types, of)) {
        mr_json_open_map(json, (*type)->name);
        put_unless_typed(json, of, (*type)->name);
        yajl_gen_map_close(json);
    }
    yajl_gen_map_close(json);
}

/* `sources` and `stages`: a source without a type is of the default one; a stage may be called like a type. */
static void put_section(yajl_gen json, const mr_option *option, const section *of,
                        const mr_stage_type *const *types) {
    mr_json_open_map(json, option->name);
    mr_schema_annotations(json, option);
    mr_schema_ids(json, option);
    if (of->implied) {
        mr_json_open_map(json, "additionalProperties");
        put_unless_typed(json, of, of->implied);
        yajl_gen_map_close(json);
    } else {
        put_named(json, of, types);
        put_reference(json, "additionalProperties", of, "", "");
    }
    yajl_gen_map_close(json);
}

static void put_properties(yajl_gen json, const section *sections, const mr_stage_type *const *types) {
    mr_json_open_map(json, "properties");
    for (const mr_option *option = mr_spec_keys(MR_SPEC_PIPELINE); option->name; option++) {
        const section *of = sections;
        while (of->name && of->keys != option->fields)
            of++;
        if (of->name)
            put_section(json, option, of, types);
        else
            mr_schema_option(json, option->name, option);
    }
    yajl_gen_map_close(json);
}

static void put_definitions(yajl_gen json, const section *sections, const mr_stage_type *const *types) {
    mr_json_open_map(json, "definitions");
    /* Without a description: editors would show it in place of that of the option. */
    mr_json_open_map(json, "variable");
    mr_json_text(json, "$comment", "a variable of the environment: ${VAR}, ${VAR:-default} or ${VAR:?message}");
    mr_json_text(json, "type", "string");
    mr_json_text(json, "pattern", MR_SCHEMA_VARIABLE);
    yajl_gen_map_close(json);
    for (const section *of = sections; of->name; of++)
        define_section(json, of, types);
    yajl_gen_map_close(json);
}

void mr_schema_write(yajl_gen json, const mr_stage_type *const *types) {
    const section sections[] = {
        {.name = "source", .keys = mr_spec_keys(MR_SPEC_SOURCE), .sources = true,
         .implied = mr_spec_implied_source(types)},
        {.name = "stage", .keys = mr_spec_keys(MR_SPEC_STAGE)},
        {0},
    };
    mr_json_open_map(json, NULL);
    mr_json_text(json, "$schema", "http://json-schema.org/draft-07/schema#");
    mr_json_text(json, "$id", "urn:millrace:pipeline:1");
    mr_json_text(json, "title", "millrace pipeline");
    mr_json_text(json, "description",
                 "A pipeline of millrace: sources, and the stages that their frames go through. Made by \"millrace "
                 "schema\".");
    mr_json_text(json, "type", "object");
    put_properties(json, sections, types);
    mr_schema_required(json, mr_spec_keys(MR_SPEC_PIPELINE), NULL);
    mr_json_bool(json, "additionalProperties", false);
    put_definitions(json, sections, types);
    yajl_gen_map_close(json);
}
