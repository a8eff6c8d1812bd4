/* Sources that come while the pipeline runs: `max` and `like` of the section `sources`.
 *
 *     sources: {max: 64, like: {every: 10}, lobby: {uri: lobby.mp4}}
 *
 * The plan has a reserved source for each that can be added, so that threads and memory are known before. In a file
 * whose `max` is a map those two names stand for sources, as they did before there were such keys. */
#include "engine/spec/spec_room.h"

#include <string.h>

#include "engine/spec/override.h"
#include "engine/spec/spec_stage.h"
#include "millrace/status.h"

typedef struct room {
    int64_t most;
} room;

static const mr_option room_keys[] = {
    {.name = "max", .kind = MR_OPTION_INT, .offset = offsetof(room, most), .required = true, .min = 1,
     .max = MR_SPEC_MAX_SOURCES, .unit = "sources",
     .help = "how many sources there may be at a time, of those that are named here and those that are added while "
             "the pipeline runs, which then runs until it is asked to end"},
    {.name = "like", .kind = MR_OPTION_MAP, .elsewhere = true, .fields = mr_source_keys,
     .help = "type and options for sources that are added, unless these set them; with a uri, the plan takes that "
             "one as a sample"},
    MR_OPTIONS_END,
};

const mr_option *mr_spec_room_keys(void) {
    return room_keys;
}

/* ---- out of the tree, and back --------------------------------------------------------------------------------- */

static mr_yaml *copy_node(mr_arena *arena, const mr_yaml *node) {
    mr_yaml *copy = mr_arena_alloc(arena, sizeof *copy);
    if (copy)
        *copy = *node;
    return copy;
}

/* Puts `from`'s children into `map`, except two. */
static int put_children(mr_arena *arena, const mr_yaml *from, const mr_yaml *without, const mr_yaml *nor,
                        mr_yaml *map) {
    for (const mr_yaml *child = from->first; child; child = child->next) {
        if (child == without || child == nor)
            continue;
        mr_yaml *copy = copy_node(arena, child);
        if (!copy || mr_yaml_put(map, arena, child->key, child->key_place, copy))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

/* ---- the one that is added --------------------------------------------------------------------------------------- */

static int put_options(mr_spec_parser *p, const mr_spec_added *added) {
    mr_arena *arena = &p->spec->arena;
    for (size_t i = 0; i < added->option_count; i++) {
        const char *name = mr_arena_print(arena, "%s: %s", added->id, added->options[i].key);
        const char *key = mr_arena_print(arena, "sources.%s.%s", added->id, added->options[i].key);
        if (!name || !key || mr_spec_set(p, name, key, added->options[i].value))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

/* The type that a source names; NULL: it names none. */
static const char *type_said(const mr_spec_added *added, const mr_yaml *map) {
    const mr_yaml *said = map && map->kind == MR_YAML_MAP ? mr_yaml_get(map, "type") : NULL;
    const char *type = said && said->kind == MR_YAML_SCALAR ? said->text : NULL;
    for (size_t i = 0; added && i < added->option_count; i++)
        if (strcmp(added->options[i].key, "type") == 0)
            type = added->options[i].value;
    return type;
}

/* One type's options are not another's. */
static bool is_like(const mr_spec_parser *p, const mr_spec_added *added, const mr_yaml *own) {
    const char *type = type_said(added, own), *like = type_said(NULL, p->like);
    like = like ? like : p->default_source;
    return !type || (like && strcmp(type, like) == 0);
}

int mr_spec_like(mr_spec_parser *p, const mr_spec_added *added, mr_yaml **whole) {
    mr_arena *arena = &p->spec->arena;
    const char *file = added->node ? added->node->place.file : "added source";
    const char *kept = mr_arena_text(arena, file, strlen(file));
    mr_yaml *own = kept && added->node ? mr_yaml_copy(arena, added->node, kept) : NULL;
    *whole = own;
    if (!kept || (added->node && !own))
        return MR_ERROR_MEMORY;
    if (own && own->kind != MR_YAML_MAP)
        return MR_OK; /* It is refused as it is. */
    *whole = mr_yaml_new(arena, MR_YAML_MAP, own ? own->place : (mr_location){.file = kept});
    if (!*whole)
        return MR_ERROR_MEMORY;
    bool like = p->like && p->like->kind == MR_YAML_MAP && is_like(p, added, own);
    if ((like && put_children(arena, p->like, NULL, NULL, *whole)) ||
        (own && put_children(arena, own, NULL, NULL, *whole)))
        return MR_ERROR_MEMORY;
    return MR_OK;
}

static int put_added(mr_spec_parser *p, mr_yaml *sources) {
    const mr_spec_added *added = p->params->added;
    mr_arena *arena = &p->spec->arena;
    const char *id = mr_arena_text(arena, added->id, strlen(added->id));
    mr_yaml *whole = NULL;
    if (!id || mr_spec_like(p, added, &whole))
        return MR_ERROR_MEMORY;
    mr_location place = added->node ? added->node->key_place : whole->place;
    place.file = whole->place.file;
    return mr_yaml_put(sources, arena, id, place, whole) ? MR_ERROR_MEMORY : put_options(p, added);
}

int mr_spec_take_room(mr_spec_parser *p) {
    mr_spec *spec = p->spec;
    const mr_yaml *sources = mr_yaml_get(spec->root, "sources");
    mr_yaml *most = sources && sources->kind == MR_YAML_MAP ? mr_yaml_get(sources, "max") : NULL;
    if (!most || most->kind == MR_YAML_MAP)
        return MR_OK;
    const mr_yaml *like = mr_yaml_get(sources, "like");
    mr_yaml *map = mr_yaml_new(&spec->arena, MR_YAML_MAP, sources->place);
    p->most = copy_node(&spec->arena, most);
    p->like = like ? copy_node(&spec->arena, like) : NULL;
    if (!map || !p->most || (like && !p->like) || put_children(&spec->arena, sources, most, like, map) ||
        mr_yaml_expand(p->most, &spec->arena, p->diagnostics) == MR_ERROR_MEMORY ||
        (like && mr_yaml_expand(p->like, &spec->arena, p->diagnostics) == MR_ERROR_MEMORY) ||
        mr_yaml_put(spec->root, &spec->arena, "sources", sources->key_place, map))
        return MR_ERROR_MEMORY;
    return p->params->added ? put_added(p, map) : MR_OK;
}

int mr_spec_return_room(mr_spec_parser *p) {
    mr_yaml *sources = p->most ? mr_yaml_get(p->spec->root, "sources") : NULL;
    mr_arena *arena = &p->spec->arena;
    if (!sources)
        return MR_OK;
    if (mr_yaml_put(sources, arena, "max", p->most->key_place, p->most))
        return MR_ERROR_MEMORY;
    return p->like ? mr_yaml_put(sources, arena, "like", p->like->key_place, p->like) : MR_OK;
}

/* ---- reserved sources ------------------------------------------------------------------------------------------- */

static int read_most(mr_spec_parser *p, room *to) {
    const mr_option_reader reader = {.arena = &p->spec->arena, .diagnostics = p->diagnostics, .directory = p->directory,
                                     .where = "sources", .synonyms = p->spec->synonyms};
    mr_yaml *map = mr_yaml_new(&p->spec->arena, MR_YAML_MAP, p->most->place);
    mr_yaml *most = copy_node(&p->spec->arena, p->most);
    if (!map || !most || mr_yaml_put(map, &p->spec->arena, "max", p->most->key_place, most))
        return MR_ERROR_MEMORY;
    return mr_options_read(&reader, room_keys, NULL, map, to);
}

static bool leaves_out(const mr_spec_vertex *vertex) {
    for (const mr_option *option = vertex->type ? vertex->type->options : NULL; option && option->name; option++)
        if (option->required && !mr_yaml_get(vertex->node, option->name))
            return true;
    return false;
}

/* The first one: what `like` sets. */
static int read_like(mr_spec_parser *p, mr_spec_vertex *first) {
    mr_yaml *none = p->like && !mr_yaml_is_null(p->like) ? NULL
                                                         : mr_yaml_new(&p->spec->arena, MR_YAML_MAP, p->most->place);
    const mr_yaml *node = none ? none : p->like;
    size_t before = p->diagnostics->errors;
    *first = (mr_spec_vertex){.id = "like", .place = p->like ? p->like->key_place : p->most->key_place, .node = node,
                              .is_source = true, .reserved = true};
    if (!node)
        return MR_ERROR_MEMORY;
    first->place_text = mr_arena_print(&p->spec->arena, "%s:%d:%d", first->place.file, first->place.line,
                                       first->place.column);
    if (!first->place_text || mr_spec_read_vertex(p, first))
        return MR_ERROR_MEMORY;
    first->broken = first->broken || p->diagnostics->errors > before;
    first->partial = leaves_out(first);
    return MR_OK;
}

static int append(mr_spec_parser *p, size_t count) {
    mr_spec *spec = p->spec;
    size_t named = spec->source_count;
    mr_spec_vertex *all = mr_arena_array(&spec->arena, named + count, sizeof *all);
    if (!all || (count && read_like(p, &all[named])))
        return MR_ERROR_MEMORY;
    if (named)
        memcpy(all, spec->sources, named * sizeof *all);
    for (size_t i = 0; i < count; i++) {
        all[named + i] = all[named];
        all[named + i].id = mr_arena_print(&spec->arena, "+%zu", i + 1);
        if (!all[named + i].id)
            return MR_ERROR_MEMORY;
    }
    spec->sources = all;
    spec->source_count = named + count;
    spec->reserved_count = count;
    return MR_OK;
}

int mr_spec_reserve(mr_spec_parser *p) {
    room said = {0};
    if (!p->most)
        return MR_OK;
    int status = read_most(p, &said);
    if (status)
        return status == MR_ERROR_MEMORY ? status : MR_OK;
    p->spec->most_sources = (size_t)said.most;
    p->spec->most_place = p->most->place;
    if (p->params->added)
        return MR_OK;
    if (p->spec->source_count <= (size_t)said.most)
        return append(p, (size_t)said.most - p->spec->source_count);
    mr_spec_error(p, p->most->place, "name fewer, or allow more",
                  "sources.max: there are %zu sources here, and at most %zu may be there at a time",
                  p->spec->source_count, (size_t)said.most);
    return MR_OK;
}
