#include "engine/spec/spec_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/spec/spec_id.h"
#include "engine/spec/spec_plugins.h"
#include "engine/spec/spec_room.h"
#include "engine/spec/spec_stage.h"
#include "millrace/status.h"

/* A list that is being read. */
typedef struct reading {
    mr_spec_list *list;
    const mr_spec *pipeline;
    mr_diagnostics *diagnostics;
    mr_spec_list_check *check;
    void *context;          /* for that */
    mr_spec_parser parser;  /* for source options */
    mr_index ids;           /* to mr_spec_listed */
    size_t room;
} reading;

/* ---- files ------------------------------------------------------------------------------------------------------ */

static int refuse_file(const reading *r, const char *path, const char *why, int error) {
    int status = error == EINVAL ? MR_ERROR_NO_INPUT : mr_file_status(error);
    return mr_diagnose(r->diagnostics, MR_SEVERITY_ERROR, status, (mr_location){.file = path}, NULL,
                       "cannot read the list of sources: %s", why);
}

static int read_file(const reading *r, const char *path, const char **text, size_t *bytes) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int error = file < 0 ? errno : mr_spec_read_bytes(&r->list->arena, file, text, bytes);
    if (file >= 0)
        close(file);
    if (error == ENOMEM)
        return MR_ERROR_MEMORY;
    return error ? refuse_file(r, path, error == EINVAL ? "it is not a regular file" : strerror(error), error) : MR_OK;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static const mr_spec_vertex *taken_by(const mr_spec_vertex *vertices, size_t count, const char *id) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(vertices[i].id, id) == 0)
            return &vertices[i];
    return NULL;
}

static void check_id(const reading *r, const mr_yaml *node) {
    const mr_spec *pipeline = r->pipeline;
    const mr_spec_listed *before = mr_index_get(&r->ids, node->key);
    const mr_spec_vertex *stage = taken_by(pipeline->stages, pipeline->stage_count, node->key);
    const mr_spec_vertex *source = taken_by(pipeline->sources, pipeline->source_count, node->key);
    const mr_spec_vertex *other = stage ? stage : source;
    if (!mr_spec_source_id_is_plain(node->key) || strcmp(node->key, "sources") == 0)
        mr_diagnose(r->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, node->key_place,
                    "use letters, digits, - and _, up to 64 bytes; \"sources\" is taken",
                    "\"%s\" cannot be the id of a source", node->key);
    else if (before)
        mr_diagnose(r->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, node->key_place, "give one of them another id",
                    "there is a source \"%s\" already (%s:%d:%d)", node->key, before->node->key_place.file,
                    before->node->key_place.line, before->node->key_place.column);
    else if (other)
        mr_diagnose(r->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, node->key_place, "give one of them another id",
                    "the pipeline has a %s \"%s\" (%s)", stage ? "stage" : "source", node->key, other->place_text);
}

/* The options with those from `like`, as the source will have them. */
static int check_options(reading *r, const mr_yaml *node) {
    mr_spec_vertex vertex = {.id = node->key, .place = node->key_place, .place_text = node->key_place.file,
                             .is_source = true};
    const mr_spec_added added = {.id = node->key, .node = node};
    mr_yaml *whole = NULL;
    if (mr_spec_like(&r->parser, &added, &whole))
        return MR_ERROR_MEMORY;
    vertex.node = whole;
    size_t errors = r->diagnostics->errors;
    if (mr_spec_read_vertex(&r->parser, &vertex) == MR_ERROR_MEMORY)
        return MR_ERROR_MEMORY;
    bool sound = vertex.type && vertex.options && r->diagnostics->errors == errors;
    return r->check && sound ? r->check(r->context, &vertex) : MR_OK;
}

static int add(reading *r, const mr_yaml *node) {
    mr_spec_list *list = r->list;
    mr_spec_listed *own = mr_arena_alloc(&list->arena, sizeof *own);
    if (!own || mr_arena_grow(&list->arena, (void **)&list->sources, list->count, &r->room, sizeof *list->sources))
        return MR_ERROR_MEMORY;
    *own = (mr_spec_listed){.id = node->key, .node = node};
    if (mr_yaml_digest_with_secrets(node, own->digest) || mr_index_put(&r->ids, &list->arena, node->key, own))
        return MR_ERROR_MEMORY;
    list->sources[list->count++] = *own;
    return MR_OK;
}

static int refuse_shape(const reading *r, const char *path, const mr_yaml *root) {
    const mr_location place = root ? root->place : (mr_location){.file = path, .line = 1, .column = 1};
    mr_diagnose(r->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, place,
                root ? "write an id, a colon and its options for each: door: {uri: door.mp4}"
                     : "write {} for a list without sources",
                "%s", root ? "expected a map with an id for each source" : "the list of sources is empty");
    return MR_OK;
}

static int read_list(reading *r, const char *path) {
    mr_arena *arena = &r->list->arena;
    const char *text = NULL;
    size_t bytes = 0;
    mr_yaml *root = NULL;
    if (read_file(r, path, &text, &bytes) == MR_ERROR_MEMORY)
        return MR_ERROR_MEMORY;
    int status = text ? mr_yaml_parse(&root, arena, path, text, bytes, false, r->diagnostics) : MR_OK;
    if (status == MR_ERROR_MEMORY || !text || (status && !root))
        return status == MR_ERROR_MEMORY ? status : MR_OK;
    if (!root || root->kind != MR_YAML_MAP)
        return refuse_shape(r, path, root);
    if (mr_yaml_expand(root, arena, r->diagnostics) == MR_ERROR_MEMORY)
        return MR_ERROR_MEMORY;
    for (const mr_yaml *node = root->first; node; node = node->next) {
        check_id(r, node);
        /* A list with very many errors need not be checked to the end. */
        if (!mr_diagnostics_full(r->diagnostics) && check_options(r, node))
            return MR_ERROR_MEMORY;
        if (add(r, node))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static int is_list(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

static int read_folder(reading *r, const char *path) {
    struct dirent **names = NULL;
    int count = scandir(path, &names, is_list, alphasort), status = MR_OK;
    if (count < 0)
        refuse_file(r, path, strerror(errno), errno);
    for (int i = 0; i < count; i++) {
        const char *file = mr_arena_print(&r->list->arena, "%s/%s", path, names[i]->d_name);
        if (!status)
            status = file ? read_list(r, file) : MR_ERROR_MEMORY;
        free(names[i]);
    }
    free(names);
    return status;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

static void check_count(const reading *r) {
    const mr_spec *pipeline = r->pipeline;
    size_t room = pipeline->reserved_count, count = r->list->count;
    if (count > room)
        mr_diagnose(r->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, (mr_location){.file = pipeline->sources_from},
                    "name fewer, or allow more",
                    "there are %zu sources in the list, and room for %zu (sources.max, %s:%d:%d)",
                    count, room, pipeline->most_place.file, pipeline->most_place.line, pipeline->most_place.column);
}

static int start(reading *r, mr_spec *own, const mr_spec_params *params) {
    const mr_yaml *sources = mr_yaml_get(r->pipeline->root, "sources");
    own->file = r->pipeline->sources_from;
    own->types = r->pipeline->types;
    r->parser = (mr_spec_parser){.spec = own, .params = params, .diagnostics = r->diagnostics, .directory = "",
                                 .default_source = mr_spec_implied_source(own->types)};
    r->parser.like = sources ? mr_yaml_get(sources, "like") : NULL;
    return mr_spec_index_types(&r->parser);
}

int mr_spec_list_read(mr_spec_list **list, const mr_spec *pipeline, mr_spec_list_check *check, void *context,
                      mr_diagnostics *diagnostics) {
    struct stat about;
    mr_spec own = {0};
    const mr_spec_params params = {.types = pipeline->types};
    size_t errors = diagnostics->errors;
    reading r = {.list = calloc(1, sizeof *r.list), .pipeline = pipeline, .diagnostics = diagnostics,
                 .check = check, .context = context};
    *list = NULL;
    if (!r.list)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a list of sources");
    const char *path = pipeline->sources_from;
    int status = start(&r, &own, &params);
    if (!status && stat(path, &about))
        refuse_file(&r, path, strerror(errno), errno);
    else if (!status)
        status = S_ISDIR(about.st_mode) ? read_folder(&r, path) : read_list(&r, path);
    if (!status)
        check_count(&r);
    if (!status && diagnostics->errors > errors)
        status = mr_diagnostics_status(diagnostics);
    mr_arena_fini(&own.arena);
    if (status)
        mr_spec_list_destroy(&r.list);
    *list = r.list;
    return status;
}

void mr_spec_list_destroy(mr_spec_list **list) {
    if (*list)
        mr_arena_fini(&(*list)->arena);
    free(*list);
    *list = NULL;
}
