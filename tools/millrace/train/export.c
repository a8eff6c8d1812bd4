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

typedef struct arguments {
    mr_overrides overrides;
    const char *from, *data, *stage, *output, *sign_key;
    bool json;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION("output", "FILE.onnx", arguments, output, "the file to write. An existing one is replaced",
              .needed = true),
    MR_OPTION("data", "PATH", arguments, data,
              "pictures for the comparison, as in `millrace train`. A pipeline needs them"),
    MR_OPTION("stage", "ID", arguments, stage, "the stage of type classify, if there are several"),
    MR_OPTION("sign", "KEYFILE", arguments, sign_key,
              "signs the file with a private key (`millrace keygen --sign`). FILE.onnx.sig is the signature, "
              "FILE.onnx.pub the public key"),
    MR_OVERRIDE_SETTINGS,
    MR_OVERRIDE_FORCING,
    MR_USAGE_PLUGINS,
    MR_OVERRIDE_FORBIDDING_PLUGINS,
    MR_OPTION("json", NULL, arguments, json, "one JSON object"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"pipelines/digits.yaml --data build/digits --output digits.onnx",
                                       "build/head --output head.onnx", NULL};

static const mr_usage usage = {
    .verb = "export",
    .synopsis = "PIPELINE.yaml|HEAD",
    .help = "Writes a trained classifier as one ONNX file, which any program with an ONNX runtime can use. For "
            "PIPELINE.yaml it is the classifier of its `classify`. If `features` or `infer` comes right before that "
            "stage, the file contains its network too, and takes its input. Otherwise, and for the folder HEAD, the "
            "input is a vector. Outputs are `scores` and `class`. Metadata contain the labels, the stages, and how "
            "pictures are prepared.\n"
            "Before the file is written, ONNX Runtime runs it and its scores are compared with those of classify: on "
            "64 pictures of --data, or for HEAD on random vectors. If a score differs by more than 0.0001, no file is "
            "written.",
    .options = options,
    .examples = examples,
};

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
    const char *head = mr_extraction_own_head(extraction);
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
    bool goes_on = mr_usage_take(&usage, argc, argv, &given, &code) &&
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
