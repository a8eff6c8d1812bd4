/* What the command line replaces in the tree: --set, --input and --output. */
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/spec/spec_parser.h"
#include "millrace/status.h"

/* ---- --set --------------------------------------------------------------------------------------------------- */

/* "stages.features.batch.size" -> its first part copied, `*path` behind the dot; NULL where nothing is left. */
static const char *next_part(mr_arena *arena, const char **path) {
    size_t length = strcspn(*path, ".");
    const char *part = mr_arena_text(arena, *path, length);
    *path += length + ((*path)[length] == '.');
    return part;
}

static bool path_is_plain(const char *key) {
    size_t length = strlen(key);
    return length > 0 && key[0] != '.' && key[length - 1] != '.' && !strstr(key, "..");
}

/* The map behind `part`, made where it is missing. A plain value in its place is replaced, so that batch.size can be
 * set where `batch: 8` was written. */
static mr_yaml *descend(mr_spec_parser *p, mr_yaml *map, const char *part, mr_place place) {
    mr_yaml *child = mr_yaml_get(map, part);
    if (child && child->kind == MR_YAML_MAP)
        return child;
    child = mr_yaml_new(&p->spec->arena, MR_YAML_MAP, place);
    return child && !mr_yaml_put(map, &p->spec->arena, part, place, child) ? child : NULL;
}

/* An option is set of a stage that is there: a slip in its id would otherwise make a new one. */
static bool vertex_exists(mr_spec_parser *p, const mr_yaml *section, const char *part, mr_place place) {
    char hint[256];
    mr_nearest nearest = {.wanted = part};
    if (mr_yaml_get(section, part))
        return true;
    for (const mr_yaml *child = section->first; child; child = child->next)
        mr_nearest_offer(&nearest, child->key);
    mr_spec_error(p, place, mr_nearest_hint(&nearest, hint, sizeof hint, NULL), "there is no \"%s\" in %s", part,
                  section->key);
    return false;
}

static int put_override(mr_spec_parser *p, const char *path, mr_place place, mr_yaml *value) {
    mr_yaml *map = p->spec->root;
    for (int depth = 0;; depth++) {
        const char *part = next_part(&p->spec->arena, &path);
        if (!part)
            return MR_ERROR_MEMORY;
        if (!*path)
            return mr_yaml_put(map, &p->spec->arena, part, place, value);
        if (depth == 1 && !vertex_exists(p, map, part, place))
            return MR_OK;
        if (depth == MR_YAML_MAX_DEPTH) {
            mr_spec_error(p, place, NULL, "the key has more than %d parts", MR_YAML_MAX_DEPTH);
            return MR_OK;
        }
        map = descend(p, map, part, place);
        if (!map)
            return MR_ERROR_MEMORY;
    }
}

/* "--set stages.decode.threads (lobby.yaml:6:22)": what is replaced, or the map that it is added to. What an earlier
 * override has made has no place. */
static const char *place_name(mr_spec_parser *p, const char *key) {
    const mr_yaml *replaced = mr_yaml_nearest(p->spec->root, key);
    const mr_place *at = &replaced->place;
    if (replaced == p->spec->root || at->line == 0)
        return mr_arena_print(&p->spec->arena, "--set %s", key);
    return mr_arena_print(&p->spec->arena, "--set %s (%s:%d:%d)", key, at->file, at->line, at->column);
}

static int apply_override(mr_spec_parser *p, const mr_override *override) {
    mr_arena *arena = &p->spec->arena;
    mr_yaml *value = NULL;
    const char *name = place_name(p, override->key);
    if (!name)
        return MR_ERROR_MEMORY;
    mr_place place = {.file = name};
    if (!path_is_plain(override->key)) {
        mr_spec_error(p, place, "write --set stages.decode.threads=2", "the key is not a path of names with dots");
        return MR_OK;
    }
    /* Standard output, which YAML would take for the beginning of a list. */
    bool dash = strcmp(override->value, "-") == 0;
    int status = dash ? MR_OK
                      : mr_yaml_parse(&value, arena, name, override->value, strlen(override->value), true,
                                      p->diagnostics);
    if (status)
        return status == MR_ERROR_MEMORY ? status : MR_OK;
    if (!value) {
        value = mr_yaml_new(arena, MR_YAML_SCALAR, place);
        if (!value)
            return MR_ERROR_MEMORY;
        value->text = dash ? "-" : "";
    }
    return put_override(p, override->key, place, value);
}

/* ---- --input ------------------------------------------------------------------------------------------------- */

static mr_yaml *argument(mr_spec_parser *p, const char *option, const char *value) {
    mr_arena *arena = &p->spec->arena;
    const char *file = mr_arena_print(arena, "%s %s", option, value);
    mr_yaml *node = file ? mr_yaml_new(arena, MR_YAML_SCALAR, (mr_place){.file = file}) : NULL;
    if (!node)
        return NULL;
    node->text = mr_arena_text(arena, value, strlen(value));
    node->quoted = node->expanded = true;
    return node->text ? node : NULL;
}

/* `id`, or with the first number behind it that makes it new. `taken` remembers the last number of each, so that a
 * thousand files of one name take a thousand steps. */
const char *mr_spec_unique_id(mr_spec_parser *p, mr_index *taken, const mr_yaml *stages, const char *id) {
    mr_arena *arena = &p->spec->arena;
    const char *candidate = id;
    int *number = mr_index_get(taken, id);
    int start = number ? *number : 1;
    for (; strcmp(candidate, "sources") == 0 || mr_index_get(taken, candidate) || mr_yaml_get(stages, candidate);) {
        candidate = mr_arena_print(arena, "%s-%d", id, ++start);
        if (!candidate)
            return NULL;
    }
    int *counts = mr_arena_array(arena, 2, sizeof *counts);
    if (!counts)
        return NULL;
    counts[0] = start;
    counts[1] = 1;
    if (mr_index_put(taken, arena, id, &counts[0]))
        return NULL;
    return candidate == id || !mr_index_put(taken, arena, candidate, &counts[1]) ? candidate : NULL;
}

mr_yaml *mr_spec_copy_source(mr_spec_parser *p, const mr_yaml *source, mr_yaml *uri) {
    mr_arena *arena = &p->spec->arena;
    mr_yaml *copy = mr_yaml_new(arena, MR_YAML_MAP, source->place);
    if (!copy || !uri)
        return NULL;
    for (const mr_yaml *child = source->first; child; child = child->next) {
        mr_yaml *twin = mr_arena_alloc(arena, sizeof *twin);
        if (!twin)
            return NULL;
        *twin = *child;
        if (mr_yaml_put(copy, arena, child->key, child->key_place, twin))
            return NULL;
    }
    return mr_yaml_put(copy, arena, "uri", uri->place, uri) ? NULL : copy;
}

static int replace_source(mr_spec_parser *p, const mr_yaml *sources, const mr_yaml *source) {
    const mr_spec_params *params = p->params;
    mr_spec *spec = p->spec;
    const mr_yaml *stages = mr_yaml_get(spec->root, "stages");
    mr_index taken = {0};
    mr_yaml *map = mr_yaml_new(&spec->arena, MR_YAML_MAP, sources->place);
    if (!map)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < params->input_count; i++) {
        const char *id = source->key;
        mr_yaml *copy = mr_spec_copy_source(p, source, argument(p, "--input", params->inputs[i]));
        if (params->input_count > 1) {
            id = mr_spec_source_id_from(&spec->arena, params->inputs[i]);
            id = id ? mr_spec_unique_id(p, &taken, stages, id) : NULL;
        }
        if (!copy || !id || mr_yaml_put(map, &spec->arena, id, source->key_place, copy))
            return MR_ERROR_MEMORY;
    }
    if (params->input_count > 1)
        spec->all_sources = source->key;
    return mr_yaml_put(spec->root, &spec->arena, "sources", sources->key_place, map);
}

static int apply_inputs(mr_spec_parser *p) {
    const mr_yaml *sources = mr_yaml_get(p->spec->root, "sources");
    mr_place place = {.file = "--input"};
    if (p->params->input_count == 0 || !sources || sources->kind != MR_YAML_MAP || sources->count == 0)
        return MR_OK;
    if (sources->count != 1) {
        mr_spec_error(p, place, "use --set sources.ID.uri=... for each",
                      "an input replaces the only source, but the pipeline has %zu", sources->count);
        return MR_OK;
    }
    const mr_yaml *source = sources->first;
    const mr_type_entry *entry = source->kind == MR_YAML_MAP ? mr_spec_type_of(p, source, true) : NULL;
    if (!entry)
        return MR_OK;
    if (!mr_option_find(entry->type->options, "uri")) {
        mr_spec_error(p, place, NULL, "the source \"%s\" is of type %s, which reads no uri", source->key,
                      entry->type->name);
        return MR_OK;
    }
    return replace_source(p, sources, source);
}

/* ---- --output ------------------------------------------------------------------------------------------------ */

/* The option with which a stage is told where to write; NULL where it has none. */
static const mr_option *written_path(const mr_spec_parser *p, const mr_yaml *stage) {
    const mr_type_entry *entry = stage->kind == MR_YAML_MAP ? mr_spec_type_of(p, stage, false) : NULL;
    for (const mr_option *option = entry ? entry->type->options : NULL; option && option->name; option++)
        if (option->file == MR_FILE_WRITTEN || option->file == MR_FILE_FOLDER)
            return option;
    return NULL;
}

static int apply_output(mr_spec_parser *p) {
    const mr_yaml *stages = mr_yaml_get(p->spec->root, "stages");
    mr_yaml *sink = NULL;
    const mr_option *option = NULL;
    size_t count = 0;
    if (!p->params->output || !stages || stages->kind != MR_YAML_MAP)
        return MR_OK;
    for (mr_yaml *stage = stages->first; stage; stage = stage->next) {
        const mr_option *path = written_path(p, stage);
        if (!path)
            continue;
        sink = stage;
        option = path;
        count++;
    }
    if (count != 1 && p->plugins_broken)
        return MR_OK;
    if (count != 1) {
        mr_spec_error(p, (mr_place){.file = "--output"}, count ? "use --set stages.ID.path=... for each" : NULL,
                      "an output replaces the path of the only stage that writes a file, but the pipeline has %zu",
                      count);
        return MR_OK;
    }
    mr_yaml *path = argument(p, "--output", p->params->output);
    return path ? mr_yaml_put(sink, &p->spec->arena, option->name, path->place, path) : MR_ERROR_MEMORY;
}

int mr_spec_override(mr_spec_parser *parser) {
    for (size_t i = 0; i < parser->params->override_count; i++)
        if (apply_override(parser, &parser->params->overrides[i]))
            return MR_ERROR_MEMORY;
    /* What is an input or an output depends on the types. */
    return mr_spec_read_plugins(parser) || apply_inputs(parser) || apply_output(parser) ? MR_ERROR_MEMORY : MR_OK;
}
