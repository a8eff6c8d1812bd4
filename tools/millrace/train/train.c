/* millrace train: computes vectors with the pipeline that will serve, and fits a classifier to them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/print.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/run/progress.h"
#include "tools/millrace/train/features.h"
#include "tools/millrace/train/judge.h"
#include "tools/millrace/train/near.h"
#include "tools/millrace/train/training.h"

enum { DATA = 256, MODEL, PENALTY, WEIGHTS, HIDDEN, VALIDATION, TEST, RESUME, EXPORT };

enum { MOST_PENALTIES = 64, MOST_HIDDEN = 7 };

typedef struct arguments {
    mr_overrides overrides;
    mr_training_params params;
    mr_extraction_nodes spread;
    double penalties[MOST_PENALTIES];
    size_t hidden[MOST_HIDDEN];
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION_CODE("data", required_argument, DATA),
    MR_OPTION_FIELD("vectors", arguments, params.vectors),
    MR_OPTION_FIELD("output", arguments, params.head),
    MR_OPTION_CODE("model", required_argument, MODEL),
    MR_OPTION_CODE("penalty", required_argument, PENALTY),
    MR_OPTION_CODE("class-weights", required_argument, WEIGHTS),
    MR_OPTION_CODE("hidden", required_argument, HIDDEN),
    MR_OPTION_NUMBER("neighbors", arguments, params.fit.k, 1, 1000),
    MR_OPTION_FIELD("doubles", arguments, params.fit.doubles),
    MR_OPTION_NUMBER("seed", arguments, params.seed, 0, INT64_MAX),
    MR_OPTION_CODE("validation", required_argument, VALIDATION),
    MR_OPTION_CODE("test", required_argument, TEST),
    MR_OPTION_FIELD("stage", arguments, params.stage),
    MR_OPTION_NUMBER("threads", arguments, params.fit.threads, 1, 64),
    MR_OPTION_CODE("resume", optional_argument, RESUME),
    MR_OPTION_FIELD("cache", arguments, params.cache),
    MR_OPTION_FIELD("no-look-alikes", arguments, params.skip_near),
    MR_OPTION_CODE("export", required_argument, EXPORT),
    MR_OPTION_FIELD("sign", arguments, params.sign_key),
    MR_OPTION_FIELD("node", arguments, spread.run.node),
    MR_OPTION_NUMBER("replica", arguments, spread.run.replica, 0, MR_VIEW_MOST_REPLICAS - 1),
    MR_OPTION_FIELD("one-process", arguments, spread.run.one_process),
    MR_OPTION_FIELD("audit", arguments, spread.run.audit),
    MR_OPTION_CODE("set", required_argument, MR_OVERRIDE_SET),
    MR_USAGE_PLUGINS,
    MR_OVERRIDE_FORBIDDING_PLUGINS,
    MR_OPTION_FIELD("json", arguments, params.json),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"pipelines/digits.yaml --data digits --output head",
                                       "pipeline.yaml --data photos.csv --output head --model perceptron --seed 7",
                                       NULL};

static const mr_usage usage = {
    .verb = "train",
    .synopsis = "PIPELINE.yaml --data FOLDER|LIST --output HEAD [--vectors FILE.npy]\n"
                "                      [--model KIND] [--penalty C,...] [--class-weights none|balanced]\n"
                "                      [--hidden N,...] [--neighbors K] [--doubles] [--seed N]\n"
                "                      [--validation SHARE] [--test SHARE] [--stage ID] [--threads N]\n"
                "                      [--resume] [--cache FOLDER] [--no-look-alikes]\n"
                "                      [--export onnx] [--sign KEYFILE]\n"
                "                      [--node NAME [--replica N] | --one-process] [--audit FILE]\n"
                "                      [--set KEY=VALUE]... [--plugin FILE]... [--no-plugins] [--json]",
    .help =
        "Trains a classifier on pictures of your own. The stages before `classify` make a vector of each\n"
        "picture, as they will in service; `classify` itself need not have a head yet. Vectors are kept in a\n"
        "cache. The result, the head, is a folder that `classify` takes. A pipeline with nodes makes the\n"
        "vectors on its nodes; the result is the same.\n\n"
        "  --data PATH        a folder with a folder of pictures for each class, or a list: *.csv, whose first row\n"
        "                     names the columns path and label, and may name group and split; or *.jsonl, an object\n"
        "                     a line with those keys. Pictures of one group (a person, a camera, a day) stay in one\n"
        "                     part. A row of a video stands for its pictures from start to end (seconds)\n"
        "  --vectors FILE     a .npy of f4 with the vectors of the list's rows, in the same order; no pictures are\n"
        "                     read. Only the length of the vectors is checked\n"
        "  --output HEAD      the folder to write; a head that exists there is replaced\n"
        "  --model KIND       softmax (the default), logistic, squared-hinge, prototypes, neighbors or perceptron\n"
        "  --penalty C,...    penalties to try, from 1e-12 (strong) to 1e12 (weak); the best on validation is taken\n"
        "  --class-weights W  balanced: rare classes count as much as frequent ones; by default none\n"
        "  --hidden N,...     units of the hidden layers of a perceptron; by default 128,64\n"
        "  --neighbors K      how many neighbors vote, with --model neighbors; by default 5\n"
        "  --doubles          computes products in double precision\n"
        "  --seed N           seed of the split into parts, and of a perceptron; by default 1\n"
        "  --validation SHARE share that chooses the penalty; by default 0.15\n"
        "  --test SHARE       share that is used once, at the end; by default 0.15. The part of a picture follows\n"
        "                     from its content, or its group, so that adding pictures moves no others\n"
        "  --stage ID         the stage of type classify, if there are several\n"
        "  --threads N        by default one for each usable core; the result does not depend on it\n"
        "  --resume           continues a fit that was interrupted or killed\n"
        "  --cache FOLDER     where vectors are kept; by default $XDG_CACHE_HOME/millrace/features\n"
        "  --no-look-alikes   does not search for pictures in different parts that look alike\n"
        "  --export onnx      also writes model.onnx into HEAD, as `millrace export` does; it is compared with\n"
        "                     classify on 64 pictures of the test part\n"
        "  --sign KEYFILE     signs the head with a private key (`millrace keygen --sign`); `key` of classify then\n"
        "                     refuses it if it was changed\n"
        "  --node NAME        runs one of the pipeline's nodes, as for run, if others start them. The node that takes\n"
        "                     the vectors trains. All of them need the same MILLRACE_RUN, and find the folder of\n"
        "                     --cache, and the pictures, under the same path\n"
        "  --replica N        which of the node's processes this is: 0, 1, ...\n"
        "  --one-process      runs all stages in this process, whatever `nodes` says\n"
        "  --audit FILE       with nodes: appends runs and connections to a log, also refused ones\n"
        "  --set KEY=VALUE    sets one value of the YAML, such as stages.features.batch.size=8\n"
            MR_USAGE_PLUGINS_HELP MR_OVERRIDE_NO_PLUGINS_HELP
        "  --json             one JSON object with all that is printed, and all files that were left out\n\n"
        "Ctrl-C ends it; vectors that were made stay in the cache, and --resume continues the fit.\n",
    .options = options,
    .examples = examples,
};

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int take_share(double *to, const char *name) {
    char *end;
    *to = strtod(optarg, &end);
    if (end == optarg || *end || !(*to >= 0 && *to < 1))
        return mr_usage_error(&usage, "--%s takes a share from 0 to below 1, not \"%s\"", name, optarg);
    return 0;
}

static int take_penalties(arguments *to) {
    size_t count = 0;
    for (const char *at = optarg; at; count++) {
        char *end;
        if (count == MOST_PENALTIES)
            return mr_usage_error(&usage, "--penalty takes at most %d numbers", MOST_PENALTIES);
        double c = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(c >= 1e-12 && c <= 1e12))
            return mr_usage_error(&usage, "--penalty takes numbers from 1e-12 to 1e12, such as 0.01,0.1,1, not \"%s\"",
                                  optarg);
        to->penalties[count] = c;
        at = *end ? end + 1 : NULL;
    }
    to->params.fit.penalties = to->penalties;
    to->params.fit.penalty_count = count;
    return 0;
}

static int take_hidden(arguments *to) {
    size_t count = 0;
    for (const char *at = optarg; at; count++) {
        char *end;
        unsigned long units = strtoul(at, &end, 10);
        if (count == MOST_HIDDEN || end == at || (*end && *end != ',') || units < 1 || units > 65536)
            return mr_usage_error(&usage, "--hidden takes 1 to %d numbers of units, such as 128,64, not \"%s\"",
                                  MOST_HIDDEN, optarg);
        to->hidden[count] = units;
        at = *end ? end + 1 : NULL;
    }
    to->params.fit.hidden = to->hidden;
    to->params.fit.hidden_count = count;
    return 0;
}

static int take_weights(mr_fit_params *fit) {
    if (strcmp(optarg, "none") != 0 && strcmp(optarg, "balanced") != 0)
        return mr_usage_error(&usage, "--class-weights takes none or balanced, not \"%s\"", optarg);
    fit->class_weights = *optarg == 'b' ? MR_CLASS_WEIGHTS_BALANCED : MR_CLASS_WEIGHTS_NONE;
    return 0;
}

static int take_export(mr_training_params *to) {
    if (strcmp(optarg, "onnx") != 0)
        return mr_usage_error(&usage, "--export takes onnx, not \"%s\"", optarg);
    to->onnx = true;
    return 0;
}

static int take_model(mr_fit_params *fit) {
    return mr_classifier_kind_find(optarg, &fit->kind) ? mr_usage_error(&usage, "--model: %s", mr_message()) : 0;
}

/* Returns an exit code. */
static int take_option(void *given, int option) {
    arguments *to = given;
    mr_training_params *params = &to->params;
    int code = 0;
    if (mr_overrides_take(&to->overrides, &usage, option, &code))
        return code;
    switch (option) {
    case DATA:
        if (params->data)
            return mr_usage_error(&usage, MR_SET_ONE_DATA);
        params->data = optarg;
        return 0;
    case MODEL:
        return take_model(&params->fit);
    case PENALTY:
        return take_penalties(to);
    case WEIGHTS:
        return take_weights(&params->fit);
    case HIDDEN:
        return take_hidden(to);
    case VALIDATION:
        return take_share(&params->shares.validation, "validation");
    case TEST:
        return take_share(&params->shares.test, "test");
    case EXPORT:
        return take_export(params);
    default: /* RESUME */
        params->fit.resume = true;
        to->spread.run.resume = optarg; /* the watching process names a node's checkpoint */
        return 0;
    }
}

static bool is_nearest(const mr_fit_params *fit) {
    return fit->kind == MR_CLASSIFIER_PROTOTYPES || fit->kind == MR_CLASSIFIER_NEIGHBORS;
}

static int check(const mr_training_params *params) {
    const mr_fit_params *fit = &params->fit;
    const mr_run_arguments *run = &params->spread->run;
    if (!params->data)
        return mr_usage_error(&usage, "name the pictures: --data FOLDER, or a list");
    if (!params->head)
        return mr_usage_error(&usage, "name the folder to write: --output HEAD");
    if (params->shares.validation + params->shares.test >= 1)
        return mr_usage_error(&usage, "--validation and --test leave nothing to train on");
    if (run->node && run->one_process)
        return mr_usage_error(&usage, "--node runs some stages, --one-process all: choose one");
    if (fit->hidden_count && fit->kind != MR_CLASSIFIER_PERCEPTRON)
        return mr_usage_error(&usage, "--hidden is for --model perceptron");
    if (fit->doubles && is_nearest(fit))
        return mr_usage_error(&usage, "--doubles is not for --model prototypes and neighbors, which have no products");
    if (fit->k && fit->kind != MR_CLASSIFIER_NEIGHBORS)
        return mr_usage_error(&usage, "--neighbors is for --model neighbors");
    return 0;
}

static int run_verb(int argc, char **argv) {
    arguments given = {.params = {.seed = 1, .shares = {.validation = 0.15, .test = 0.15}}};
    int code = 0;
    if (mr_overrides_init(&given.overrides, argc))
        return mr_command_failed(MR_ERROR_MEMORY);
    given.params.overrides = &given.overrides;
    given.params.spread = &given.spread;
    bool goes_on = mr_usage_take(&usage, argc, argv, take_option, &given, &code) &&
                   (given.params.pipeline = mr_usage_pipeline(&usage, argc, argv, &code)) != NULL &&
                   !(code = check(&given.params));
    if (goes_on) {
        given.overrides.workers = given.params.fit.threads;
        given.spread.run.path = given.params.pipeline;
        given.spread.run.overrides = given.overrides;
        given.spread.data = given.params.data;
        given.spread.head = given.params.head;
        code = mr_train(&given.params);
    }
    mr_overrides_fini(&given.overrides);
    if (!goes_on || code)
        return code;
    return mr_flush_stdout();
}

const mr_verb mr_train_verb = {&usage, "train a classifier on pictures of your own", run_verb};
