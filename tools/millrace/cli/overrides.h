/* Options that change a pipeline. A verb's option table lists those that the verb takes. They are read into
 * `arguments`, which must have a member `overrides`. */
#pragma once

#include "millrace/plan.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/costs.h"

enum { MR_OVERRIDE_MOST_WORKERS = 1024 };

typedef struct mr_overrides {
    mr_override *override;
    const char **name; /* for messages, one for each; NULL: --set and the key */
    size_t override_count;
    mr_words made;     /* texts of overrides for which an option stands */
    mr_words inputs, assume;
    const char *output;
    int workers; /* 0: not given */
    int jobs;    /* likewise */
    bool no_plugins; /* the pipeline may name none; must be set for verbs that only read it */
    bool force;
    mr_costs costs;
} mr_overrides;

void mr_overrides_fini(mr_overrides *overrides);
/* Sets the overrides, which are borrowed, and the command's stage types in the parameters. */
void mr_overrides_apply(const mr_overrides *overrides, mr_pipeline_params *params);

/* Sets a key by an option that has its own name, such as --http; `value` NULL: it is not given. MR_ERROR_USAGE,
 * MR_ERROR_MEMORY. */
int mr_overrides_set(mr_overrides *overrides, const char *option, const char *key, const char *value);

/* Readers: KEY=VALUE, split in place; a cost file; devices to assume, which are checked. */
mr_usage_take_function mr_overrides_take_setting, mr_overrides_take_costs, mr_overrides_check_devices;

#define MR_OVERRIDE_SETTINGS                                                                                     \
    MR_OPTION_TAKE("set", "KEY=VALUE", arguments, overrides, mr_overrides_take_setting,                          \
                   "sets one value of the YAML, such as stages.features.batch.size=8", .several = true)
#define MR_OVERRIDE_FORCING                                                                                      \
    MR_OPTION("force", NULL, arguments, overrides.force,                                                         \
              "accepts a classifier that was trained after other stages, as `force: true` in each `classify` does. " \
              "The start and each summary report the difference")
#define MR_OVERRIDE_INPUTS                                                                                       \
    MR_OVERRIDE_SETTINGS,                                                                                        \
        MR_OPTION("input", "URI", arguments, overrides.inputs,                                                   \
                  "replaces the uri of the only source. Given several times, each becomes a source"),            \
        MR_OVERRIDE_FORCING, MR_USAGE_PLUGINS
#define MR_OVERRIDE_OPTIONS                                                                                      \
    MR_OVERRIDE_INPUTS,                                                                                          \
        MR_OPTION("output", "FILE", arguments, overrides.output,                                                 \
                  "replaces the path of the only stage that writes a file; \"-\" is standard output")
/* For verbs that run a pipeline. */
#define MR_OVERRIDE_FORBIDDING_PLUGINS                                                                           \
    MR_OPTION("no-plugins", NULL, arguments, overrides.no_plugins,                                               \
              "refuses a pipeline that names plugins. Use it for pipelines that you do not trust")
/* For verbs that only read a pipeline, which may be untrusted. */
#define MR_OVERRIDE_ALLOWING_PLUGINS                                                                             \
    MR_OPTION("plugins", NULL, arguments, overrides.no_plugins,                                                  \
              "loads the plugins that the pipeline names, which runs their code. Without it, such a pipeline is " \
              "refused", .off = true)
/* For verbs that only plan. */
#define MR_OVERRIDE_ASSUMPTIONS                                                                                  \
    MR_OPTION("assume", "DEVICES", arguments, overrides.assume,                                                  \
              "plans for devices that this machine does not have. cuda:8x80GiB means eight GPUs with 80 GiB each, " \
              "sim:2 two simulated devices. cuda:2xH100 (or cuda:2xFILE.json) means two cards with known figures, " \
              "from which `plan` predicts a frame rate", .take = mr_overrides_check_devices)
/* For verbs that place stages as a run does. */
#define MR_OVERRIDE_PLACING                                                                                      \
    MR_OPTION_TAKE("costs", "FILE", arguments, overrides.costs, mr_overrides_take_costs,                         \
                   "balances `device: auto` by measured costs. FILE is the output of `plan --profile --json`")
/* For verbs with threads that run stages. */
#define MR_OVERRIDE_THREADS                                                                                      \
    MR_OPTION_NUMBER("workers", "N", arguments, overrides.workers, 1, MR_OVERRIDE_MOST_WORKERS,                  \
                     "threads that run stages; one for each usable core by default"),                            \
        MR_OPTION_NUMBER("jobs", "N", arguments, overrides.jobs, 1, MR_VIEW_MOST_SOURCES,                        \
                         "how many videos are open at a time. When one ends, the next is opened. By default, a " \
                         "folder or glob has as many open as there are workers, at least 2, and all other sources " \
                         "are open at once")
