/* Sources that name several streams, such as a folder of videos: each stream becomes a source of its own, called after
 * its file; the name that is written in the pipeline stands for all of them. */
#include <string.h>

#include "engine/spec/spec_parser.h"
#include "engine/text/options.h"
#include "millrace/status.h"

typedef struct stream {
    const char *uri;
    struct stream *next;
} stream;

/* The streams of one source. */
typedef struct streams {
    mr_arena *arena;
    size_t folder; /* bytes of each path that are the pipeline's folder */
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

/* What a source's `uri` names; *to stays empty if that is one stream, or wrong, which is told when it is opened. */
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
        id = id ? mr_spec_unique_id(p, taken, stages, id) : NULL;
        if (!uri || !id)
            return MR_ERROR_MEMORY;
        uri->text = at->uri;
        uri->quoted = uri->expanded = true;
        mr_yaml *copy = mr_spec_copy_source(p, source, uri);
        if (!copy || mr_yaml_put(map, arena, id, source->key_place, copy))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

/* The ids that are written stay as they are. */
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
        return MR_OK;
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
    return any ? replace(p, sources, found) : MR_OK;
}

const char *mr_spec_source_name(const mr_spec *spec, size_t source) {
    for (size_t g = 0; g < spec->group_count; g++)
        if (source - spec->groups[g].first < spec->groups[g].count)
            return spec->groups[g].name;
    return spec->sources[source].id;
}
