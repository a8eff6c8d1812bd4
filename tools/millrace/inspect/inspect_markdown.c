/* millrace inspect --markdown: prints the reference of all keys and types, for stages/README.md. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "millrace/summary_fields.h"
#include "tools/millrace/cli/types.h"
#include "tools/millrace/inspect/inspect.h"

/* Escapes characters that would begin emphasis or a tag, or end a cell. Inside backticks it only escapes the end of a
 * cell. */
static void print_escaped(const char *text) {
    bool code = false;
    for (; *text; text++) {
        code ^= *text == '`';
        if (*text == '|' || (!code && strchr("*_<\\", *text)))
            putchar('\\');
        putchar(*text);
    }
}

/* Prints a row, and one for each field in a map, named by path. */
static void print_row(const mr_option *option, const char *path) {
    char text[MR_OPTION_TEXT], name[MR_OPTION_TEXT];
    snprintf(name, sizeof name, "%s%s%s", path, *path ? "." : "", option->name);
    printf("| `%s` | ", name);
    print_escaped(mr_option_describe(option, text, sizeof text));
    printf(" | ");
    print_escaped(option->help ? option->help : "");
    printf(" |\n");
    if (option->kind == MR_OPTION_MAP)
        for (const mr_option *field = option->fields; field->name; field++)
            print_row(field, name);
}

static void print_table(const char *of, const mr_option *table) {
    printf("| %s | value | meaning |\n| --- | --- | --- |\n", of);
    for (const mr_option *option = table; option->name; option++)
        print_row(option, "");
    putchar('\n');
}

/* The keys for each section's entries. They get a separate table, except those for sources and stages. */
static void print_sections(void) {
    for (const mr_option *key = mr_spec_keys(MR_SPEC_PIPELINE); key->name; key++) {
        if (key->kind != MR_OPTION_MAPS || key->fields == mr_spec_keys(MR_SPEC_SOURCE) ||
            key->fields == mr_spec_keys(MR_SPEC_STAGE))
            continue;
        printf("## Each of `%s`\n\n", key->name);
        print_table("key", key->fields);
    }
}

/* The default source type: the first that is marked as implied. */
static const char *implied_type(const mr_stage_type *const *types) {
    while (*types && ((*types)->inputs || !(*types)->implied))
        types++;
    return *types ? (*types)->name : NULL;
}

/* Prints a source's keys, with the default type. */
static void print_source_keys(const mr_stage_type *const *types) {
    printf("| key | value | meaning |\n| --- | --- | --- |\n");
    for (const mr_option *key = mr_spec_keys(MR_SPEC_SOURCE); key->name; key++) {
        mr_option shown = *key;
        if (strcmp(key->name, "type") == 0)
            shown.fallback = implied_type(types);
        print_row(&shown, "");
    }
    putchar('\n');
}

static void print_keys(const mr_stage_type *const *types) {
    printf("## The pipeline\n\n");
    print_table("key", mr_spec_keys(MR_SPEC_PIPELINE));
    print_sections();
    printf("## Every source\n\nThese keys, and the options of its type beside them.\n\n");
    print_source_keys(types);
    printf("## Every stage\n\nThese keys, and the options of its type beside them.\n\n");
    print_table("key", mr_spec_keys(MR_SPEC_STAGE));
}

static void print_ports(const char *direction, const mr_port *ports) {
    char text[MR_INSPECT_FORMATS];
    for (const mr_port *port = ports; port && port->name; port++) {
        printf("- %s ", direction);
        if (port->many)
            printf("of any name");
        else
            printf("`%s`", port->name);
        printf(": ");
        print_escaped(mr_inspect_formats(port, text, sizeof text));
        print_escaped(port->optional ? " (may be left open)" : "");
        print_escaped(port->help ? "; " : "");
        print_escaped(port->help ? port->help : "");
        putchar('\n');
    }
}

static void print_type(const mr_stage_type *type) {
    printf("### %s (%s)\n\n", type->name, mr_type_kind(type));
    putchar(toupper((unsigned char)type->summary[0]));
    print_escaped(type->summary + 1);
    printf(".\n\n");
    if (type->help) {
        print_escaped(type->help);
        printf("\n\n");
    }
    print_ports("input", type->inputs);
    print_ports("output", type->outputs);
    printf("- how it runs: %s%s%s\n\n", mr_inspect_entry(type), type->blocking ? "; on its own thread" : "",
           type->batches ? "; `batch` allowed" : "");
    if (type->options && type->options->name)
        print_table("option", type->options);
}

/* Prints the fields of a frame's record. In messages, times and dates have other names, which contain the unit. */
static void print_records(void) {
    static const char *const types[MR_FIELD_TYPES + 1] = {
        [MR_FIELD_BOOL] = "true",  [MR_FIELD_I32] = "whole number", [MR_FIELD_I64] = "whole number",
        [MR_FIELD_F32] = "number", [MR_FIELD_F64] = "number",       [MR_FIELD_TEXT] = "text",
        [MR_FIELD_TIME] = "time",  [MR_FIELD_DATE] = "date",        [MR_FIELD_ID] = "whole number",
        [MR_FIELD_TYPES] = "list"};
    const mr_record_field *one;
    printf("## Records\n\n"
           "The fields of the record of a frame, in the order of the lines that jsonl writes, and their numbers in\n"
           "message Record of `proto/results.proto`.\n\n"
           "| field | value | number | meaning |\n| --- | --- | --- | --- |\n");
    for (size_t i = 0; (one = mr_record_field_at(i)); i++) {
        printf("| `%s` | %s | %u | ", one->field.name, types[one->field.type], one->number);
        print_escaped(one->field.help);
        printf(" |\n");
    }
    putchar('\n');
}

static const char *summary_type(const mr_summary_field *field) {
    switch (field->type) {
    case MR_SUMMARY_BOOL:
    case MR_SUMMARY_NONE:
        return "true or false";
    case MR_SUMMARY_F64:
    case MR_SUMMARY_NS:
    case MR_SUMMARY_NS_F64:
    case MR_SUMMARY_RATIO:
        return "number";
    case MR_SUMMARY_DATE:
        return "date";
    case MR_SUMMARY_TEXT:
    case MR_SUMMARY_CHARS:
    case MR_SUMMARY_NAME:
        return "text";
    case MR_SUMMARY_BUCKETS:
        return "numbers";
    case MR_SUMMARY_PART:
        return "object";
    case MR_SUMMARY_LIST:
    case MR_SUMMARY_ARRAY:
        return "list";
    default:
        return "whole number";
    }
}

/* Prints one row per field. In objects and lists, the path comes before the name. */
static void print_summary_fields(const mr_summary_part *part, const char *path) {
    for (const mr_summary_field *field = part->fields; field->name; field++) {
        char name[128];
        const bool list = mr_summary_is_list(field);
        snprintf(name, sizeof name, "%s%s%s", path, field->name, list ? "[]" : "");
        if (field->type != MR_SUMMARY_INLINE) {
            printf("| `%s` | %s%s%s | ", name, summary_type(field), field->unit ? ", " : "",
                   field->unit ? field->unit : "");
            print_escaped(field->help);
            printf(" |\n");
        }
        if (field->part) {
            snprintf(name + strlen(name), sizeof name - strlen(name), field->type == MR_SUMMARY_INLINE ? "" : ".");
            print_summary_fields(field->part, name);
        }
    }
}

static void print_summary(void) {
    printf("## Summaries\n\n"
           "The fields of the summary of a process: `run --json`, and `status` in the answer to `ctl --json status`.\n"
           "After the end `run --json` also has `exit_code` and `error`. With nodes, `nodes` has one summary for each\n"
           "process.\n\n"
           "| field | value | meaning |\n| --- | --- | --- |\n");
    print_summary_fields(mr_summary_fields(), "");
    putchar('\n');
}

void mr_inspect_markdown(const mr_stage_type *const *types) {
    printf("# Reference\n\n"
           "Every key of a pipeline, and every stage type with its options. Made by `millrace inspect --markdown`\n"
           "from the tables that parsing reads; `tools/reference` renews it.\n\n");
    print_keys(types);
    print_records();
    print_summary();
    printf("## Sources\n\n");
    for (const mr_stage_type *const *type = types; *type; type++)
        if (!(*type)->inputs)
            print_type(*type);
    printf("## Stages\n\n");
    for (const mr_stage_type *const *type = types; *type; type++)
        if ((*type)->inputs)
            print_type(*type);
}
