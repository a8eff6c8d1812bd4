/* millrace inspect: describes a stage type, or a file that stages read. */
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/inspect/inspect.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/find/model_folders.h"
#include "engine/base/nearest.h"
#include "engine/base/print.h"
#include "millrace/describe.h"
#include "tools/millrace/cli/card.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/types.h"
#include "tools/millrace/inspect/inspect_file.h"

typedef struct arguments {
    bool json, markdown;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION("json", NULL, arguments, json, "one JSON array"),
    MR_OPTION("markdown", NULL, arguments, markdown,
              "the reference of all types and of all keys of a pipeline (stages/README.md)"),
    MR_USAGE_PLUGINS,
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"preprocess", "null --json", "models/lite0.onnx", "yolox-nano", NULL};

static const mr_usage usage = {
    .verb = "inspect",
    .synopsis = "TYPE|FILE...",
    .help = "Shows stage types: ports with the formats that they accept, each option with its type, default, range, "
            "unit and meaning, and the names of the keys that every source or stage has. If a source and a stage have "
            "the same name, both are shown.\n"
            "For a model (FILE.onnx) it shows inputs, outputs, operators, the stages that can use it, and a pipeline "
            "with it; for weights (FILE.npy) the shape; for the folder of a trained classifier its card: classes, "
            "penalties that were tried, the stages that made its vectors, figures and the signature. A word is a file "
            "if it contains a slash or ends like one, and otherwise a type or a model's name, as `models` lists it.",
    .options = options,
    .examples = examples,
};

/* ---- parts of all three forms ---------------------------------------------------------------------------------- */

const mr_option *mr_inspect_keys(const mr_stage_type *type) {
    return mr_spec_keys(type->inputs ? MR_SPEC_STAGE : MR_SPEC_SOURCE);
}

const char *mr_inspect_entry(const mr_stage_type *type) {
    switch (type->entry) {
    case MR_ENTRY_STATELESS:
        return "stateless: several workers at once";
    case MR_ENTRY_PER_SOURCE:
        return "one instance for each source";
    default:
        return "one instance for all sources";
    }
}

const char *mr_inspect_formats(const mr_port *port, char *text, size_t bytes) {
    char one[MR_FORMAT_SET_TEXT];
    size_t length = 0;
    snprintf(text, bytes, "anything");
    for (const mr_format_set *set = port->accepts; set && set->payload != MR_PAYLOAD_ANY && length < bytes; set++)
        length += (size_t)snprintf(text + length, bytes - length, "%s%s", set == port->accepts ? "" : ", or ",
                                   mr_format_set_print(set, one, sizeof one));
    return text;
}

/* ---- the verb -------------------------------------------------------------------------------------------------- */

static int unknown(const char *name) {
    mr_nearest nearest = {.wanted = name};
    char hint[256];
    for (const mr_stage_type *const *type = mr_types(); *type; type++)
        mr_nearest_offer(&nearest, (*type)->name);
    mr_print(stderr, "millrace inspect: error: there is no stage type \"%s\", and no model of that name here\n"
                     "  hint: %s\n", name, mr_nearest_hint(&nearest, hint, sizeof hint,
                                   "`millrace list` lists types, and `millrace models` models"));
    return mr_status_exit_code(MR_ERROR_USAGE);
}

static bool is_type(const char *name) {
    for (const mr_stage_type *const *type = mr_types(); *type; type++)
        if (strcmp((*type)->name, name) == 0)
            return true;
    return false;
}

/* Finds both types if a name is a source's and a stage's. Returns their number. */
static int inspect(const char *name, yajl_gen json, bool first) {
    int found = 0;
    for (const mr_stage_type *const *type = mr_types(); *type; type++) {
        if (strcmp((*type)->name, name) != 0)
            continue;
        if (json) {
            mr_inspect_json(json, *type);
        } else {
            printf("%s", first && found == 0 ? "" : "\n");
            mr_inspect_text(*type);
        }
        found++;
    }
    return found;
}

static bool ends_in(const char *word, const char *const *endings) {
    const char *dot = strrchr(word, '.');
    while (dot && *endings && strcasecmp(dot, *endings) != 0)
        endings++;
    return dot && *endings;
}

/* Advice for a file that is not a model, by name; NULL: none. */
static const char *hint_for(const char *path) {
    static const char *const pipelines[] = {".yaml", ".yml", NULL};
    static const char *const media[] = {".mp4", ".mkv", ".mov", ".avi", ".webm", ".ts",  ".m4v", ".mpg",
                                        ".jpg", ".png", ".jpeg", ".webp", ".gif", ".tif", ".bmp", NULL};
    if (ends_in(path, pipelines))
        return "`millrace plan` shows a pipeline; `millrace check` looks for mistakes in it";
    return ends_in(path, media) ? "`millrace plan PIPELINE.yaml --input FILE` shows what a pipeline makes of it, and "
                                  "ffprobe describes the file"
                                : NULL;
}

static int refuse_file(const char *path, const char *hint) {
    mr_print(stderr, "millrace inspect: error: %s is not a model (.onnx), weights (.npy) or the folder of a classifier"
                     "\n  hint: %s\n", path, hint);
    return mr_status_exit_code(MR_ERROR_USAGE);
}

static int inspect_file(const char *path, yajl_gen json, bool first) {
    const char *hint = hint_for(path);
    if (hint)
        return refuse_file(path, hint);
    if (!json && !first)
        printf("\n");
    int status = mr_card_is_head(path) ? mr_inspect_head(path, json) : mr_inspect_file(path, json);
    return status ? mr_command_failed(status) : 0;
}

/* A type, or a model by its name. */
static int inspect_word(const char *word, yajl_gen json, bool first) {
    char model[PATH_MAX];
    if (inspect(word, json, first))
        return 0;
    return mr_named_model_find(word, ".onnx", model) ? inspect_file(model, json, first) : unknown(word);
}

static int inspect_each(char **names, bool as_json) {
    int code = 0;
    yajl_gen json = as_json ? mr_json_create(true) : NULL;
    if (as_json && !json)
        return mr_command_failed(MR_ERROR_MEMORY);
    if (json)
        mr_json_open_array(json, NULL);
    for (char **name = names; *name && !code; name++)
        if (mr_inspect_is_file(*name) || hint_for(*name) || (mr_card_is_head(*name) && !is_type(*name)))
            code = inspect_file(*name, json, name == names);
        else
            code = inspect_word(*name, json, name == names);
    if (json)
        yajl_gen_array_close(json);
    if (json && code)
        yajl_gen_free(json);
    int failed = json && !code ? mr_json_finish(json, stdout) : MR_OK;
    return failed ? mr_command_failed(failed) : code;
}

static int run_verb(int argc, char **argv) {
    int code = 0;
    arguments given = {.json = false};
    if (!mr_usage_take(&usage, argc, argv, &given, &code))
        return code;
    if (given.markdown && (given.json || optind < argc))
        return mr_usage_error(&usage, "--markdown is of all types and takes nothing beside it");
    if (optind == argc && !given.markdown)
        return mr_usage_error(&usage, "name a stage type or a model; \"millrace list\" lists types");
    if (given.markdown)
        mr_inspect_markdown(mr_types());
    else
        code = inspect_each(argv + optind, given.json);
    return code ? code : mr_flush_stdout();
}

const mr_verb mr_inspect_verb = {&usage, "show a stage type, an ONNX model or a trained classifier", run_verb};
