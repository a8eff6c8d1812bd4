/* millrace inspect TYPE --json. */
#include "tools/millrace/cli/types.h"
#include "tools/millrace/inspect/inspect.h"

static void put_ports(yajl_gen json, const char *key, const mr_port *ports) {
    char text[MR_FORMAT_SET_TEXT];
    MR_JSON_ARRAY(json, key)
        for (const mr_port *port = ports; port && port->name; port++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "name", port->name);
                mr_json_text(json, "help", port->help);
                MR_JSON_ARRAY(json, "accepts")
                    for (const mr_format_set *one = port->accepts; one && one->payload != MR_PAYLOAD_ANY; one++)
                        mr_json_text(json, NULL, mr_format_set_print(one, text, sizeof text));
                mr_json_bool(json, "many", port->many);
                mr_json_bool(json, "optional", port->optional);
            }
}

static void put_options(yajl_gen json, const char *key, const mr_option *table) {
    char text[MR_OPTION_TEXT];
    MR_JSON_ARRAY(json, key)
        for (const mr_option *option = table; option && option->name; option++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "name", option->name);
                mr_json_text(json, "type", mr_option_type_text(option, text, sizeof text));
                mr_json_bool(json, "required", option->required);
                mr_json_text(json, "default", option->fallback);
                mr_json_text(json, "range", mr_option_range_text(option, text, sizeof text));
                mr_json_text(json, "unit", option->unit);
                MR_JSON_ARRAY(json, "examples")
                    for (int i = 0; mr_option_example(option, i); i++)
                        mr_json_text(json, NULL, mr_option_example(option, i));
                if (option->choices)
                    MR_JSON_ARRAY(json, "choices")
                        for (const char *const *choice = option->choices; *choice; choice++)
                            mr_json_text(json, NULL, *choice);
                mr_json_text(json, "help", option->help);
                if (option->fields)
                    put_options(json, "fields", option->fields);
            }
}

void mr_inspect_json(yajl_gen json, const mr_stage_type *type) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", type->name);
        mr_json_text(json, "kind", mr_type_kind(type));
        mr_json_text(json, "summary", type->summary);
        mr_json_text(json, "help", type->help);
        mr_json_text(json, "entry", mr_inspect_entry(type));
        mr_json_bool(json, "blocking", type->blocking);
        mr_json_bool(json, "batches", type->batches);
        put_ports(json, "inputs", type->inputs);
        put_ports(json, "outputs", type->outputs);
        put_options(json, "options", type->options);
        put_options(json, "keys", mr_inspect_keys(type));
    }
}
