/* millrace check: proves pipelines without opening media or models. */
#include <stdio.h>
#include <string.h>

#include "engine/base/print.h"
#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/cli/overrides.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/models/scaling.h"

typedef enum format { TEXT, JSON, GITHUB } format;

typedef struct arguments {
    mr_overrides overrides;
    format format;
    bool deny;
    yajl_gen json; /* with format JSON */
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION("format", "text|json|github", arguments, format,
              "text is the default, json is one object for all files on standard output, github is annotations for "
              "GitHub's workflows"),
    MR_COMPLAINTS_OPTIONS,
    MR_OVERRIDE_OPTIONS,
    MR_OVERRIDE_ALLOWING_PLUGINS,
    MR_OVERRIDE_ASSUMPTIONS,
    MR_USAGE_COMMON,
};

static const char *const examples[] = {
    "pipelines/*.yaml --deny-warnings",
    "pipeline.yaml --assume cuda:8x80GiB --set stages.features.device=auto", NULL};

static const mr_usage usage = {
    .verb = "check",
    .synopsis = "PIPELINE.yaml...",
    .help = "Proves each pipeline from its text alone: keys, types, ranges, variables, links, formats. It opens "
            "no media, models, keys or tokens, so it can also check pipelines for other machines. \"-\" is standard "
            "input. It runs no code that the file names. It reports all errors (at most 100 per file), each with its "
            "place and, if there is one, a hint. The exit code is that of the first error (78: wrong pipeline, 66: no "
            "such file).",
    .options = options,
    .examples = examples,
};

/* ---- the files ------------------------------------------------------------------------------------------------- */

static int put_file(yajl_gen json, const char *path, const mr_diagnostics *wrong, int status, bool deny) {
    status = mr_complaints_status(wrong, status, deny);
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "file", path);
        mr_json_bool(json, "ok", !status);
        mr_json_text(json, "status", mr_status_words(status));
        mr_json_integer(json, "exit_code", mr_status_exit_code(status));
        mr_complaints_put(json, wrong);
    }
    return status;
}

static int tell(const arguments *how, const char *path, const mr_diagnostics *wrong, int status) {
    if (how->format == JSON)
        return put_file(how->json, path, wrong, status, how->deny);
    if (how->format == GITHUB)
        return mr_complaints_annotate(wrong, status, how->deny);
    status = mr_complaints_tell(wrong, status, how->deny);
    if (!status)
        mr_print(stdout, "%s: ok\n", path);
    return status;
}

static int check(const arguments *how, const char *path) {
    mr_pipeline *pipeline = NULL;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.path = path, .offline = true, .cuts = true};
    mr_overrides_apply(&how->overrides, &params);
    int status = mr_pipeline_open(&pipeline, &params, &wrong);
    status = status ? status : mr_scaling_check_pipeline(pipeline, &wrong);
    status = tell(how, path, &wrong, status);
    mr_diagnostics_fini(&wrong);
    mr_pipeline_destroy(&pipeline);
    return status;
}

/* The first status that is not OK. */
static int check_each(const arguments *how, char **paths) {
    int first = MR_OK;
    for (; *paths; paths++) {
        int status = check(how, *paths);
        first = first ? first : status;
    }
    return first;
}

/* As check_each, with one object for all files. */
static int check_json(arguments *how, char **paths) {
    int first = MR_OK;
    how->json = mr_json_create(true);
    if (!how->json)
        return mr_command_failed(MR_ERROR_MEMORY), MR_ERROR_MEMORY;
    MR_JSON_MAP(how->json, NULL) {
        MR_JSON_ARRAY(how->json, "files")
            first = check_each(how, paths);
        mr_json_bool(how->json, "ok", !first);
        mr_json_integer(how->json, "exit_code", mr_status_exit_code(first));
    }
    int failed = mr_json_finish(how->json, stdout);
    if (failed)
        mr_command_failed(failed);
    return failed ? failed : first;
}

static int run_verb(int argc, char **argv) {
    arguments given = {.overrides.no_plugins = true};
    int code = 0, status = MR_OK;
    bool goes_on = mr_usage_take(&usage, argc, argv, &given, &code);
    if (goes_on && optind == argc)
        code = mr_usage_error(&usage, "name at least one pipeline");
    goes_on = goes_on && !code;
    if (goes_on)
        status = given.format == JSON ? check_json(&given, argv + optind) : check_each(&given, argv + optind);
    mr_overrides_fini(&given.overrides);
    if (!goes_on)
        return code;
    code = mr_flush_stdout();
    return status ? mr_status_exit_code(status) : code;
}

const mr_verb mr_check_verb = {&usage, "prove pipelines without running them", run_verb};
