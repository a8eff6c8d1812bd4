/* One option as a JSON Schema. */
#include <stdio.h>
#include <string.h>

#include "engine/spec/schema_parts.h"
#include "engine/spec/spec.h"
#include "engine/text/value.h"

static bool has_range(const mr_option *option) {
    return option->min != 0 || option->max != 0;
}

/* ---- plain values ---------------------------------------------------------------------------------------------- */

/* The types of JSON that a plain value may have once YAML is read, ended by NULL. A text may always be the
 * number or the variable in quotes. */
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
        /* Without a unit only 0 is one. */
        return option->min > 0 ? words : whole;
    case MR_OPTION_INT:
    case MR_OPTION_SIZE:
        return whole;
    case MR_OPTION_DOUBLE:
    case MR_OPTION_DOUBLES:
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
    /* What is beyond the field is no limit (mr_option_range_text). */
    if (min > -9.2e18)
        mr_json_number(json, "minimum", min);
    if (max < 9.2e18)
        mr_json_number(json, "maximum", max);
}

static void put_types(yajl_gen json, const mr_option *option, const char *more) {
    mr_json_open_array(json, "type");
    for (const char *const *type = types_of(option); *type; type++)
        mr_json_text(json, NULL, *type);
    /* `null` may be the id of a stage, and the names that are read elsewhere are ids. */
    if (option->elsewhere)
        mr_json_text(json, NULL, "null");
    if (more)
        mr_json_text(json, NULL, more);
    yajl_gen_array_close(json);
}

/* The constraints on a plain value: limits hold for numbers, the pattern for texts. `more`: one more type. */
static void put_plain(yajl_gen json, const mr_option *option, const char *more) {
    char pattern[MR_VALUE_PATTERN + sizeof "|^auto$|" MR_SCHEMA_VARIABLE];
    put_types(json, option, more);
    if (types_of(option)[0][0] != 's' || option->kind == MR_OPTION_FORMAT)
        put_limits(json, option);
    if (option->kind == MR_OPTION_PATH || option->kind == MR_OPTION_URI)
        mr_json_integer(json, "minLength", 1);
    mr_value_pattern(option->kind, pattern, MR_VALUE_PATTERN);
    if (!*pattern)
        return;
    strcat(pattern, mr_option_takes_auto(option) ? "|^auto$|" MR_SCHEMA_VARIABLE : "|" MR_SCHEMA_VARIABLE);
    mr_json_text(json, "pattern", pattern);
}

void mr_schema_variable(yajl_gen json) {
    mr_json_open_map(json, NULL);
    mr_json_text(json, "$ref", "#/definitions/variable");
    yajl_gen_map_close(json);
}

static void put_choices(yajl_gen json, const mr_option *option) {
    mr_json_open_array(json, "anyOf");
    mr_json_open_map(json, NULL);
    mr_json_open_array(json, "enum");
    for (const char *const *choice = option->choices; *choice; choice++)
        mr_json_text(json, NULL, *choice);
    yajl_gen_array_close(json);
    yajl_gen_map_close(json);
    mr_schema_variable(json);
    yajl_gen_array_close(json);
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
    mr_json_open_map(json, "items");
    put_plain(json, option, NULL);
    yajl_gen_map_close(json);
}

static void put_pairs(yajl_gen json, const mr_option *option) {
    mr_json_text(json, "type", "object");
    put_counts(json, option, "minProperties", "maxProperties");
    mr_json_open_map(json, "additionalProperties");
    put_plain(json, option, NULL);
    yajl_gen_map_close(json);
}

/* One of a few words in place of a map. */
static void put_word_or_map(yajl_gen json, const mr_option *brief) {
    mr_json_open_array(json, "anyOf");
    mr_json_open_map(json, NULL);
    mr_json_text(json, "type", "object");
    yajl_gen_map_close(json);
    mr_json_open_map(json, NULL);
    put_choices(json, brief);
    yajl_gen_map_close(json);
    yajl_gen_array_close(json);
}

/* What stands in place of a map is held to the field it is short for: limits of numbers, patterns and properties each
 * look at values of their own type only, so that they may stand side by side. */
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

void mr_schema_ids(yajl_gen json, const mr_option *option) {
    mr_json_text(json, "type", "object");
    put_counts(json, option, "minProperties", "maxProperties");
    mr_json_open_map(json, "propertyNames");
    mr_json_text(json, "pattern",
                 option->fields == mr_spec_keys(MR_SPEC_DEVICE)   ? MR_SPEC_DEVICE_ID
                 : option->fields == mr_spec_keys(MR_SPEC_SOURCE) ? MR_SPEC_SOURCE_ID
                                                                  : MR_SPEC_ID);
    yajl_gen_map_close(json);
}

static void put_maps(yajl_gen json, const mr_option *option) {
    mr_schema_ids(json, option);
    mr_json_open_map(json, "additionalProperties");
    mr_json_text(json, "type", "object");
    put_fields(json, option->fields);
    yajl_gen_map_close(json);
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

/* ---- what an editor shows -------------------------------------------------------------------------------------- */

/* A scalar of an example or a default as JSON: what YAML would make of it there. */
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

/* An option's text, which is YAML where it may be a list or a map. */
static void put_value(yajl_gen json, const char *key, const mr_option *option, const char *text) {
    mr_arena arena = {0};
    mr_diagnostics diagnostics = {0};
    mr_yaml *root = NULL;
    bool several = option->kind == MR_OPTION_DOUBLES || option->kind == MR_OPTION_STRINGS ||
                   option->kind == MR_OPTION_PAIRS;
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

void mr_schema_annotations(yajl_gen json, const mr_option *option) {
    put_description(json, option);
    if (option->fallback && !option->required)
        put_value(json, "default", option, option->fallback);
    if (!mr_option_example(option, 0))
        return;
    mr_json_open_array(json, "examples");
    for (int i = 0; mr_option_example(option, i); i++)
        put_value(json, NULL, option, mr_option_example(option, i));
    yajl_gen_array_close(json);
}

void mr_schema_option(yajl_gen json, const char *name, const mr_option *option) {
    mr_json_open_map(json, name);
    mr_schema_annotations(json, option);
    put_constraints(json, option);
    yajl_gen_map_close(json);
}

/* ---- maps of keys ---------------------------------------------------------------------------------------------- */

static void put_names(yajl_gen json, const mr_option *table) {
    for (const mr_option *option = table; option && option->name; option++)
        if (option->required && !option->unless)
            mr_json_text(json, NULL, option->name);
}

static void put_alternative(yajl_gen json, const char *name) {
    mr_json_open_map(json, NULL);
    mr_json_open_array(json, "required");
    mr_json_text(json, NULL, name);
    yajl_gen_array_close(json);
    yajl_gen_map_close(json);
}

/* One of two keys is required, and never both: told once, by the first of them. */
static void put_alternatives(yajl_gen json, const mr_option *table) {
    for (const mr_option *option = table; option && option->name; option++) {
        const mr_option *other = option->unless ? mr_option_find(table, option->unless) : NULL;
        if (!other || other < option)
            continue;
        mr_json_open_array(json, "oneOf");
        put_alternative(json, option->name);
        put_alternative(json, other->name);
        yajl_gen_array_close(json);
    }
}

void mr_schema_required(yajl_gen json, const mr_option *table, const mr_option *other) {
    mr_json_open_array(json, "required");
    put_names(json, table);
    put_names(json, other);
    yajl_gen_array_close(json);
    put_alternatives(json, table);
    put_alternatives(json, other);
}

static void put_fields(yajl_gen json, const mr_option *fields) {
    mr_json_open_map(json, "properties");
    for (const mr_option *field = fields; field->name; field++)
        mr_schema_option(json, field->name, field);
    yajl_gen_map_close(json);
    mr_schema_required(json, fields, NULL);
    mr_json_bool(json, "additionalProperties", false);
}
