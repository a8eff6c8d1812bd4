/* The key `plugins` of a pipeline: shared libraries whose stage types it uses. */
#include <string.h>

#include "engine/spec/plugins.h"
#include "engine/spec/spec_parser.h"
#include "millrace/status.h"

/* For the parser; its description for people is in spec.c. */
static const mr_option keys[] = {
    {.name = "plugins", .kind = MR_OPTION_STRINGS, .example = "libmine.so"},
    MR_OPTIONS_END,
};

/* Loads one; its errors are diagnosed at its place. */
static int load(mr_spec_parser *p, const mr_yaml *item) {
    const mr_plugin *plugin = NULL;
    /* As for other paths: those of the command line start in the working directory. */
    const char *directory = item->place.line > 0 ? p->directory : "";
    int status = mr_plugin_load_from(directory, item->text, &plugin);
    if (!status)
        status = mr_type_list_add(&p->spec->type_list, plugin->types, true);
    if (status && status != MR_ERROR_MEMORY) {
        p->plugins_broken = true;
        mr_diagnose(p->diagnostics, MR_SEVERITY_ERROR, status, item->place, NULL, "%s", mr_message());
        status = MR_OK;
    }
    return status;
}

/* The list by itself, so that it is read as options are. */
static int read_list(mr_spec_parser *p, mr_yaml *value, mr_strings *names) {
    mr_arena *arena = &p->spec->arena;
    const mr_option_reader reader = {
        .arena = arena, .diagnostics = p->diagnostics, .directory = p->directory, .where = ""};
    mr_yaml *map = mr_yaml_new(arena, MR_YAML_MAP, value->place), *copy = mr_arena_alloc(arena, sizeof *copy);
    if (!map || !copy || mr_yaml_expand(value, arena, p->diagnostics) == MR_ERROR_MEMORY)
        return MR_ERROR_MEMORY;
    *copy = *value;
    if (mr_yaml_put(map, arena, value->key, value->key_place, copy))
        return MR_ERROR_MEMORY;
    return mr_options_read(&reader, keys, NULL, map, names);
}

int mr_spec_read_plugins(mr_spec_parser *p) {
    mr_yaml *value = mr_yaml_get(p->spec->root, "plugins");
    mr_strings names = {0};
    if (!value)
        return MR_OK;
    int status = read_list(p, value, &names);
    if (status) {
        p->plugins_broken = true;
        return status == MR_ERROR_MEMORY ? status : MR_OK;
    }
    if (!p->params->plugins && names.count > 0) {
        p->plugins_broken = true;
        mr_spec_error(p, value->key_place,
                      "the command was given --no-plugins, or the program lacks mr_pipeline_params.plugins",
                      "plugins: this program does not load plugins that a pipeline names");
        return MR_OK;
    }
    if (mr_type_list_add(&p->spec->type_list, p->params->types, false))
        return MR_ERROR_MEMORY;
    for (mr_yaml *item = value->kind == MR_YAML_LIST ? value->first : value; item && !status;
         item = value->kind == MR_YAML_LIST ? item->next : NULL)
        status = load(p, item);
    if (status)
        return status;
    p->spec->types = p->spec->type_list.item;
    return mr_spec_index_types(p);
}
