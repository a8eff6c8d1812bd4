/* millrace evaluate: how well a pipeline classifies pictures whose classes are known. */
#include <string.h>

#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/train/evaluation.h"
#include "tools/millrace/train/stop.h"

enum { DATA = 256, PART };

typedef struct arguments {
    mr_overrides overrides;
    mr_evaluation_params params;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION_CODE("data", required_argument, DATA),
    MR_OPTION_FIELD("vectors", arguments, params.vectors),
    MR_OPTION_CODE("part", required_argument, PART),
    MR_OPTION_FIELD("page", arguments, params.page),
    MR_OPTION_FIELD("scores", arguments, params.scores),
    MR_OPTION_FIELD("stage", arguments, params.stage),
    MR_OPTION_NUMBER("seed", arguments, params.seed, 0, INT64_MAX),
    MR_OPTION_NUMBER("threads", arguments, overrides.workers, 1, MR_OVERRIDE_MOST_WORKERS),
    MR_OPTION_CODE("set", required_argument, MR_OVERRIDE_SET),
    MR_OVERRIDE_FORCING,
    MR_USAGE_PLUGINS,
    MR_OVERRIDE_FORBIDDING_PLUGINS,
    MR_OPTION_FIELD("json", arguments, params.json),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"pipelines/digits.yaml --data build/digits --part test --page build/digits.html",
                                       "pipelines/classify-images.yaml --data birds.csv --json", NULL};

static const mr_usage usage = {
    .verb = "evaluate",
    .synopsis = "PIPELINE.yaml --data FOLDER|LIST [--vectors FILE.npy] [--part PART]\n"
                "                         [--page FILE.html] [--scores FILE.jsonl] [--stage ID] [--seed N]\n"
                "                         [--threads N] [--set KEY=VALUE]... [--force]\n"
                "                         [--plugin FILE]... [--no-plugins] [--json]",
    .help =
        "Runs the pipeline over pictures whose classes are known and compares the answers of `classify` with\n"
        "them. It takes any pipeline of at most 1,000 classes, also with a head that millrace did not train; the\n"
        "pipeline's own outputs are not written. Figures are defined as in scikit-learn. The interval of the\n"
        "accuracy is Wilson's, with a group counted as fewer rows if its rows resemble each other; the other\n"
        "intervals contain 95% of 1,000 resamples of whole groups (200, if there are more than 10 million scores,\n"
        "and that of the accuracy if no row is wrong). If the validation part is known, from the head or the\n"
        "list, a temperature is fitted to it, with which scores agree better with the share of right answers,\n"
        "and its figures are shown beside those of the pipeline. All stages of a pipeline with nodes run\n"
        "in this process; the figures are the same.\n\n"
        "  --data PATH        a folder that holds a folder of pictures for each class, or a list (*.csv, *.jsonl), as\n"
        "                     `millrace train` takes them; classes are matched by name\n"
        "  --vectors FILE     existing vectors, as `millrace train` takes them; the head is then evaluated\n"
        "                     without the stages before it\n"
        "  --part PART        train, validation or test: only that part of the data that the head was trained with;\n"
        "                     by default all. Only test shows how good it is on pictures that it has not seen\n"
        "  --page FILE.html   writes a page with the figures, curves, and the wrong answers with the highest scores,\n"
        "                     with their pictures (also of videos); it needs no other file and no network\n"
        "  --scores FILE      writes the scores of each picture, one JSON object a line\n"
        "  --stage ID         the stage of type classify, if there are several\n"
        "  --seed N           seed of the resamples for the intervals; by default 1\n"
        "  --threads N        threads that run stages; by default one for each usable core\n"
        "  --set KEY=VALUE    sets one value of the YAML, such as stages.classify.head=head\n"
            MR_OVERRIDE_FORCING_HELP MR_USAGE_PLUGINS_HELP MR_OVERRIDE_NO_PLUGINS_HELP
        "  --json             one JSON object with all figures\n",
    .options = options,
    .examples = examples,
};

static int take_part(mr_evaluation_params *to) {
    if (strcmp(optarg, "all") != 0 && !mr_split_parse(optarg))
        return mr_usage_error(&usage, "--part takes all, train, validation or test, not \"%s\"", optarg);
    to->part = optarg;
    return 0;
}

/* Returns an exit code. */
static int take_option(void *given, int option) {
    arguments *to = given;
    int code = 0;
    if (mr_overrides_take(&to->overrides, &usage, option, &code))
        return code;
    if (option == PART)
        return take_part(&to->params);
    if (to->params.data)
        return mr_usage_error(&usage, MR_SET_ONE_DATA);
    to->params.data = optarg;
    return 0;
}

static int run_verb(int argc, char **argv) {
    arguments given = {.params = {.part = "all", .seed = 1}};
    int code = 0;
    if (mr_overrides_init(&given.overrides, argc))
        return mr_command_failed(MR_ERROR_MEMORY);
    given.params.overrides = &given.overrides;
    bool goes_on = mr_usage_take(&usage, argc, argv, take_option, &given, &code) &&
                   (given.params.pipeline = mr_usage_pipeline(&usage, argc, argv, &code)) != NULL;
    if (goes_on && !given.params.data) {
        code = mr_usage_error(&usage, "name the pictures: --data FOLDER, or a list");
        goes_on = false;
    }
    if (goes_on) {
        mr_stop_begin();
        code = mr_evaluate(&given.params);
    }
    mr_overrides_fini(&given.overrides);
    return !goes_on || code ? code : mr_flush_stdout();
}

const mr_verb mr_evaluate_verb = {&usage, "measure how well a pipeline classifies pictures whose classes are known",
                                  run_verb};
