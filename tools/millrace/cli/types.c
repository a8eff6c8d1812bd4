#include "tools/millrace/cli/types.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/millrace.h"
#include "millrace/plugin.h"
#include "tools/millrace/cli/exports.h"

static mr_type_list all;
/* Ends with a NULL entry. */
static mr_types_plugin *plugins;
static size_t plugin_count;

int mr_types_begin(const mr_stage_type *const *own) {
    mr_exports_keep();
    for (size_t i = 0; own && own[i]; i++) {
        int status = mr_stage_type_check(own[i]);
        if (status)
            return status;
    }
    mr_type_list_fini(&all);
    int status = mr_type_list_add(&all, mr_stage_types(), false);
    return status ? status : mr_type_list_add(&all, own, true);
}

static int note_plugin(const char *given, const mr_plugin *plugin) {
    Dl_info info = {0};
    mr_types_plugin *more = realloc(plugins, (plugin_count + 2) * sizeof *more);
    char *path = dladdr(plugin, &info) && info.dli_fname ? realpath(info.dli_fname, NULL) : strdup(given);
    if (more)
        plugins = more;
    if (!more || !path) {
        free(path);
        return mr_fail(MR_ERROR_MEMORY, "no memory for a plugin");
    }
    plugins[plugin_count++] = (mr_types_plugin){.given = given, .path = path};
    plugins[plugin_count] = (mr_types_plugin){0};
    return MR_OK;
}

int mr_types_add_plugin(const char *path) {
    const mr_plugin *plugin = NULL;
    int status = mr_plugin_load(path, &plugin);
    if (!status)
        status = mr_type_list_add(&all, plugin->types, true);
    return status ? status : note_plugin(path, plugin);
}

const mr_stage_type *const *mr_types(void) {
    return all.item;
}

const mr_types_plugin *mr_types_plugins(void) {
    static const mr_types_plugin none;
    return plugins ? plugins : &none;
}

const char *mr_type_kind(const mr_stage_type *type) {
    if (!type->inputs)
        return "source";
    if (!type->outputs)
        return "sink";
    return type->outputs[0].optional ? "stage, sink" : "stage";
}
