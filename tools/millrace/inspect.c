/* millrace inspect: everything a stage type says of itself. */
#include <stdio.h>
#include <string.h>

#include "engine/config/nearest.h"
#include "engine/config/option.h"
#include "tools/millrace/command.h"
#include "engine/base/json.h"
#include "tools/millrace/types.h"

enum { JSON = 256, WIDTH = 100 };

static const struct option options[] = {{"json", no_argument, NULL, JSON}, MR_USAGE_COMMON};

static const mr_usage usage = {
    .verb = "inspect",
    .synopsis = "TYPE... [--json]",
    .help = "Shows stage types: ports with the formats they take, and every option with its type, default, range,\n"
            "unit and meaning. A name that stands for a source and for a stage shows both.\n\n"
            "  --json             as one JSON array\n",
    .options = options,
};

static const char *entry_text(mr_entry entry) {
    switch (entry) {
    case MR_ENTRY_STATELESS:
        return "stateless: several workers at once";
    case MR_ENTRY_PER_SOURCE:
        return "one instance for each source";
    default:
        return "one instance for all sources";
    }
}

/* ---- text ------------------------------------------------------------------------------------------------------ */

/* Breaks a text into lines that start at column `indent`; the first one starts where the cursor is. */
static void print_wrapped(const char *text, int indent) {
    int column = indent;
    for (const char *word = text; *word;) {
        int length = (int)strcspn(word, " ");
        if (column > indent && column + 1 + length > WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", length, word);
        column += length;
        word += length;
        word += strspn(word, " ");
    }
    putchar('\n');
}

static void print_formats(const mr_port *port) {
    char text[MR_FORMAT_SET_TEXT];
    if (!port->accepts || port->accepts[0].payload == MR_PAYLOAD_ANY) {
        printf("anything");
        return;
    }
    for (const mr_format_set *one = port->accepts; one->payload != MR_PAYLOAD_ANY; one++)
        printf("%s%s", one == port->accepts ? "" : ", or ", mr_format_set_print(one, text, sizeof text));
}

static void print_ports(const char *title, const mr_port *ports) {
    if (!ports)
        return;
    printf("\n%s\n", title);
    for (const mr_port *port = ports; port->name; port++) {
        printf("  %-12s ", port->many ? "(any name)" : port->name);
        print_formats(port);
        printf("%s%s%s\n", port->optional ? " (may be left open)" : "", port->help ? ": " : "",
               port->help ? port->help : "");
    }
}

static void print_option(const mr_option *option, int indent) {
    char text[MR_OPTION_TEXT];
    printf("%*s%s: %s\n", indent, "", option->name, mr_option_describe(option, text, sizeof text));
    if (option->help) {
        printf("%*s", indent + 4, "");
        print_wrapped(option->help, indent + 4);
    }
    for (const mr_option *field = option->fields; field && field->name; field++)
        print_option(field, indent + 4);
}

static void print_type(const mr_stage_type *type) {
    printf("%s (%s): %s\n", type->name, mr_type_kind(type), type->summary);
    if (type->help) {
        printf("\n  ");
        print_wrapped(type->help, 2);
    }
    print_ports("inputs", type->inputs);
    print_ports("outputs", type->outputs);
    printf("\noptions%s\n", type->options && type->options->name ? "" : ": none of its own");
    for (const mr_option *option = type->options; option && option->name; option++)
        print_option(option, 2);
    printf("\nhow it runs: %s%s%s\n", entry_text(type->entry), type->blocking ? "; on a thread of its own" : "",
           type->batches ? "; batch: allowed" : "");
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static void put_ports(yajl_gen json, const char *key, const mr_port *ports) {
    char text[MR_FORMAT_SET_TEXT];
    mr_json_open_array(json, key);
    for (const mr_port *port = ports; port && port->name; port++) {
        mr_json_open_map(json, NULL);
        mr_json_text(json, "name", port->name);
        mr_json_text(json, "help", port->help);
        mr_json_open_array(json, "accepts");
        for (const mr_format_set *one = port->accepts; one && one->payload != MR_PAYLOAD_ANY; one++)
            mr_json_text(json, NULL, mr_format_set_print(one, text, sizeof text));
        yajl_gen_array_close(json);
        mr_json_bool(json, "many", port->many);
        mr_json_bool(json, "optional", port->optional);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
}

static void put_options(yajl_gen json, const char *key, const mr_option *table) {
    char text[MR_OPTION_TEXT];
    mr_json_open_array(json, key);
    for (const mr_option *option = table; option && option->name; option++) {
        mr_json_open_map(json, NULL);
        mr_json_text(json, "name", option->name);
        mr_json_text(json, "type", mr_option_type_text(option, text, sizeof text));
        mr_json_bool(json, "required", option->required);
        mr_json_text(json, "default", option->fallback);
        mr_json_text(json, "range", mr_option_range_text(option, text, sizeof text));
        mr_json_text(json, "unit", option->unit);
        if (option->choices) {
            mr_json_open_array(json, "choices");
            for (const char *const *choice = option->choices; *choice; choice++)
                mr_json_text(json, NULL, *choice);
            yajl_gen_array_close(json);
        }
        mr_json_text(json, "help", option->help);
        if (option->fields)
            put_options(json, "fields", option->fields);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
}

static void put_type(yajl_gen json, const mr_stage_type *type) {
    mr_json_open_map(json, NULL);
    mr_json_text(json, "name", type->name);
    mr_json_text(json, "kind", mr_type_kind(type));
    mr_json_text(json, "summary", type->summary);
    mr_json_text(json, "help", type->help);
    mr_json_text(json, "entry", entry_text(type->entry));
    mr_json_bool(json, "blocking", type->blocking);
    mr_json_bool(json, "batches", type->batches);
    put_ports(json, "inputs", type->inputs);
    put_ports(json, "outputs", type->outputs);
    put_options(json, "options", type->options);
    yajl_gen_map_close(json);
}

/* ---- the verb -------------------------------------------------------------------------------------------------- */

static int unknown(const char *name) {
    mr_nearest nearest = {.wanted = name};
    char hint[256];
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++)
        mr_nearest_offer(&nearest, (*type)->name);
    fprintf(stderr, "millrace inspect: error: unknown stage type \"%s\"\n  hint: %s\n", name,
            mr_nearest_hint(&nearest, hint, sizeof hint, "\"millrace list\" lists them"));
    return mr_status_exit_code(MR_ERROR_USAGE);
}

/* Both types of a name that stands for a source and for a stage; how many there were. */
static int inspect(const char *name, yajl_gen json, bool first) {
    int found = 0;
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++) {
        if (strcmp((*type)->name, name) != 0)
            continue;
        if (json) {
            put_type(json, *type);
        } else {
            printf("%s", first && found == 0 ? "" : "\n");
            print_type(*type);
        }
        found++;
    }
    return found;
}

int mr_command_inspect(int argc, char **argv) {
    int code = 0, got;
    bool as_json = false;
    while ((got = mr_usage_next(&usage, argc, argv, &code)) != -1) {
        if (got == MR_USAGE_EXIT)
            return code;
        as_json = true;
    }
    if (optind == argc)
        return mr_usage_error(&usage, "name a stage type; \"millrace list\" lists them");
    yajl_gen json = as_json ? mr_json_create(true) : NULL;
    if (as_json && !json)
        return mr_command_failed(MR_ERROR_MEMORY);
    if (json)
        mr_json_open_array(json, NULL);
    for (int i = optind; i < argc && !code; i++)
        if (!inspect(argv[i], json, i == optind))
            code = unknown(argv[i]);
    if (json)
        yajl_gen_array_close(json);
    if (json && code)
        yajl_gen_free(json);
    else if (json && mr_json_finish(json, stdout))
        code = mr_command_failed(MR_ERROR_IO);
    return code ? code : mr_flush_stdout();
}
