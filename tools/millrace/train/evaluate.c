/* millrace evaluate: measures how well a pipeline classifies pictures with known classes, or finds known objects. */
#include <string.h>

#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/objects/coco.h"
#include "tools/millrace/objects/cutouts.h"
#include "tools/millrace/objects/object_evaluation.h"
#include "tools/millrace/train/evaluation.h"
#include "tools/millrace/train/stop.h"

typedef struct arguments {
    mr_overrides overrides;
    mr_evaluation_params params;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION("data", "PATH", arguments, params.data,
              "a folder that holds a folder of pictures for each class, or a list (*.csv, *.jsonl), as in "
              "`millrace train`. Classes are matched by name. For objects: COCO's annotations (*.json). For tracks: "
              "COCO's with track_id, or MOTChallenge's gt.txt (*.txt), whose frames are those of the pipeline's source",
              .needed = true),
    MR_OPTION("pictures", "FOLDER", arguments, params.pictures,
              "the folder in which the paths of pictures in COCO's annotations begin; by default that of the "
              "annotations"),
    MR_OPTION("vectors", "FILE.npy", arguments, params.vectors,
              "existing vectors, as in `millrace train`. The head is then evaluated without the stages before it"),
    MR_OPTION("part", "all|train|validation|test", arguments, params.part,
              "only that part of the data with which the head was trained; all by default. Only test shows how good it "
              "is on pictures that it has not seen"),
    MR_OPTION("page", "FILE.html", arguments, params.page,
              "writes a page with the figures, curves, and the wrong answers with the highest scores and their "
              "pictures (also of videos). It needs no other file and no network"),
    MR_OPTION("scores", "FILE.jsonl", arguments, params.scores,
              "writes the scores of each picture, one JSON object per line"),
    MR_OPTION("stage", "ID", arguments, params.stage,
              "the stage of type classify, if there are several. For objects: the stage that gives them, if it is not "
              "the only one of type detect, or for tracks, of type track"),
    MR_OPTION_NUMBER("seed", "N", arguments, params.seed, 0, INT64_MAX,
                     "seed for the resamples of the intervals; 1 by default"),
    MR_OPTION_NUMBER("threads", "N", arguments, overrides.workers, 1, MR_OVERRIDE_MOST_WORKERS,
                     "threads that run stages; one for each usable core by default"),
    MR_OVERRIDE_SETTINGS,
    MR_OVERRIDE_FORCING,
    MR_USAGE_PLUGINS,
    MR_OVERRIDE_FORBIDDING_PLUGINS,
    MR_OPTION("json", NULL, arguments, params.json, "one JSON object with all figures"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"pipelines/digits.yaml --data build/digits --part test --page build/digits.html",
                                       "pipelines/classify-images.yaml --data birds.csv --json", NULL};

static const mr_usage usage = {
    .verb = "evaluate",
    .synopsis = "PIPELINE.yaml",
    .help = "Runs the pipeline over pictures whose classes are known and compares the answers of `classify` with them. "
            "The pipeline may have at most 1,000 classes; its head need not be from millrace. Its own outputs are not "
            "written. All stages of a pipeline with nodes run in this process; the figures are the same.\n"
            "Figures are defined as in scikit-learn. The interval of the accuracy is Wilson's; a group counts as fewer "
            "rows if its rows resemble each other. The other intervals contain 95% of 1,000 resamples of whole groups "
            "(200, if there are more than 10 million scores, and that of the accuracy if no row is wrong).\n"
            "If the validation part is known, from the head or the list, a temperature is fitted to it. With it, "
            "scores agree better with the share of right answers. Its figures are shown beside those of the pipeline.\n"
            "With COCO's annotations, objects are compared instead: mean average precision and recall, as pycocotools "
            "defines them. `detect` then gives objects from a score of 0.001 on, unless --set says otherwise. "
            "If the data have tracks, those of `track` are compared: MOTA, IDF1 and HOTA, as trackeval defines them. "
            "The pipeline then runs as it is written.",
    .options = options,
    .examples = examples,
};

/* Whether the data are COCO's annotations, or MOTChallenge's. */
static bool has_objects(const arguments *given) {
    const char *dot = strrchr(given->params.data, '.');
    return dot && (strcmp(dot, ".json") == 0 || strcmp(dot, ".txt") == 0);
}

static int evaluate_objects(const arguments *given) {
    const mr_evaluation_params *from = &given->params;
    const mr_object_evaluation_params params = {.pipeline = from->pipeline, .data = from->data,
                                                .pictures = from->pictures, .stage = from->stage,
                                                .overrides = from->overrides, .json = from->json,
                                                .stopped = mr_stop_asked};
    bool told;
    if (from->vectors || from->page || from->scores || strcmp(from->part, "all") != 0)
        return mr_usage_error(&usage, "--vectors, --part, --page and --scores are not for objects");
    int status = mr_evaluate_objects(&params, &told);
    if (status == MR_ERROR_CANCELLED && mr_stop_asked())
        return mr_stop_tell("nothing was written");
    return !status ? 0 : told ? mr_status_exit_code(status) : mr_command_failed(status);
}

static int run_verb(int argc, char **argv) {
    arguments given = {.params = {.part = "all", .seed = 1}};
    int code = 0;
    given.params.overrides = &given.overrides;
    bool goes_on = mr_usage_take(&usage, argc, argv, &given, &code) &&
                   (given.params.pipeline = mr_usage_pipeline(&usage, argc, argv, &code)) != NULL;
    if (goes_on && !given.params.data) {
        code = mr_usage_error(&usage, "name the pictures: --data FOLDER, or a list");
        goes_on = false;
    }
    if (goes_on && !has_objects(&given) && mr_has_labelled_objects(given.params.data)) {
        code = mr_usage_error(&usage, "%s is in YOLO's layout, which only `train` takes; for objects, name COCO's "
                              "annotations (*.json)", given.params.data);
        goes_on = false;
    }
    const char *wrong = goes_on ? mr_coco_refuse_folder(given.params.data, given.params.pictures) : NULL;
    if (wrong) {
        code = mr_usage_error(&usage, "%s", wrong);
        goes_on = false;
    }
    if (goes_on) {
        mr_stop_begin();
        code = has_objects(&given) ? evaluate_objects(&given) : mr_evaluate(&given.params);
    }
    mr_overrides_fini(&given.overrides);
    return !goes_on || code ? code : mr_flush_stdout();
}

const mr_verb mr_evaluate_verb = {&usage, "measure how good a pipeline's classes, objects or tracks are", run_verb};
