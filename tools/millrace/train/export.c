/* millrace export: writes a classifier as an ONNX file for other programs. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/file.h"
#include "engine/base/print.h"
#include "millrace/describe.h"
#include "millrace/signature.h"
#include "tools/millrace/cli/card.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/run/progress.h"
#include "tools/millrace/train/exporting.h"
#include "tools/millrace/train/set.h"
#include "tools/millrace/train/stop.h"

enum { DATA = 256 };

typedef struct arguments {
    mr_overrides overrides;
    const char *from, *data, *stage, *output, *sign_key;
    bool json;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION_FIELD("output", arguments, output),
    MR_OPTION_CODE("data", required_argument, DATA),
    MR_OPTION_FIELD("stage", arguments, stage),
    MR_OPTION_FIELD("sign", arguments, sign_key),
    MR_OPTION_CODE("set", required_argument, MR_OVERRIDE_SET),
    MR_OVERRIDE_FORCING,
    MR_USAGE_PLUGINS,
    MR_OVERRIDE_FORBIDDING_PLUGINS,
    MR_OPTION_FIELD("json", arguments, json),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"pipelines/digits.yaml --data build/digits --output digits.onnx",
                                       "build/head --output head.onnx", NULL};

static const mr_usage usage = {
    .verb = "export",
    .synopsis = "PIPELINE.yaml|HEAD --output FILE.onnx [--data FOLDER|LIST] [--stage ID] [--sign KEYFILE]\n"
                "                       [--set KEY=VALUE]... [--force] [--plugin FILE]... [--no-plugins] [--json]",
    .help =
        "Writes a trained classifier as one ONNX file, which any program with an ONNX runtime can use.\n"
        "PIPELINE.yaml stands for the classifier of its `classify`: if `features` or `infer` comes right\n"
        "before it, the file contains that network too, and takes its input. Otherwise, and for the folder\n"
        "HEAD, its input is a vector. Outputs are `scores` and `class`; metadata have the labels, the stages,\n"
        "and how pictures are prepared.\n\n"
        "Before the file is written, ONNX Runtime runs it and its scores are compared with those of classify: on 64\n"
        "pictures of --data, or for HEAD on random vectors. If a score differs by more than 0.0001, no file is\n"
        "written.\n\n"
        "  --output FILE.onnx the file to write; one that exists is replaced\n"
        "  --data PATH        pictures to compare on, as `millrace train` takes them; needed for a pipeline\n"
        "  --stage ID         the stage of type classify, if there are several\n"
        "  --sign KEYFILE     signs the file with a private key (`millrace keygen --sign`): FILE.onnx.sig beside it\n"
        "                     is the signature, FILE.onnx.pub the public key\n"
        "  --set KEY=VALUE    sets one value of the YAML, such as stages.classify.head=head\n"
            MR_OVERRIDE_FORCING_HELP MR_USAGE_PLUGINS_HELP MR_OVERRIDE_NO_PLUGINS_HELP
        "  --json             one JSON object\n",
    .options = options,
    .examples = examples,
};

static int take_option(void *given, int option) {
    arguments *to = given;
    int code = 0;
    if (mr_overrides_take(&to->overrides, &usage, option, &code))
        return code;
    if (to->data)
        return mr_usage_error(&usage, MR_SET_ONE_DATA);
    to->data = optarg;
    return 0;
}

static int report(const arguments *given, const mr_exporting *e) {
    if (!given->json) {
        mr_print(stdout, "  written    ");
        mr_exporting_tell(e, stdout);
        return MR_OK;
    }
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    mr_exporting_put(e, NULL, json);
    return mr_json_finish(json, stdout);
}

/* Returns an exit code. */
static int finish(const arguments *given, const mr_exporting *e, int status, bool told) {
    if (status == MR_ERROR_CANCELLED && mr_stop_asked())
        return mr_stop_tell("nothing was written");
    if (!status)
        status = report(given, e);
    return !status ? 0 : told ? mr_status_exit_code(status) : mr_command_failed(status);
}

static int export_head(const arguments *given) {
    mr_classifier *classifier;
    bool told = false;
    int status = mr_classifier_open(&classifier, given->from);
    mr_exporting e = {.output = given->output, .sign_key = given->sign_key, .classifier = classifier};
    if (!status)
        status = mr_export(&e, &told);
    int code = finish(given, &e, status, told);
    mr_classifier_destroy(&classifier);
    return code;
}

/* Lists the data set's files that are used. */
static int list_files(const mr_set *set, const mr_listed_file ***files, size_t *count) {
    *count = 0;
    *files = calloc(set->count + 1, sizeof **files);
    if (!*files)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the files");
    for (size_t i = 0; i < set->count; i++)
        if (set->row[i].fate == MR_FATE_TAKEN)
            (*files)[(*count)++] = &set->list->files[i];
    return MR_OK;
}

static int open_own_head(const mr_extraction *extraction, mr_classifier **classifier) {
    const mr_view_stage *classify = extraction->classify;
    const mr_option *option = mr_option_find(classify->type->options, "head");
    const char *head = option ? mr_option_string(option, classify->options) : NULL;
    return head ? mr_classifier_open(classifier, head)
                : mr_fail(MR_ERROR_CONFIG, "%s: %s has no head to export: name the folder that `millrace train` wrote, "
                                           "with --set stages.%s.head=FOLDER", extraction->plan->file, classify->id,
                          classify->id);
}

static int export_own(const arguments *given, mr_extraction *extraction) {
    mr_set set = {0};
    mr_classifier *classifier = NULL;
    const mr_listed_file **files = NULL;
    bool told = false;
    mr_exporting e = {.output = given->output, .sign_key = given->sign_key, .extraction = extraction};
    int status = open_own_head(extraction, &classifier);
    if (!status)
        status = mr_set_open(&set, &(mr_set_params){.path = given->data, .lonely = true, .stopped = mr_stop_asked});
    if (!status)
        status = list_files(&set, &files, &e.file_count);
    e.classifier = classifier;
    e.files = files;
    if (!status)
        status = mr_export(&e, &told);
    int code = finish(given, &e, status, told);
    free(files);
    mr_set_close(&set);
    mr_classifier_destroy(&classifier);
    return code;
}

static int export_pipeline(const arguments *given) {
    mr_extraction extraction = {.path = given->from, .overrides = &given->overrides, .stage = given->stage,
                                .show = mr_progress_suits_terminal()};
    int code = mr_extraction_prepare(&extraction);
    if (!code)
        code = export_own(given, &extraction);
    mr_extraction_fini(&extraction);
    return code;
}

static bool is_folder(const char *path) {
    struct stat found;
    return !stat(path, &found) && S_ISDIR(found.st_mode);
}

static int check(const arguments *given, bool head) {
    if (!given->output)
        return mr_usage_error(&usage, "name the file to write: --output FILE.onnx");
    if (!head && is_folder(given->from))
        return mr_command_failed(mr_fail(MR_ERROR_DATA, "%s is not the folder of a classifier: it has no head.json",
                                         given->from));
    if (!head && !given->data)
        return mr_usage_error(&usage, "name pictures to compare on: --data FOLDER, or a list");
    if (head && (given->data || given->stage || given->overrides.override_count || given->overrides.force))
        return mr_usage_error(&usage, "--data, --stage, --set and --force are for a pipeline; %s is a head",
                              given->from);
    return 0;
}

static int run_verb(int argc, char **argv) {
    arguments given = {0};
    int code = 0;
    if (mr_overrides_init(&given.overrides, argc))
        return mr_command_failed(MR_ERROR_MEMORY);
    bool goes_on = mr_usage_take(&usage, argc, argv, take_option, &given, &code) &&
                   (given.from = mr_usage_pipeline(&usage, argc, argv, &code)) != NULL;
    const bool head = goes_on && mr_card_is_head(given.from);
    goes_on = goes_on && !(code = check(&given, head));
    if (goes_on) {
        mr_stop_begin();
        int status = given.sign_key ? mr_signing_key_check(given.sign_key) : MR_OK;
        code = status ? mr_command_failed(status) : head ? export_head(&given) : export_pipeline(&given);
    }
    mr_overrides_fini(&given.overrides);
    return !goes_on || code ? code : mr_flush_stdout();
}

const mr_verb mr_export_verb = {&usage, "write a trained classifier as an ONNX file", run_verb};
