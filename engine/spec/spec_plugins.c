#include "engine/spec/spec_plugins.h"

#include "engine/spec/plugins.h"
#include "millrace/status.h"

int mr_spec_index_types(mr_spec_parser *p) {
    for (const mr_stage_type *const *type = p->spec->types; type && *type; type++) {
        mr_type_entry *entry = mr_arena_alloc(&p->spec->arena, sizeof *entry);
        if (!entry || mr_index_put(&p->types[(*type)->inputs == NULL], &p->spec->arena, (*type)->name, entry))
            return MR_ERROR_MEMORY;
        entry->type = *type;
    }
    return MR_OK;
}

/* For the parser; the description for people is in spec.c. */
static const mr_option plugin_keys[] = {
    {.name = "plugins", .kind = MR_OPTION_STRINGS, .example = "libmine.so"},
    MR_OPTIONS_END,
};

/* Loads one and diagnoses errors where it is written. */
static int load_plugin(mr_spec_parser *p, const mr_yaml *item) {
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
static int read_plugin_list(mr_spec_parser *p, mr_yaml *value, mr_strings *names) {
    mr_arena *arena = &p->spec->arena;
    const mr_option_reader reader = {
        .arena = arena, .diagnostics = p->diagnostics, .directory = p->directory, .where = "",
        .synonyms = p->spec->synonyms};
    mr_yaml *map = mr_yaml_new(arena, MR_YAML_MAP, value->place), *copy = mr_arena_alloc(arena, sizeof *copy);
    if (!map || !copy || mr_yaml_expand(value, arena, p->diagnostics) == MR_ERROR_MEMORY)
        return MR_ERROR_MEMORY;
    *copy = *value;
    if (mr_yaml_put(map, arena, value->key, value->key_place, copy))
        return MR_ERROR_MEMORY;
    return mr_options_read(&reader, plugin_keys, NULL, map, names);
}

int mr_spec_read_plugins(mr_spec_parser *p) {
    mr_yaml *value = mr_yaml_get(p->spec->root, "plugins");
    mr_strings names = {0};
    if (!value)
        return MR_OK;
    int status = read_plugin_list(p, value, &names);
    if (status) {
        p->plugins_broken = true;
        return status == MR_ERROR_MEMORY ? status : MR_OK;
    }
    if (!p->params->plugins && names.count > 0) {
        p->plugins_broken = true;
        mr_spec_error(p, value->key_place,
                      "plugins run their own code: `--plugins` loads them; a program sets mr_pipeline_params.plugins",
                      "plugins: this command does not load plugins that a pipeline names");
        return MR_OK;
    }
    if (mr_type_list_add(&p->spec->type_list, p->params->types, false))
        return MR_ERROR_MEMORY;
    for (mr_yaml *item = value->kind == MR_YAML_LIST ? value->first : value; item && !status;
         item = value->kind == MR_YAML_LIST ? item->next : NULL)
        status = load_plugin(p, item);
    if (status)
        return status;
    p->spec->types = p->spec->type_list.item;
    return mr_spec_index_types(p);
}
