#include "tools/millrace/cli/overrides.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/millrace/cli/types.h"
#include "tools/millrace/cli/verbs.h"

void mr_overrides_fini(mr_overrides *overrides) {
    free(overrides->override);
    free(overrides->name);
    for (size_t i = 0; i < overrides->made.count; i++)
        free((char *)(uintptr_t)overrides->made.item[i]);
    mr_words_fini(&overrides->made);
    mr_words_fini(&overrides->inputs);
    mr_words_fini(&overrides->assume);
    mr_costs_fini(&overrides->costs);
    *overrides = (mr_overrides){0};
}

static int add(mr_overrides *to, const char *name, const char *key, const char *value) {
    mr_override *wider = realloc(to->override, (to->override_count + 1) * sizeof *wider);
    to->override = wider ? wider : to->override;
    const char **names = wider ? realloc(to->name, (to->override_count + 1) * sizeof *names) : NULL;
    if (!names)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the command line");
    to->name = names;
    names[to->override_count] = name;
    wider[to->override_count++] = (mr_override){.key = key, .value = value};
    return MR_OK;
}

int mr_overrides_take_setting(void *to, char *text) {
    char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return mr_fail(MR_ERROR_USAGE, "takes KEY=VALUE, not \"%s\"", text);
    *equals = 0;
    return add(to, NULL, text, equals + 1);
}

/* In quotes: an address can look like a list in YAML. */
int mr_overrides_set(mr_overrides *overrides, const char *option, const char *key, const char *value) {
    char *quoted = NULL;
    if (!value)
        return MR_OK;
    if (strpbrk(value, "\"\\"))
        return mr_fail(MR_ERROR_USAGE, "%s takes no quotes and no backslashes, as in %s", option, value);
    if (asprintf(&quoted, "\"%s\"", value) < 0)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the command line");
    if (mr_words_add(&overrides->made, quoted)) {
        free(quoted);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the command line");
    }
    return add(overrides, option, key, quoted);
}

int mr_overrides_take_costs(void *to, char *path) {
    return mr_costs_read(to, path);
}

int mr_overrides_check_devices(void *to, char *text) {
    return mr_plan_check_assumption(text);
}

void mr_overrides_apply(const mr_overrides *overrides, mr_pipeline_params *params) {
    params->types = mr_types();
    params->model_of = mr_models_of_files;
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
