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
#include "tools/millrace/objects/coco.h"
#include "tools/millrace/run/progress.h"
#include "tools/millrace/train/features.h"
#include "tools/millrace/train/judge.h"
#include "tools/millrace/train/near.h"
#include "tools/millrace/train/training.h"

enum { MOST_PENALTIES = 64, MOST_HIDDEN = 7 };

typedef struct arguments {
    mr_overrides overrides;
    mr_training_params params;
    mr_extraction_nodes spread;
    double penalties[MOST_PENALTIES];
    size_t hidden[MOST_HIDDEN];
    const char *export;
} arguments;

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int take_share(void *to, char *text) {
    double *share = to;
    if (mr_parse_number(text, 0, 1, share) && *share < 1)
        return MR_OK;
    return mr_fail(MR_ERROR_USAGE, "takes a share from 0 to below 1, not \"%s\"", text);
}

static int take_penalties(void *given, char *text) {
    arguments *to = given;
    size_t count = 0;
    for (const char *at = text; at; count++) {
        char *end;
        if (count == MOST_PENALTIES)
            return mr_fail(MR_ERROR_USAGE, "takes at most %d numbers", MOST_PENALTIES);
        double c = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(c >= 1e-12 && c <= 1e12))
            return mr_fail(MR_ERROR_USAGE, "takes numbers from 1e-12 to 1e12, such as 0.01,0.1,1, not \"%s\"",
                           text);
        to->penalties[count] = c;
        at = *end ? end + 1 : NULL;
    }
    to->params.fit.penalties = to->penalties;
    to->params.fit.penalty_count = count;
    return MR_OK;
}

static int take_hidden(void *given, char *text) {
    arguments *to = given;
    size_t count = 0;
    for (const char *at = text; at; count++) {
        char *end;
        unsigned long units = strtoul(at, &end, 10);
        if (count == MOST_HIDDEN || end == at || (*end && *end != ',') || units < 1 || units > 65536)
            return mr_fail(MR_ERROR_USAGE, "takes 1 to %d numbers of units, such as 128,64, not \"%s\"",
                           MOST_HIDDEN, text);
        to->hidden[count] = units;
        at = *end ? end + 1 : NULL;
    }
    to->params.fit.hidden = to->hidden;
    to->params.fit.hidden_count = count;
    return MR_OK;
}

static int take_model(void *to, char *text) {
    return mr_classifier_kind_find(text, to) ? mr_fail(MR_ERROR_USAGE, "is wrong: %s", strdupa(mr_message())) : MR_OK;
}

/* Of nodes, the supervising process names a node's checkpoint. */
static int take_resume(void *given, char *text) {
    arguments *to = given;
    to->params.fit.resume = true;
    to->spread.run.resume = text;
    return MR_OK;
}

static const mr_usage_option options[] = {
    MR_OPTION("data", "PATH", arguments, params.data,
              "a folder with a folder of pictures for each class, or a list: *.csv, whose first row names the columns "
              "path and label, and may name group and split; or *.jsonl, one object with those keys per line. Pictures "
              "of one group (a person, a camera, a day) stay in one part. A row with a video stands for its pictures "
              "from start to end (seconds). Labelled objects are cut out first: COCO's annotations (*.json), or a "
              "folder in YOLO's layout with the folders images and labels, and classes.txt", .needed = true),
    MR_OPTION("pictures", "FOLDER", arguments, params.pictures,
              "the folder in which the paths of pictures in COCO's annotations begin; by default that of the "
              "annotations"),
    MR_OPTION("output", "HEAD", arguments, params.head, "the folder to write. An existing head is replaced",
              .needed = true),
    MR_OPTION("vectors", "FILE.npy", arguments, params.vectors,
              "the vectors (f4) of the list's rows, in the same order. No pictures are read. Only the length of the "
              "vectors is checked"),
    MR_OPTION_TAKE("model", "KIND", arguments, params.fit.kind, take_model,
                   "softmax (the default), logistic, squared-hinge, prototypes, neighbors or perceptron"),
    MR_OPTION_CALL("penalty", "C,...", take_penalties,
                   "penalties to try, from 1e-12 (strong) to 1e12 (weak). The best one on validation is taken"),
    MR_OPTION("class-weights", "none|balanced", arguments, params.fit.class_weights,
              "balanced: rare classes count as much as frequent ones. The default is none"),
    MR_OPTION_CALL("hidden", "N,...", take_hidden, "units of the hidden layers of a perceptron; 128,64 by default"),
    MR_OPTION_NUMBER("neighbors", "K", arguments, params.fit.k, 1, 1000,
                     "how many neighbors vote with --model neighbors; 5 by default"),
    MR_OPTION("doubles", NULL, arguments, params.fit.doubles, "computes products in double precision"),
    MR_OPTION_NUMBER("seed", "N", arguments, params.seed, 0, INT64_MAX,
                     "seed for the split into parts, and for a perceptron; 1 by default"),
    MR_OPTION_TAKE("validation", "SHARE", arguments, params.shares.validation, take_share,
                   "the share that chooses the penalty; 0.15 by default"),
    MR_OPTION_TAKE("test", "SHARE", arguments, params.shares.test, take_share,
                   "the share that is used once, at the end; 0.15 by default. A picture's content, or its group, "
                   "decides its part, so new pictures move no others"),
    MR_OPTION("stage", "ID", arguments, params.stage, "the stage of type classify, if there are several"),
    MR_OPTION_NUMBER("threads", "N", arguments, params.fit.threads, 1, 64,
                     "one for each usable core by default. The result does not depend on it"),
    MR_OPTION_CALL("resume", "[]", take_resume, "continues a fit that was interrupted or killed"),
    MR_OPTION("cache", "FOLDER", arguments, params.cache,
              "where vectors are kept; $XDG_CACHE_HOME/millrace/features by default"),
    MR_OPTION("no-look-alikes", NULL, arguments, params.skip_near,
              "does not search for pictures in different parts that look alike"),
    MR_OPTION("export", "onnx", arguments, export,
              "also writes model.onnx into HEAD, as `millrace export` does, and compares it with classify on 64 "
              "pictures of the test part"),
    MR_OPTION("sign", "KEYFILE", arguments, params.sign_key,
              "signs the head with a private key (`millrace keygen --sign`). `key` of classify then refuses a head "
              "that was changed"),
    MR_OPTION("node", "NAME", arguments, spread.run.node,
              "runs one of the pipeline's nodes, as in run, if others start them. The node that receives the vectors "
              "trains. All nodes need the same MILLRACE_RUN, and must find the --cache folder and the pictures under "
              "the same path"),
    MR_OPTION_NUMBER("replica", "N", arguments, spread.run.replica, 0, MR_VIEW_MOST_REPLICAS - 1,
                     "which of the node's processes this is: 0, 1, ..."),
    MR_OPTION("one-process", NULL, arguments, spread.run.one_process,
              "runs all stages in this process and ignores `nodes`"),
    MR_OPTION("audit", "FILE", arguments, spread.run.audit,
              "with nodes: appends runs and connections, also refused ones, to a log"),
    MR_OVERRIDE_SETTINGS,
    MR_USAGE_PLUGINS,
    MR_OVERRIDE_FORBIDDING_PLUGINS,
    MR_OPTION("json", NULL, arguments, params.json,
              "one JSON object with all that is printed, and all files that were left out"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"pipelines/digits.yaml --data digits --output head",
                                       "pipeline.yaml --data photos.csv --output head --model perceptron --seed 7",
                                       NULL};

static const mr_usage usage = {
    .verb = "train",
    .synopsis = "PIPELINE.yaml",
    .help = "Trains a classifier on your own pictures. The stages before `classify` make a vector of each picture, as "
            "they will in service; `classify` itself need not have a head yet. Vectors are kept in a cache. The "
            "result, the head, is a folder that `classify` takes. A pipeline with nodes makes the vectors on its "
            "nodes; the result is the same.",
    .options = options,
    .notes = "Ctrl-C ends it. Finished vectors stay in the cache, and --resume continues the fit.",
    .examples = examples,
};

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
    const char *wrong = mr_coco_refuse_folder(params->data, params->pictures);
    if (wrong)
        return mr_usage_error(&usage, "%s", wrong);
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
    given.params.overrides = &given.overrides;
    given.params.spread = &given.spread;
    bool goes_on = mr_usage_take(&usage, argc, argv, &given, &code) &&
                   (given.params.pipeline = mr_usage_pipeline(&usage, argc, argv, &code)) != NULL &&
                   !(code = check(&given.params));
    if (goes_on) {
        given.params.onnx = given.export;
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
