/* millrace list: the stage types. */
#include <stdio.h>

#include "engine/base/json.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/types.h"
#include "tools/millrace/cli/verbs.h"

typedef struct arguments {
    bool json;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION("json", NULL, arguments, json, "one JSON array"), MR_USAGE_PLUGINS, MR_USAGE_COMMON};

static const char *const examples[] = {"", "--plugin ./libmine.so --json", NULL};

static const mr_usage usage = {
    .verb = "list",
    .synopsis = "",
    .help = "Lists the stage types: the values of `type:` in a pipeline.",
    .options = options,
    .examples = examples,
};

static int print_json(void) {
    yajl_gen json = mr_json_create(true);
    if (!json)
        return mr_command_failed(MR_ERROR_MEMORY);
    MR_JSON_ARRAY(json, NULL)
        for (const mr_stage_type *const *type = mr_types(); *type; type++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "name", (*type)->name);
                mr_json_text(json, "kind", mr_type_kind(*type));
                mr_json_text(json, "summary", (*type)->summary);
            }
    int status = mr_json_finish(json, stdout);
    return status ? mr_command_failed(status) : 0;
}

static int print_text(void) {
    printf("%-14s %-12s %s\n", "TYPE", "KIND", "WHAT IT DOES");
    for (const mr_stage_type *const *type = mr_types(); *type; type++)
        printf("%-14s %-12s %s\n", (*type)->name, mr_type_kind(*type), (*type)->summary);
    return mr_flush_stdout();
}

static int run_verb(int argc, char **argv) {
    int code = 0;
    arguments given = {.json = false};
    if (!mr_usage_take(&usage, argc, argv, &given, &code))
        return code;
    return given.json ? print_json() : print_text();
}

const mr_verb mr_list_verb = {&usage, "list the stage types", run_verb};
