/* millrace schema: a pipeline's JSON Schema, for editors and validators. */
#include "millrace/describe.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/types.h"
#include "tools/millrace/cli/verbs.h"

static const mr_usage_option options[] = {MR_USAGE_PLUGINS, MR_USAGE_COMMON};

static const char *const examples[] = {"> millrace.schema.json", "--plugin ./libmine.so > millrace.schema.json", NULL};

static const mr_usage usage = {
    .verb = "schema",
    .synopsis = "",
    .help = "Prints the JSON Schema (draft-07) of a pipeline, with the options of all stage types. An editor with a "
            "YAML language server completes and checks a pipeline if its first line names the schema file:\n\n"
            "  # yaml-language-server: $schema=millrace.schema.json",
    .options = options,
    .examples = examples,
};

static int run_verb(int argc, char **argv) {
    int code = 0;
    if (!mr_usage_take(&usage, argc, argv, NULL, &code))
        return code;
    int status = mr_schema_print(mr_types(), stdout);
    return status ? mr_command_failed(status) : 0;
}

const mr_verb mr_schema_verb = {&usage, "print the JSON Schema of a pipeline, for editors", run_verb};
