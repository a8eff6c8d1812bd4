/* The command's verbs. Each is defined in a separate file; main looks them up here, and help lists them. */
#pragma once

#include "millrace/millrace.h"
#include "tools/millrace/cli/command.h"

typedef struct mr_verb {
    const mr_usage *usage; /* with the name */
    const char *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the verb; returns the exit code */
} mr_verb;

extern const mr_verb mr_run_verb, mr_ctl_verb, mr_top_verb, mr_tap_verb, mr_hub_verb, mr_check_verb, mr_plan_verb,
    mr_graph_verb, mr_deploy_verb, mr_submit_verb, mr_status_verb, mr_cancel_verb, mr_verify_verb, mr_train_verb,
    mr_evaluate_verb, mr_export_verb, mr_devices_verb, mr_list_verb, mr_inspect_verb, mr_models_verb, mr_keygen_verb,
    mr_schema_verb, mr_bench_verb, mr_help_verb;

/* For mr_pipeline_params.model_of. */
extern mr_model_of *const mr_models_of_files;

/* All verbs, ended by NULL. */
extern const mr_verb *const mr_verbs[];
