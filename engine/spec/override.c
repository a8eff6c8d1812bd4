/* Overrides of the command line in the tree (--set, --input and --output), and sources that name several streams. */
#include "engine/spec/override.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/spec/spec_id.h"
#include "engine/spec/spec_plugins.h"
#include "engine/spec/spec_room.h"
#include "engine/spec/spec_stage.h"
#include "engine/text/options.h"
#include "millrace/status.h"

/* ---- --set --------------------------------------------------------------------------------------------------- */

/* "stages.features.batch.size" -> the first part copied, `*path` after the dot; NULL if nothing is left. */
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

/* A map with the same values. */
static mr_yaml *copy_map(mr_arena *arena, const mr_yaml *map) {
    mr_yaml *copy = mr_yaml_new(arena, MR_YAML_MAP, map->place);
    if (copy)
        copy->doubled = map->doubled;
    for (const mr_yaml *child = map->first; child && copy; child = child->next) {
        mr_yaml *twin = mr_arena_alloc(arena, sizeof *twin);
        if (!twin)
            return NULL;
        *twin = *child;
        if (mr_yaml_put(copy, arena, child->key, child->key_place, twin))
            return NULL;
    }
    return copy;
}

/* The map under `part`, created if it is missing. Replaces a plain value, so that batch.size can be set if `batch: 8`
 * was written. Sources that inputs have made share maps, so a map must be copied before it changes. */
static mr_yaml *descend(mr_spec_parser *p, mr_yaml *map, const char *part, mr_location place) {
    mr_arena *arena = &p->spec->arena;
    const mr_yaml *child = mr_yaml_get(map, part);
    const bool is_map = child && child->kind == MR_YAML_MAP;
    mr_location key_place = is_map ? child->key_place : place;
    mr_yaml *own = is_map ? copy_map(arena, child) : mr_yaml_new(arena, MR_YAML_MAP, place);
    return own && !mr_yaml_put(map, arena, part, key_place, own) ? own : NULL;
}

/* An option can be set only on a stage that exists: otherwise a slip in the id would create a new one. */
static bool vertex_exists(mr_spec_parser *p, const mr_yaml *section, const char *part, mr_location place) {
    char hint[256], all[256] = "";
    size_t used = 0;
    mr_nearest nearest = {.wanted = part};
    if (mr_yaml_get(section, part))
        return true;
    for (const mr_yaml *child = section->first; child; child = child->next) {
        mr_nearest_offer(&nearest, child->key);
        if (used < sizeof all)
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "it has ",
                                     child->key);
    }
    mr_spec_error(p, place, mr_nearest_hint(&nearest, hint, sizeof hint, used && used < sizeof all ? all : NULL),
                  "there is no \"%s\" in %s", part, section->key);
    return false;
}

/* Refuses "fps", a source or stage option without the source's or stage's name. A slip in a pipeline key is left to the
 * code that reads these. */
static bool lacks_place(mr_spec_parser *p, const char *key, mr_location place) {
    char hint[256];
    const mr_yaml *sources = mr_yaml_get(p->spec->root, "sources"), *stages = mr_yaml_get(p->spec->root, "stages");
    mr_nearest nearest = {.wanted = key};
    for (const mr_option *option = mr_spec_keys(MR_SPEC_PIPELINE); option->name; option++)
        mr_nearest_offer(&nearest, option->name);
    if (strchr(key, '.') || nearest.best || !sources || !sources->first || !stages || !stages->first)
        return false;
    snprintf(hint, sizeof hint, "name the source or stage: --set sources.%s.%s=..., or stages.%s.%s=...",
             sources->first->key, key, stages->first->key, key);
    mr_spec_error(p, place, hint, "the pipeline: unknown key \"%s\"", key);
    return true;
}

/* Refuses "classify.top_k" if "classify" is a stage, with the key to write: options are set below `stages`. */
static bool begins_with_id(mr_spec_parser *p, const char *key, mr_location place) {
    static const char *const sections[] = {"stages", "sources"};
    char hint[256];
    const char *rest = key;
    const char *id = strchr(key, '.') ? next_part(&p->spec->arena, &rest) : NULL;
    bool is_id = false;
    for (size_t i = 0; id && i < 2 && !is_id && !mr_yaml_get(p->spec->root, id); i++) {
        is_id = mr_yaml_get(mr_yaml_get(p->spec->root, sections[i]), id);
        snprintf(hint, sizeof hint, "write --set %s.%s=...", sections[i], key);
    }
    if (is_id)
        mr_spec_error(p, place, hint, "the pipeline: unknown key \"%s\"", id);
    return is_id;
}

static int put_override(mr_spec_parser *p, const char *path, mr_location place, mr_yaml *value) {
    mr_yaml *map = p->spec->root;
    if (begins_with_id(p, path, place) || lacks_place(p, path, place))
        return MR_OK;
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

/* "--set stages.decode.threads (lobby.yaml:6:22)": the replaced value, or the map that it is added to. A value made by
 * an earlier override has no place. `name`: what the option is called; NULL: --set and the key. */
static const char *place_name(mr_spec_parser *p, const char *name, const char *key) {
    const mr_yaml *replaced = mr_yaml_nearest(p->spec->root, key);
    const mr_location *at = &replaced->place;
    const char *option = name ? name : mr_arena_print(&p->spec->arena, "--set %s", key);
    if (!option || replaced == p->spec->root || at->line == 0)
        return option ? mr_arena_print(&p->spec->arena, "%s", option) : NULL;
    return mr_arena_print(&p->spec->arena, "%s (%s:%d:%d)", option, at->file, at->line, at->column);
}

int mr_spec_set(mr_spec_parser *p, const char *name, const char *key, const char *text) {
    mr_arena *arena = &p->spec->arena;
    mr_yaml *value = NULL;
    mr_location place = {.file = name};
    /* Standard output, which YAML would parse as the start of a list. */
    bool dash = strcmp(text, "-") == 0;
    int status = dash ? MR_OK : mr_yaml_parse(&value, arena, name, text, strlen(text), true, p->diagnostics);
    if (status)
        return status == MR_ERROR_MEMORY ? status : MR_OK;
    if (!value) {
        value = mr_yaml_new(arena, MR_YAML_SCALAR, place);
        if (!value)
            return MR_ERROR_MEMORY;
        value->text = dash ? "-" : "";
    }
    return put_override(p, key, place, value);
}

static int apply_override(mr_spec_parser *p, size_t index) {
    const mr_override *override = &p->params->overrides[index];
    const char *const *names = p->params->override_names;
    const char *name = place_name(p, names ? names[index] : NULL, override->key);
    if (!name)
        return MR_ERROR_MEMORY;
    if (path_is_plain(override->key))
        return mr_spec_set(p, name, override->key, override->value);
    mr_spec_error(p, (mr_location){.file = name}, "write --set stages.decode.threads=2",
                  "the key must be names separated by dots");
    return MR_OK;
}

/* ---- --input ------------------------------------------------------------------------------------------------- */

static mr_yaml *argument(mr_spec_parser *p, const char *option, const char *value) {
    mr_arena *arena = &p->spec->arena;
    const char *file = mr_arena_print(arena, "%s %s", option, value);
    mr_yaml *node = file ? mr_yaml_new(arena, MR_YAML_SCALAR, (mr_location){.file = file}) : NULL;
    if (!node)
        return NULL;
    node->text = mr_arena_text(arena, value, strlen(value));
    node->quoted = node->expanded = true;
    return node->text ? node : NULL;
}

/* `id`, or `id` with the first number that makes it new. `taken` remembers each id's last number, so that a thousand
 * files with one name need only a thousand steps. */
static const char *unique_id(mr_spec_parser *p, mr_index *taken, const mr_yaml *stages, const char *id) {
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

static mr_yaml *copy_source(mr_spec_parser *p, const mr_yaml *source, mr_yaml *uri) {
    mr_arena *arena = &p->spec->arena;
    mr_yaml *copy = copy_map(arena, source);
    return copy && uri && !mr_yaml_put(copy, arena, "uri", uri->place, uri) ? copy : NULL;
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
        mr_yaml *copy = copy_source(p, source, argument(p, "--input", params->inputs[i]));
        if (params->input_count > 1) {
            id = mr_spec_source_id_from(&spec->arena, params->inputs[i]);
            id = id ? unique_id(p, &taken, stages, id) : NULL;
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
    mr_location place = {.file = "--input"};
    bool none = !sources || sources->kind != MR_YAML_MAP || (sources->count == 0 && !p->most);
    if (p->params->input_count == 0 || none)
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

/* The option for the path that a stage writes to; NULL if it has none. */
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
    const char *first = NULL;
    char hint[256];
    size_t count = 0;
    bool known = !p->plugins_broken;
    if (!p->params->output || !stages || stages->kind != MR_YAML_MAP)
        return MR_OK;
    for (mr_yaml *stage = stages->first; stage; stage = stage->next) {
        const mr_option *path = written_path(p, stage);
        known = known && (stage->kind != MR_YAML_MAP || mr_spec_type_of(p, stage, false));
        if (!path)
            continue;
        first = first ? first : stage->key;
        sink = stage;
        option = path;
        count++;
    }
    if (count != 1 && !known)
        return MR_OK; /* a stage with an unknown type, which is reported, may be the one */
    if (count != 1) {
        snprintf(hint, sizeof hint, "use --set stages.ID.path=... for each, such as stages.%s.path=%s",
                 first ? first : "", p->params->output);
        mr_spec_error(p, (mr_location){.file = "--output"}, count ? hint : NULL,
                      "an output replaces the path of the only stage that writes a file, but the pipeline has %zu",
                      count);
        return MR_OK;
    }
    mr_yaml *path = argument(p, "--output", p->params->output);
    return path ? mr_yaml_put(sink, &p->spec->arena, option->name, path->place, path) : MR_ERROR_MEMORY;
}

/* "sources.lobby-2.every" must wait until inputs and folders have made sources: it can be an option for one. */
static bool waits(mr_spec_parser *p, const char *key) {
    const mr_yaml *sources = mr_yaml_get(p->spec->root, "sources");
    if (strncmp(key, "sources.", strlen("sources.")) != 0 || !path_is_plain(key))
        return false;
    key += strlen("sources.");
    const char *id = next_part(&p->spec->arena, &key);
    return id && *key && !mr_yaml_get(sources, id);
}

/* The overrides that wait, and the variables in them. */
static int apply_late(mr_spec_parser *p) {
    bool any = false;
    for (size_t i = 0; i < p->params->override_count; i++) {
        if (p->late[i] && apply_override(p, i))
            return MR_ERROR_MEMORY;
        any |= p->late[i];
    }
    return any && mr_yaml_expand(p->spec->root, &p->spec->arena, p->diagnostics) == MR_ERROR_MEMORY ? MR_ERROR_MEMORY
                                                                                                    : MR_OK;
}

int mr_spec_override(mr_spec_parser *parser) {
    const mr_spec_params *params = parser->params;
    parser->late = mr_arena_array(&parser->spec->arena, params->override_count, sizeof *parser->late);
    if (params->override_count && !parser->late)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < params->override_count; i++) {
        parser->late[i] = waits(parser, params->overrides[i].key);
        if (!parser->late[i] && apply_override(parser, i))
            return MR_ERROR_MEMORY;
    }
    /* Which options are inputs or outputs depends on the types. */
    return mr_spec_read_plugins(parser) || mr_spec_take_room(parser) || apply_inputs(parser) || apply_output(parser)
               ? MR_ERROR_MEMORY
               : MR_OK;
}

/* ---- sources of several streams ---------------------------------------------------------------------------------- */

/* Sources that name several streams, such as a folder with videos. Each stream becomes a separate source, named after
 * the file; the name in the pipeline stands for all. */
typedef struct stream {
    const char *uri;
    struct stream *next;
} stream;

/* One source's streams. */
typedef struct streams {
    mr_arena *arena;
    size_t folder; /* how many of each path's bytes are the pipeline's folder */
    size_t count;
    stream *first, **end;
} streams;

static int add_stream(void *context, const char *path) {
    streams *to = context;
    stream *made = mr_arena_alloc(to->arena, sizeof *made);
    const char *uri = made ? mr_arena_text(to->arena, path + to->folder, strlen(path + to->folder)) : NULL;
    if (!uri)
        return MR_ERROR_MEMORY;
    *made = (stream){.uri = uri};
    *to->end = made;
    to->end = &made->next;
    to->count++;
    return MR_OK;
}

/* The streams of a source's `uri`; *to stays empty if that is one stream, or wrong, which is reported when it is
 * opened. */
static int find_streams(mr_spec_parser *p, const mr_yaml *source, streams *to) {
    static const mr_option kind = {.kind = MR_OPTION_URI};
    const mr_yaml *uri = source->kind == MR_YAML_MAP ? mr_yaml_get(source, "uri") : NULL;
    const mr_type_entry *entry = uri && uri->kind == MR_YAML_SCALAR ? mr_spec_type_of(p, source, true) : NULL;
    *to = (streams){.arena = &p->spec->arena};
    to->end = &to->first;
    if (!entry || !entry->type->spread || !*uri->text)
        return MR_OK;
    const char *path = mr_option_without_scheme(uri->text);
    if (uri->place.line > 0 && mr_option_is_relative(&kind, path)) {
        to->folder = strlen(p->directory);
        path = mr_arena_print(&p->spec->arena, "%s%s", p->directory, path);
    }
    return path ? entry->type->spread(path, add_stream, to) : MR_ERROR_MEMORY;
}

static int put_streams(mr_spec_parser *p, const mr_yaml *source, const streams *from, mr_index *taken, mr_yaml *map) {
    mr_arena *arena = &p->spec->arena;
    const mr_yaml *stages = mr_yaml_get(p->spec->root, "stages"), *written = mr_yaml_get(source, "uri");
    for (const stream *at = from->first; at; at = at->next) {
        mr_yaml *uri = mr_yaml_new(arena, MR_YAML_SCALAR, written->place);
        const char *id = mr_spec_source_id_from(arena, at->uri);
        id = id ? unique_id(p, taken, stages, id) : NULL;
        if (!uri || !id)
            return MR_ERROR_MEMORY;
        uri->text = at->uri;
        uri->quoted = uri->expanded = true;
        mr_yaml *copy = copy_source(p, source, uri);
        if (!copy || mr_yaml_put(map, arena, id, source->key_place, copy))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

/* The author's own ids stay as they are. */
static int take_written(mr_spec_parser *p, const mr_yaml *sources, const streams *found, mr_index *taken) {
    size_t i = 0;
    for (const mr_yaml *source = sources->first; source; source = source->next, i++) {
        int *number = mr_arena_array(&p->spec->arena, 1, sizeof *number);
        if (!number)
            return MR_ERROR_MEMORY;
        *number = 1;
        if (!found[i].count && mr_index_put(taken, &p->spec->arena, source->key, number))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

static int replace(mr_spec_parser *p, const mr_yaml *sources, const streams *found) {
    mr_arena *arena = &p->spec->arena;
    mr_spec *spec = p->spec;
    mr_index taken = {0};
    mr_yaml *map = mr_yaml_new(arena, MR_YAML_MAP, sources->place);
    spec->groups = mr_arena_array(arena, sources->count, sizeof *spec->groups);
    if (!map || !spec->groups || take_written(p, sources, found, &taken))
        return MR_ERROR_MEMORY;
    size_t i = 0;
    for (const mr_yaml *source = sources->first; source; source = source->next, i++) {
        mr_yaml *same = mr_arena_alloc(arena, sizeof *same);
        if (!same)
            return MR_ERROR_MEMORY;
        *same = *source;
        if (found[i].count)
            spec->groups[spec->group_count++] = (mr_spec_group){source->key, map->count, found[i].count};
        if (found[i].count ? put_streams(p, source, &found[i], &taken, map)
                           : mr_yaml_put(map, arena, source->key, source->key_place, same))
            return MR_ERROR_MEMORY;
    }
    return mr_yaml_put(spec->root, arena, "sources", sources->key_place, map);
}

int mr_spec_spread(mr_spec_parser *p) {
    const mr_yaml *sources = mr_yaml_get(p->spec->root, "sources");
    if (!sources || sources->kind != MR_YAML_MAP || sources->count == 0)
        return apply_late(p);
    streams *found = mr_arena_array(&p->spec->arena, sources->count, sizeof *found);
    bool any = false;
    size_t i = 0;
    if (!found)
        return MR_ERROR_MEMORY;
    for (const mr_yaml *source = sources->first; source; source = source->next, i++) {
        if (find_streams(p, source, &found[i]))
            return MR_ERROR_MEMORY;
        any |= found[i].count > 0;
    }
    return any && replace(p, sources, found) ? MR_ERROR_MEMORY : apply_late(p);
}
