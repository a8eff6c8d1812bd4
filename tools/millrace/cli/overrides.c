#include "tools/millrace/cli/overrides.h"

#include <stdlib.h>
#include <string.h>

#include "tools/millrace/cli/types.h"

void mr_overrides_fini(mr_overrides *overrides) {
    free(overrides->override);
    mr_words_fini(&overrides->inputs);
    mr_words_fini(&overrides->assume);
    mr_costs_fini(&overrides->costs);
    *overrides = (mr_overrides){0};
}

int mr_overrides_take_setting(void *to, char *text) {
    mr_overrides *overrides = to;
    char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return mr_fail(MR_ERROR_USAGE, "takes KEY=VALUE, not \"%s\"", text);
    mr_override *wider = realloc(overrides->override, (overrides->override_count + 1) * sizeof *wider);
    if (!wider)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the command line");
    *equals = 0;
    wider[overrides->override_count++] = (mr_override){.key = text, .value = equals + 1};
    overrides->override = wider;
    return MR_OK;
}

int mr_overrides_take_costs(void *to, char *path) {
    return mr_costs_read(to, path);
}

int mr_overrides_check_devices(void *to, char *text) {
    return mr_plan_check_assumption(text);
}

void mr_overrides_apply(const mr_overrides *overrides, mr_pipeline_params *params) {
    params->types = mr_types();
    params->plugins = !overrides->no_plugins;
    params->override_count = overrides->override_count;
    params->overrides = overrides->override;
    params->input_count = overrides->inputs.count;
    params->inputs = overrides->inputs.item;
    params->output = overrides->output;
    params->force = overrides->force;
    params->workers = overrides->workers;
    params->jobs = overrides->jobs;
    params->assume_count = overrides->assume.count;
    params->assume = overrides->assume.item;
    params->cost_count = overrides->costs.count;
    params->costs = overrides->costs.cost;
}
