#include "tools/millrace/cli/overrides.h"

#include <stdlib.h>
#include <string.h>

#include "tools/millrace/cli/types.h"

int mr_overrides_init(mr_overrides *overrides, int argc) {
    *overrides = (mr_overrides){
        .override = calloc((size_t)argc + 1, sizeof(mr_override)),
        .input = calloc((size_t)argc + 1, sizeof(const char *)),
        .assume = calloc((size_t)argc + 1, sizeof(const char *)),
    };
    if (overrides->override && overrides->input && overrides->assume)
        return MR_OK;
    mr_overrides_fini(overrides);
    return mr_fail(MR_ERROR_MEMORY, "no memory for the command line");
}

void mr_overrides_fini(mr_overrides *overrides) {
    free(overrides->override);
    free(overrides->input);
    free(overrides->assume);
    mr_costs_fini(&overrides->costs);
    *overrides = (mr_overrides){0};
}

bool mr_overrides_take(mr_overrides *overrides, const mr_usage *usage, int option, int *code) {
    char *equals;
    switch (option) {
    case MR_OVERRIDE_SET:
        equals = strchr(optarg, '=');
        if (!equals || equals == optarg) {
            *code = mr_usage_error(usage, "--set takes KEY=VALUE, not \"%s\"", optarg);
            return true;
        }
        *equals = 0;
        overrides->override[overrides->override_count++] = (mr_override){.key = optarg, .value = equals + 1};
        return true;
    case MR_OVERRIDE_INPUT:
        overrides->input[overrides->input_count++] = optarg;
        return true;
    case MR_OVERRIDE_ASSUME:
        if (mr_plan_check_assumption(optarg))
            *code = mr_usage_error(usage, "%s", mr_message());
        overrides->assume[overrides->assume_count++] = optarg;
        return true;
    case MR_OVERRIDE_COSTS: {
        int status = mr_costs_read(&overrides->costs, optarg);
        if (status)
            *code = mr_command_failed(status);
        return true;
    }
    case MR_USAGE_NO_PLUGINS:
    case MR_OVERRIDE_PLUGINS:
        overrides->no_plugins = option == MR_USAGE_NO_PLUGINS;
        return true;
    default:
        return false;
    }
}

void mr_overrides_apply(const mr_overrides *overrides, mr_pipeline_params *params) {
    params->types = mr_types();
    params->plugins = !overrides->no_plugins;
    params->override_count = overrides->override_count;
    params->overrides = overrides->override;
    params->input_count = overrides->input_count;
    params->inputs = overrides->input;
    params->output = overrides->output;
    params->force = overrides->force;
    params->workers = overrides->workers;
    params->jobs = overrides->jobs;
    params->assume_count = overrides->assume_count;
    params->assume = overrides->assume;
    params->cost_count = overrides->costs.count;
    params->costs = overrides->costs.cost;
}
