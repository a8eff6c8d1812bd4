#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/thread.h"
#include "engine/spec/spec.h"
#include "engine/spec/spec_room.h"
#include "engine/text/options.h"
#include "engine/text/value.h"

/* A variable can replace any plain value: the pattern for a text that holds one. */
#define VARIABLE "\\$\\{"

static bool has_range(const mr_option *option) {
    return option->min != 0 || option->max != 0;
}

/* ---- plain values ---------------------------------------------------------------------------------------------- */

/* The types of JSON that a plain value may have after YAML is read, ended by NULL. The number or the variable may
 * always be a text in quotes. */
static const char *const *types_of(const mr_option *option) {
    static const char *const text[] = {"string", "number", "boolean", NULL};
    static const char *const boolean[] = {"boolean", "string", NULL};
    static const char *const whole[] = {"integer", "string", NULL};
    static const char *const number[] = {"number", "string", NULL};
    static const char *const words[] = {"string", NULL};
    switch (option->kind) {
    case MR_OPTION_BOOL:
        return boolean;
    case MR_OPTION_DURATION:
        /* Without a unit, only 0 is valid. */
        return option->min > 0 ? words : whole;
    case MR_OPTION_INT:
    case MR_OPTION_SIZE:
    case MR_OPTION_EVERY:
        return whole;
    case MR_OPTION_DOUBLE:
    case MR_OPTION_DOUBLES:
    case MR_OPTION_POINTS:
    case MR_OPTION_SHAPES:
    case MR_OPTION_BYTES:
    case MR_OPTION_RATE:
        return number;
    case MR_OPTION_FORMAT:
        return words;
    default:
        return text;
    }
}

static void put_limits(yajl_gen json, const mr_option *option) {
    double min = option->min, max = option->max;
    if (option->kind == MR_OPTION_DURATION)
        min = max = 0;
    else if (!has_range(option))
        return;
    /* A limit beyond the field's range is left out (mr_option_range_text). */
    if (min > -9.2e18)
        mr_json_number(json, "minimum", min);
    if (max < 9.2e18)
        mr_json_number(json, "maximum", max);
}

static void put_types(yajl_gen json, const mr_option *option, const char *more) {
    MR_JSON_ARRAY(json, "type") {
        for (const char *const *type = types_of(option); *type; type++)
            mr_json_text(json, NULL, *type);
        /* `null` may be the id of a stage, and names read elsewhere are ids. */
        if (option->elsewhere)
            mr_json_text(json, NULL, "null");
        if (more)
            mr_json_text(json, NULL, more);
    }
}

/* The constraints on a plain value: limits hold for numbers, the pattern for texts. `more`: one more type. */
static void put_plain(yajl_gen json, const mr_option *option, const char *more) {
    enum { WORDS = 64 };
    char pattern[MR_VALUE_PATTERN + WORDS + sizeof "|" VARIABLE];
    put_types(json, option, more);
    if (types_of(option)[0][0] != 's' || option->kind == MR_OPTION_FORMAT)
        put_limits(json, option);
    if (option->kind == MR_OPTION_PATH || option->kind == MR_OPTION_URI)
        mr_json_integer(json, "minLength", 1);
    mr_value_pattern(option->kind, pattern, MR_VALUE_PATTERN);
    if (!*pattern)
        return;
    for (const char *const *word = mr_option_words(option); word && *word; word++)
        snprintf(pattern + strlen(pattern), WORDS, "|^%s$", *word);
    strcat(pattern, "|" VARIABLE);
    mr_json_text(json, "pattern", pattern);
}

static void put_choices(yajl_gen json, const mr_option *option) {
    MR_JSON_ARRAY(json, "anyOf") {
        MR_JSON_MAP(json, NULL)
            MR_JSON_ARRAY(json, "enum")
                for (const char *const *choice = option->choices; *choice; choice++)
                    mr_json_text(json, NULL, *choice);
        MR_JSON_MAP(json, NULL)
            mr_json_text(json, "$ref", "#/definitions/variable");
    }
}

/* ---- values of any kind ---------------------------------------------------------------------------------------- */

static void put_fields(yajl_gen json, const mr_option *fields);

static void put_counts(yajl_gen json, const mr_option *option, const char *least, const char *most) {
    if (!has_range(option))
        return;
    mr_json_number(json, least, option->min);
    if (option->max < 9.2e18)
        mr_json_number(json, most, option->max);
}

static void put_list(yajl_gen json, const mr_option *option) {
    put_plain(json, option, "array");
    if (option->kind == MR_OPTION_DOUBLES) {
        mr_json_integer(json, "minItems", 1);
        mr_json_integer(json, "maxItems", MR_DOUBLES_MAX);
    } else {
        put_counts(json, option, "minItems", "maxItems");
    }
    MR_JSON_MAP(json, "items")
        put_plain(json, option, NULL);
}

static void put_pairs(yajl_gen json, const mr_option *option) {
    mr_json_text(json, "type", "object");
    put_counts(json, option, "minProperties", "maxProperties");
    MR_JSON_MAP(json, "additionalProperties")
        put_plain(json, option, NULL);
}

static void put_points(yajl_gen json, const mr_option *option) {
    mr_json_text(json, "type", "array");
    put_counts(json, option, "minItems", "maxItems");
    MR_JSON_MAP(json, "items") {
        mr_json_text(json, "type", "array");
        mr_json_integer(json, "minItems", 2);
        mr_json_integer(json, "maxItems", 2);
        MR_JSON_MAP(json, "items")
            put_plain(json, &(mr_option){.kind = MR_OPTION_DOUBLE}, NULL);
    }
}

static void put_shapes(yajl_gen json, const mr_option *option) {
    mr_json_text(json, "type", "object");
    MR_JSON_MAP(json, "additionalProperties")
        put_points(json, option);
}

/* One of a few words instead of a map. */
static void put_word_or_map(yajl_gen json, const mr_option *brief) {
    MR_JSON_ARRAY(json, "anyOf") {
        MR_JSON_MAP(json, NULL)
            mr_json_text(json, "type", "object");
        MR_JSON_MAP(json, NULL)
            put_choices(json, brief);
    }
}

/* A value instead of a map is checked as the field that it abbreviates. Number limits, patterns and properties each
 * apply only to values with their type, so they can be combined. */
static void put_map(yajl_gen json, const mr_option *option) {
    const mr_option *brief = mr_option_find(option->fields, option->brief ? option->brief : "");
    if (brief && brief->kind == MR_OPTION_ENUM)
        put_word_or_map(json, brief);
    else if (brief)
        put_plain(json, brief, "object");
    else
        mr_json_text(json, "type", "object");
    put_fields(json, option->fields);
}

static void put_ids(yajl_gen json, const mr_option *option) {
    mr_json_text(json, "type", "object");
    put_counts(json, option, "minProperties", "maxProperties");
    MR_JSON_MAP(json, "propertyNames")
        mr_json_text(json, "pattern",
                     option->fields == mr_spec_keys(MR_SPEC_DEVICE)   ? MR_SPEC_DEVICE_ID
                     : option->fields == mr_spec_keys(MR_SPEC_SOURCE) ? MR_SPEC_SOURCE_ID
                                                                      : MR_SPEC_ID);
}

static void put_maps(yajl_gen json, const mr_option *option) {
    put_ids(json, option);
    MR_JSON_MAP(json, "additionalProperties") {
        mr_json_text(json, "type", "object");
        put_fields(json, option->fields);
    }
}

static void put_constraints(yajl_gen json, const mr_option *option) {
    switch (option->kind) {
    case MR_OPTION_ENUM:
        put_choices(json, option);
        break;
    case MR_OPTION_DOUBLES:
    case MR_OPTION_STRINGS:
        put_list(json, option);
        break;
    case MR_OPTION_PAIRS:
        put_pairs(json, option);
        break;
    case MR_OPTION_POINTS:
        put_points(json, option);
        break;
    case MR_OPTION_SHAPES:
        put_shapes(json, option);
        break;
    case MR_OPTION_MAP:
        put_map(json, option);
        break;
    case MR_OPTION_MAPS:
        put_maps(json, option);
        break;
    default:
        put_plain(json, option, NULL);
        break;
    }
}

/* ---- for editors ----------------------------------------------------------------------------------------------- */

/* A scalar of an example or a default as JSON, parsed as YAML would. */
static void put_scalar(yajl_gen json, const char *key, const mr_option *option, const char *text) {
    const char *first = types_of(option)[0];
    double number;
    bool yes;
    if (*first == 'b' && mr_value_bool(text, &yes))
        mr_json_bool(json, key, yes);
    else if ((*first == 'n' || *first == 'i') && mr_value_double(text, &number))
        mr_json_number(json, key, number);
    else
        mr_json_text(json, key, text);
}

static void put_tree(yajl_gen json, const char *key, const mr_option *option, const mr_yaml *node) {
    if (node->kind == MR_YAML_SCALAR) {
        put_scalar(json, key, option, node->text);
        return;
    }
    bool map = node->kind == MR_YAML_MAP;
    if (map)
        mr_json_open_map(json, key);
    else
        mr_json_open_array(json, key);
    for (const mr_yaml *child = node->first; child; child = child->next)
        put_tree(json, child->key, option, child);
    if (map)
        yajl_gen_map_close(json);
    else
        yajl_gen_array_close(json);
}

/* An option's text, which is YAML if it may be a list or a map. */
static void put_value(yajl_gen json, const char *key, const mr_option *option, const char *text) {
    mr_arena arena = {0};
    mr_diagnostics diagnostics = {0};
    mr_yaml *root = NULL;
    bool several = option->kind == MR_OPTION_DOUBLES || option->kind == MR_OPTION_STRINGS ||
                   option->kind == MR_OPTION_PAIRS || option->kind == MR_OPTION_POINTS ||
                   option->kind == MR_OPTION_SHAPES;
    if (several)
        mr_yaml_parse(&root, &arena, "option", text, strlen(text), false, &diagnostics);
    if (root)
        put_tree(json, key, option, root);
    else
        put_scalar(json, key, option, text);
    mr_diagnostics_fini(&diagnostics);
    mr_arena_fini(&arena);
}

/* "How many frames the stage takes at once. Map; optional." */
static void put_description(yajl_gen json, const mr_option *option) {
    char about[MR_OPTION_TEXT], text[4 * MR_OPTION_TEXT];
    mr_option_describe(option, about, sizeof about);
    snprintf(text, sizeof text, "%s (%s)", option->help ? option->help : option->name, about);
    mr_json_text(json, "description", text);
}

static void put_annotations(yajl_gen json, const mr_option *option) {
    put_description(json, option);
    if (option->fallback && !option->required)
        put_value(json, "default", option, option->fallback);
    if (!mr_option_example(option, 0))
        return;
    MR_JSON_ARRAY(json, "examples")
        for (int i = 0; mr_option_example(option, i); i++)
            put_value(json, NULL, option, mr_option_example(option, i));
}

static void put_option(yajl_gen json, const char *name, const mr_option *option) {
    MR_JSON_MAP(json, name) {
        put_annotations(json, option);
        put_constraints(json, option);
    }
}

/* ---- maps of keys ---------------------------------------------------------------------------------------------- */

static void put_requires(yajl_gen json, const char *name) {
    MR_JSON_ARRAY(json, "required")
        mr_json_text(json, NULL, name);
}

static void put_names(yajl_gen json, const mr_option *table) {
    for (const mr_option *option = table; option && option->name; option++)
        if (option->required && !option->unless)
            mr_json_text(json, NULL, option->name);
}

/* One of two keys is required, and never both. The first one reports this, once. */
static void put_alternatives(yajl_gen json, const mr_option *table) {
    for (const mr_option *option = table; option && option->name; option++) {
        const mr_option *other = option->unless ? mr_option_find(table, option->unless) : NULL;
        if (!other || other < option)
            continue;
        MR_JSON_ARRAY(json, "oneOf") {
            MR_JSON_MAP(json, NULL)
                put_requires(json, option->name);
            MR_JSON_MAP(json, NULL)
                put_requires(json, other->name);
        }
    }
}

static void put_required(yajl_gen json, const mr_option *table, const mr_option *other) {
    MR_JSON_ARRAY(json, "required") {
        put_names(json, table);
        put_names(json, other);
    }
    put_alternatives(json, table);
    put_alternatives(json, other);
}

static void put_fields(yajl_gen json, const mr_option *fields) {
    MR_JSON_MAP(json, "properties")
        for (const mr_option *field = fields; field->name; field++)
            put_option(json, field->name, field);
    put_required(json, fields, NULL);
    mr_json_bool(json, "additionalProperties", false);
}

/* ---- sources, stages and the pipeline ---------------------------------------------------------------------------- */

/* Sources or stages: what their schema parts are called, and the types they can have. */
typedef struct section {
    const char *name; /* "source", "stage" */
    const mr_option *keys;
    bool sources;
    const char *implied; /* the type if none is given; NULL: it must be given */
} section;

static const char *reference(char *text, size_t bytes, const section *of, const char *part, const char *name) {
    snprintf(text, bytes, "#/definitions/%s%s%s", of->name, part, name);
    return text;
}

static void put_reference(yajl_gen json, const char *key, const section *of, const char *part, const char *name) {
    char text[256];
    MR_JSON_MAP(json, key)
        mr_json_text(json, "$ref", reference(text, sizeof text, of, part, name));
}

/* The next type that fits the section, from `type` on; NULL after the last. */
static const mr_stage_type *const *fitting(const mr_stage_type *const *type, const section *of) {
    while (*type && ((*type)->inputs == NULL) != of->sources)
        type++;
    return *type ? type : NULL;
}

#define EACH_TYPE(type, types, of)                                                                                   \
    const mr_stage_type *const *type = fitting(types, of); type; type = fitting(type + 1, of)

/* A type's name as YAML parses it: plain `null` is not a text there. */
static void put_name(yajl_gen json, const char *name) {
    MR_JSON_ARRAY(json, "enum") {
        mr_json_text(json, NULL, name);
        if (strcmp(name, "null") == 0)
            yajl_gen_null(json);
    }
}

/* ---- keys common to all ---------------------------------------------------------------------------------------- */

/* A variable, or once more any of the names: validators report this alternative, and then name them all. */
static void put_names_pattern(yajl_gen json, const section *of, const mr_stage_type *const *types) {
    char pattern[2048] = "^(";
    for (EACH_TYPE(type, types, of))
        for (const char *c = (*type)->name; *c; c++) {
            size_t length = strlen(pattern);
            snprintf(pattern + length, sizeof pattern - length, "%s%s%c", c == (*type)->name && length > 2 ? "|" : "",
                     *c == '.' ? "\\" : "", *c);
        }
    size_t length = strlen(pattern);
    snprintf(pattern + length, sizeof pattern - length, ")$|" VARIABLE);
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "type", "string");
        mr_json_text(json, "pattern", pattern);
    }
}

/* `type`: each with a description, which an editor can show beside it. */
static void put_type_key(yajl_gen json, const char *name, const section *of, const mr_option *key,
                         const mr_stage_type *const *types) {
    MR_JSON_MAP(json, name) {
        mr_option annotated = *key;
        annotated.fallback = of->implied;
        put_annotations(json, &annotated);
        MR_JSON_ARRAY(json, "anyOf") {
            for (EACH_TYPE(type, types, of))
                MR_JSON_MAP(json, NULL) {
                    put_name(json, (*type)->name);
                    mr_json_text(json, "description", (*type)->summary);
                }
            put_names_pattern(json, of, types);
        }
    }
}

static void define_keys(yajl_gen json, const section *of, const mr_stage_type *const *types) {
    char name[128];
    for (const mr_option *key = of->keys; key->name; key++) {
        snprintf(name, sizeof name, "%sKey.%s", of->name, key->name);
        if (strcmp(key->name, "type") == 0)
            put_type_key(json, name, of, key, types);
        else
            put_option(json, name, key);
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
    MR_JSON_MAP(json, name) {
        mr_json_text(json, "title", type->name);
        mr_json_text(json, "description", text);
        mr_json_text(json, "type", "object");
        MR_JSON_MAP(json, "properties") {
            put_keys(json, of);
            for (const mr_option *option = type->options; option && option->name; option++)
                put_option(json, option->name, option);
        }
        put_required(json, of->keys, type->options);
        mr_json_bool(json, "additionalProperties", false);
    }
}

/* ---- a source or stage of any type ----------------------------------------------------------------------------- */

/* If `type` is that type, the type's keys. */
static void put_if_type(yajl_gen json, const section *of, const mr_stage_type *type) {
    MR_JSON_MAP(json, NULL) {
        MR_JSON_MAP(json, "if") {
            MR_JSON_MAP(json, "properties")
                MR_JSON_MAP(json, "type")
                    put_name(json, type->name);
            put_requires(json, "type");
        }
        put_reference(json, "then", of, ".", type->name);
    }
}

/* If there is no `type`, the keys for the type `otherwise`. */
static void put_unless_typed(yajl_gen json, const section *of, const char *otherwise) {
    MR_JSON_MAP(json, "if")
        put_requires(json, "type");
    put_reference(json, "then", of, "", "");
    put_reference(json, "else", of, ".", otherwise);
}

/* One whose `type` selects the keys. A variable there can stand for any type: then only the common keys are known. */
static void define_any(yajl_gen json, const section *of, const mr_stage_type *const *types) {
    MR_JSON_MAP(json, of->name) {
        mr_json_text(json, "title", of->name);
        mr_json_text(json, "type", "object");
        MR_JSON_MAP(json, "properties")
            put_keys(json, of);
        put_requires(json, "type");
        MR_JSON_ARRAY(json, "allOf")
            for (EACH_TYPE(type, types, of))
                put_if_type(json, of, *type);
    }
}

static void define_section(yajl_gen json, const section *of, const mr_stage_type *const *types) {
    define_keys(json, of, types);
    define_any(json, of, types);
    for (EACH_TYPE(type, types, of))
        define_type(json, of, *type);
}

/* ---- the pipeline ---------------------------------------------------------------------------------------------- */

/* Those whose id is a type name. */
static void put_named(yajl_gen json, const section *of, const mr_stage_type *const *types) {
    MR_JSON_MAP(json, "properties")
        for (EACH_TYPE(type, types, of))
            MR_JSON_MAP(json, (*type)->name)
                put_unless_typed(json, of, (*type)->name);
}

/* `max` and `like` under `sources`. They are source ids if they are maps and `max` is no number. */
static void put_room(yajl_gen json, const section *of) {
    MR_JSON_MAP(json, "properties")
        for (const mr_option *key = mr_spec_room_keys(); key->name; key++)
            MR_JSON_MAP(json, key->name)
                MR_JSON_ARRAY(json, "anyOf") {
                    MR_JSON_MAP(json, NULL) {
                        put_annotations(json, key);
                        if (key->kind == MR_OPTION_MAP)
                            mr_json_text(json, "type", "object");
                        else
                            put_plain(json, key, NULL);
                    }
                    if (key->kind != MR_OPTION_MAP)
                        MR_JSON_MAP(json, NULL)
                            put_unless_typed(json, of, of->implied);
                }
}

/* `sources` and `stages`: a source without a type is of the default one; a stage's id may be a type's name. */
static void put_section(yajl_gen json, const mr_option *option, const section *of,
                        const mr_stage_type *const *types) {
    MR_JSON_MAP(json, option->name) {
        put_annotations(json, option);
        put_ids(json, option);
        if (of->sources)
            put_room(json, of);
        if (of->implied) {
            MR_JSON_MAP(json, "additionalProperties")
                put_unless_typed(json, of, of->implied);
        } else {
            put_named(json, of, types);
            put_reference(json, "additionalProperties", of, "", "");
        }
    }
}

static void put_properties(yajl_gen json, const section *sections, const mr_stage_type *const *types) {
    MR_JSON_MAP(json, "properties")
        for (const mr_option *option = mr_spec_keys(MR_SPEC_PIPELINE); option->name; option++) {
            const section *of = sections;
            while (of->name && of->keys != option->fields)
                of++;
            if (of->name)
                put_section(json, option, of, types);
            else
                put_option(json, option->name, option);
        }
}

static void put_definitions(yajl_gen json, const section *sections, const mr_stage_type *const *types) {
    MR_JSON_MAP(json, "definitions") {
        /* Without a description: editors would show it instead of the option's. */
        MR_JSON_MAP(json, "variable") {
            mr_json_text(json, "$comment", "a variable of the environment: ${VAR}, ${VAR:-default} or ${VAR:?message}");
            mr_json_text(json, "type", "string");
            mr_json_text(json, "pattern", VARIABLE);
        }
        for (const section *of = sections; of->name; of++)
            define_section(json, of, types);
    }
}

static void put_schema(yajl_gen json, const mr_stage_type *const *types) {
    const section sections[] = {
        {.name = "source", .keys = mr_spec_keys(MR_SPEC_SOURCE), .sources = true,
         .implied = mr_spec_implied_source(types)},
        {.name = "stage", .keys = mr_spec_keys(MR_SPEC_STAGE)},
        {0},
    };
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "$schema", "http://json-schema.org/draft-07/schema#");
        mr_json_text(json, "$id", "urn:millrace:pipeline:1");
        mr_json_text(json, "title", "millrace pipeline");
        mr_json_text(json, "description",
                     "A pipeline of millrace: sources, and the stages that their frames go through. Made by \"millrace "
                     "schema\".");
        mr_json_text(json, "type", "object");
        put_properties(json, sections, types);
        put_required(json, mr_spec_keys(MR_SPEC_PIPELINE), NULL);
        mr_json_bool(json, "additionalProperties", false);
        put_definitions(json, sections, types);
    }
}

int mr_schema_print(const mr_stage_type *const *types, FILE *stream) {
    MR_PLAIN_NUMBERS;
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    put_schema(json, types);
    return mr_json_finish(json, stream);
}
