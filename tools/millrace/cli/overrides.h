/* Options that change a pipeline, the same for run and check: --set, --input, --force, --plugin and --output. graph,
 * which has a different --output, has the others. Verbs that take only a classifier have --force; verbs that only plan,
 * --assume; verbs that place stages as a run does, --costs; verbs that run or plan threads, --workers and --jobs. */
#pragma once

#include "millrace/plan.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/costs.h"

enum {
    MR_OVERRIDE_SET = 512, MR_OVERRIDE_INPUT, MR_OVERRIDE_ASSUME, MR_OVERRIDE_COSTS, MR_OVERRIDE_PLUGINS
};
enum { MR_OVERRIDE_MOST_WORKERS = 1024 };

/* For an option table, and for its help. The verb's options are read into `arguments`, which must have `overrides`. */
#define MR_OVERRIDE_FORCING MR_OPTION_FIELD("force", arguments, overrides.force)
#define MR_OVERRIDE_FORCING_HELP                                                                                 \
    "  --force            takes a classifier that was trained after other stages, like `force: true` in each\n" \
    "                     `classify`; the start and every summary report the difference\n"
#define MR_OVERRIDE_INPUTS                                                                                       \
    MR_OPTION_CODE("set", required_argument, MR_OVERRIDE_SET),                                                   \
        MR_OPTION_CODE("input", required_argument, MR_OVERRIDE_INPUT), MR_OVERRIDE_FORCING, MR_USAGE_PLUGINS
#define MR_OVERRIDE_OPTIONS MR_OVERRIDE_INPUTS, MR_OPTION_FIELD("output", arguments, overrides.output)
#define MR_OVERRIDE_INPUTS_HELP                                                                                  \
    "  --set KEY=VALUE    sets one value of the YAML, such as stages.features.batch.size=8\n"                    \
    "  --input URI        replaces the uri of the only source; given several times, each is a source\n"          \
    MR_OVERRIDE_FORCING_HELP MR_USAGE_PLUGINS_HELP
/* For verbs that run a pipeline. */
#define MR_OVERRIDE_FORBIDDING_PLUGINS MR_OPTION_CODE("no-plugins", no_argument, MR_USAGE_NO_PLUGINS)
#define MR_OVERRIDE_NO_PLUGINS_HELP                                                                              \
    "  --no-plugins       refuses a pipeline that names plugins itself: for pipelines that you do not trust\n"
/* For verbs that only read one, which may be a stranger's. */
#define MR_OVERRIDE_ALLOWING_PLUGINS MR_OPTION_CODE("plugins", no_argument, MR_OVERRIDE_PLUGINS)
#define MR_OVERRIDE_PLUGINS_HELP                                                                                 \
    "  --plugins          loads the plugins that the pipeline names, which runs their code; without it such a\n" \
    "                     pipeline is refused\n"
#define MR_OVERRIDE_OUTPUT_HELP                                                                                  \
    "  --output FILE      replaces the path of the only stage that writes a file; \"-\" is standard output\n"

/* For verbs that only plan. */
#define MR_OVERRIDE_ASSUMPTIONS MR_OPTION_CODE("assume", required_argument, MR_OVERRIDE_ASSUME)
#define MR_OVERRIDE_ASSUMPTIONS_HELP                                                                             \
    "  --assume DEVICES   plans for devices that this machine does not have: cuda:8x80GiB is eight GPUs of 80 GiB\n" \
    "                     each, sim:2 two simulated ones, cuda:2xH100 (or cuda:2xFILE.json) two cards with known\n" \
    "                     figures, from which `plan` predicts a frame rate; may be given several times\n"

/* For verbs that place stages as a run does. */
#define MR_OVERRIDE_PLACING MR_OPTION_CODE("costs", required_argument, MR_OVERRIDE_COSTS)
#define MR_OVERRIDE_PLACING_HELP                                                                                 \
    "  --costs FILE       balances `device: auto` by measured costs; FILE is the output of `plan --profile --json`\n"

/* For verbs with threads that run stages. */
#define MR_OVERRIDE_THREADS                                                                                      \
    MR_OPTION_NUMBER("workers", arguments, overrides.workers, 1, MR_OVERRIDE_MOST_WORKERS),                      \
        MR_OPTION_NUMBER("jobs", arguments, overrides.jobs, 1, MR_VIEW_MOST_SOURCES)
#define MR_OVERRIDE_THREADS_HELP                                                                                 \
    "  --workers N        threads that run stages; by default one for each usable core\n"                          \
    "  --jobs N           how many videos are open at a time; when one ends the next is opened. By default of a\n" \
    "                     folder or glob as many as there are workers, at least 2, and all other sources\n"

typedef struct mr_overrides {
    mr_override *override;
    const char **input, **assume; /* all have room for as many as there are arguments */
    size_t override_count, input_count, assume_count;
    const char *output;
    int workers; /* 0: not given */
    int jobs;    /* likewise */
    bool no_plugins; /* the pipeline may name none; set it after mr_overrides_init for verbs that only read it */
    bool force;
    mr_costs costs;
} mr_overrides;

/* MR_OK or MR_ERROR_MEMORY. */
int mr_overrides_init(mr_overrides *overrides, int argc);
void mr_overrides_fini(mr_overrides *overrides);
/* Whether `option`, as mr_usage_take gives it, is one of these; an error in it makes *code an exit code. The argument
 * is kept; --set's is cut in two in place. */
bool mr_overrides_take(mr_overrides *overrides, const mr_usage *usage, int option, int *code);
/* Puts them into the parameters, which borrow them, and the stage types that the command knows. */
void mr_overrides_apply(const mr_overrides *overrides, mr_pipeline_params *params);
