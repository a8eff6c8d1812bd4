/* millrace inspect TYPE, for a terminal. */
#include <stdio.h>
#include <string.h>

#include "tools/millrace/cli/table.h"
#include "tools/millrace/cli/types.h"
#include "tools/millrace/inspect/inspect.h"

enum { WIDTH = 100 };

static void print_indented(const char *text, int indent) {
    char first[32];
    snprintf(first, sizeof first, "%*s", indent, "");
    mr_print_filled(WIDTH, stdout, first, text);
}

static void print_ports(const char *title, const mr_port *ports) {
    if (!ports)
        return;
    char text[MR_INSPECT_FORMATS];
    printf("\n%s\n", title);
    for (const mr_port *port = ports; port->name; port++) {
        printf("  %-12s %s", port->many ? "(any name)" : port->name, mr_inspect_formats(port, text, sizeof text));
        printf("%s%s%s\n", port->optional ? " (may be left open)" : "", port->help ? ": " : "",
               port->help ? port->help : "");
    }
}

static void print_option(const mr_option *option, int indent) {
    char text[MR_OPTION_TEXT];
    printf("%*s%s: %s\n", indent, "", option->name, mr_option_describe(option, text, sizeof text));
    if (option->help)
        print_indented(option->help, indent + 4);
    for (const mr_option *field = option->fields; field && field->name; field++)
        print_option(field, indent + 4);
}

/* They are the same for every type: prints only the names. */
static void print_keys(const mr_stage_type *type) {
    char text[MR_INSPECT_FORMATS];
    size_t used = 0;
    text[0] = 0;
    for (const mr_option *key = mr_inspect_keys(type); key->name && used < sizeof text; key++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", key->name);
    printf("\nkeys of every %s (`millrace help pipeline`)\n", type->inputs ? "stage" : "source");
    print_indented(text, 2);
}

void mr_inspect_text(const mr_stage_type *type) {
    printf("%s (%s): %s\n", type->name, mr_type_kind(type), type->summary);
    if (type->help) {
        putchar('\n');
        print_indented(type->help, 2);
    }
    print_ports("inputs", type->inputs);
    print_ports("outputs", type->outputs);
    printf("\noptions%s\n", type->options && type->options->name ? "" : ": none");
    for (const mr_option *option = type->options; option && option->name; option++)
        print_option(option, 2);
    print_keys(type);
    printf("\nhow it runs: %s%s%s\n", mr_inspect_entry(type), type->blocking ? "; on its own thread" : "",
           type->batches ? "; batch: allowed" : "");
}
