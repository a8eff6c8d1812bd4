#include "engine/spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/print.h"
#include "engine/spec/override.h"
#include "engine/spec/spec_devices.h"
#include "engine/spec/spec_id.h"
#include "engine/spec/spec_nodes.h"
#include "engine/spec/spec_plugins.h"
#include "engine/spec/spec_room.h"
#include "engine/spec/spec_stage.h"
#include "engine/text/input_hint.h"
#include "engine/text/synonyms.h"
#include "millrace/status.h"

/* ---- the text ------------------------------------------------------------------------------------------------ */

static int file_error(mr_spec_parser *p, int status, bool is_folder, const char *why) {
    char room[MR_INPUT_HINT];
    const char *hint = p->params->path ? mr_input_hint(p->params->path, is_folder, room) : NULL;
    return mr_diagnose(p->diagnostics, MR_SEVERITY_ERROR, status, (mr_location){.file = p->spec->file}, hint,
                       "cannot read the pipeline: %s", why);
}

int mr_spec_read_bytes(mr_arena *arena, int descriptor, const char **text, size_t *bytes) {
    enum { ROOM = MR_YAML_MAX_BYTES + 1 };
    struct stat about;
    int failed = fstat(descriptor, &about);
    bool regular = !failed && S_ISREG(about.st_mode);
    if (!regular && descriptor != STDIN_FILENO)
        return EINVAL;
    size_t room = regular && about.st_size < ROOM ? (size_t)about.st_size + 1 : ROOM;
    char *buffer = mr_arena_alloc(arena, room);
    if (!buffer)
        return ENOMEM;
    *bytes = 0;
    for (ssize_t got = 1; got > 0 && *bytes < room; *bytes += (size_t)got) {
        got = TEMP_FAILURE_RETRY(read(descriptor, buffer + *bytes, room - *bytes));
        if (got < 0)
            return errno;
    }
    *text = buffer;
    return 0;
}

static int read_descriptor(mr_spec_parser *p, int descriptor, const char **text, size_t *bytes) {
    struct stat about;
    int error = mr_spec_read_bytes(&p->spec->arena, descriptor, text, bytes);
    if (error == ENOMEM)
        return MR_ERROR_MEMORY;
    const bool is_folder = error == EINVAL && !fstat(descriptor, &about) && S_ISDIR(about.st_mode);
    if (error == EINVAL)
        return file_error(p, MR_ERROR_NO_INPUT, is_folder, is_folder ? "it is a folder" : "it is not a regular file");
    return error ? file_error(p, MR_ERROR_IO, false, strerror(error)) : MR_OK;
}

static int read_text(mr_spec_parser *p, const char **text, size_t *bytes) {
    if (p->params->text) {
        *text = p->params->text;
        *bytes = strlen(p->params->text);
        return MR_OK;
    }
    if (!p->params->path)
        return mr_fail(MR_ERROR_USAGE, "a pipeline needs a path or a text");
    if (strcmp(p->params->path, "-") == 0)
        return read_descriptor(p, STDIN_FILENO, text, bytes);
    /* Does not wait for a writer: a FIFO is refused at once. */
    int descriptor = open(p->params->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return file_error(p, mr_file_status(errno), false, strerror(errno));
    int status = read_descriptor(p, descriptor, text, bytes);
    close(descriptor);
    return status;
}

/* ---- the top level ------------------------------------------------------------------------------------------- */

typedef struct top_level {
    int64_t version;
    const char *pipeline;
    int64_t workers, jobs, busy_poll_ns;
    mr_strings required;
    const char *sources_from;
} top_level;

static const mr_option top_options[] = {
    {.name = "version", .kind = MR_OPTION_INT, .offset = offsetof(top_level, version), .required = true, .min = 1,
     .max = 1, .fallback = "1", .help = "this format's version"},
    {.name = "pipeline", .kind = MR_OPTION_STRING, .offset = offsetof(top_level, pipeline), .required = true,
     .example = "classify-lobby", .help = "the pipeline's name"},
    {.name = "workers", .kind = MR_OPTION_INT, .offset = offsetof(top_level, workers), .min = 1, .max = 1024,
     .unit = "threads", .help = "threads that run stages; without it one for each core that the process may use"},
    {.name = "jobs", .kind = MR_OPTION_INT, .offset = offsetof(top_level, jobs), .min = 1, .max = MR_SPEC_MAX_SOURCES,
     .unit = "sources", .help = "how many videos are open at a time; the next begins when one is done. Without it as "
                                "many of a folder or glob as there are workers, at least 2, and all other sources"},
    {.name = "busy_poll", .kind = MR_OPTION_DURATION, .offset = offsetof(top_level, busy_poll_ns), .min = 0,
     .max = MR_SPEC_MAX_BUSY_POLL_NS,
     .help = "how long an idle worker polls for work before it sleeps: if frames come more often than that, no frame "
             "waits for a thread to wake, and a core is always busy; by default a worker sleeps at once"},
    {.name = "require", .kind = MR_OPTION_STRINGS, .offset = offsetof(top_level, required), .min = 1, .max = 16,
     .example = "blurred",
     .help = "what must hold for every picture that leaves the pipeline: blurred. The plan refuses a pipeline in which "
             "a picture or packet could get into a file or to a program without passing through blur; results may"},
    {.name = "http", .kind = MR_OPTION_MAP, .elsewhere = true, .fields = mr_http_keys,
     .help = "lets `millrace run` answer over HTTP: metrics, health, status, and changes as `millrace ctl` makes "
             "them. Programs that embed the library answer nothing"},
    {.name = "hub", .kind = MR_OPTION_MAP, .elsewhere = true, .fields = mr_hub_keys,
     .help = "lets `millrace run` report its state to `millrace hub`, which shows many runs on one page. Programs that "
             "embed the library report nothing"},
    {.name = "otlp", .kind = MR_OPTION_MAP, .elsewhere = true, .fields = mr_otlp_keys,
     .help = "lets `millrace run` send metrics and traces of some frames to an OpenTelemetry collector, over HTTP. "
             "Programs that embed the library send nothing"},
    {.name = "plugins", .kind = MR_OPTION_STRINGS, .elsewhere = true, .min = 1, .max = INFINITY,
     .example = "libmine.so",
     .help = "shared libraries with your own stage types: paths, relative to this file; a name without a slash is also "
             "searched for in the folders of $MILLRACE_PLUGIN_PATH. A plugin is code: verbs that do not run the "
             "pipeline load it only with --plugins"},
    {.name = "devices", .kind = MR_OPTION_MAPS, .elsewhere = true, .min = 0, .max = MR_SPEC_MAX_DEVICES,
     .fields = mr_device_keys, .help = "device names, limits and states: a map from names to devices"},
    {.name = "sources", .kind = MR_OPTION_MAPS, .elsewhere = true, .required = true, .min = 1,
     .max = MR_SPEC_MAX_SOURCES, .fields = mr_source_keys,
     .help = "the inputs of the pipeline: a map from ids to sources. With a number at the key max, sources can be "
             "added, changed and removed while the pipeline runs, up to that many at a time; like has options for "
             "those"},
    {.name = "sources_from", .kind = MR_OPTION_PATH, .offset = offsetof(top_level, sources_from),
     .example = "cameras.yaml",
     .help = "more sources: a YAML file that is a map from ids to sources, or a folder of such files. It is watched "
             "while the pipeline runs, which needs sources.max: sources that appear there are added, those that change "
             "begin anew, those that are gone are removed, and a file with an error changes nothing"},
    {.name = "stages", .kind = MR_OPTION_MAPS, .elsewhere = true, .required = true, .min = 1,
     .max = MR_SPEC_MAX_STAGES,
     .fields = mr_stage_keys, .help = "the steps that process frames: a map from ids to stages"},
    {.name = "nodes", .kind = MR_OPTION_MAPS, .elsewhere = true, .min = 0, .max = MR_SPEC_MAX_NODES,
     .fields = mr_node_keys,
     .help = "which processes run which stages, on this machine or others; without it one process runs all: a map "
             "from names to nodes"},
    MR_OPTIONS_END,
};

const mr_option *mr_spec_keys(mr_spec_level level) {
    const mr_option *const tables[] = {[MR_SPEC_PIPELINE] = top_options, [MR_SPEC_SOURCE] = mr_source_keys,
                                       [MR_SPEC_STAGE] = mr_stage_keys, [MR_SPEC_DEVICE] = mr_device_keys,
                                       [MR_SPEC_NODE] = mr_node_keys};
    return tables[level];
}

/* The name must fit on a line: in summaries, units, scripts. */
static void check_name(mr_spec_parser *p) {
    if (!mr_printable(p->spec->name))
        mr_spec_error(p, mr_yaml_get(p->spec->root, "pipeline")->place, "a name is one line of printable characters",
                      "pipeline: the name \"%s\" holds control characters", p->spec->name);
}

static int read_top(mr_spec_parser *p) {
    top_level top = {0};
    const mr_option_reader reader = {
        .arena = &p->spec->arena, .diagnostics = p->diagnostics, .directory = p->directory, .where = "",
        .synonyms = p->spec->synonyms};
    int status = mr_options_read(&reader, top_options, NULL, p->spec->root, &top);
    if (status == MR_ERROR_MEMORY)
        return status;
    p->spec->name = top.pipeline ? top.pipeline : "";
    check_name(p);
    p->spec->workers = (int)top.workers;
    p->spec->jobs = (int)top.jobs;
    p->spec->busy_poll_ns = top.busy_poll_ns;
    p->spec->required = top.required;
    p->spec->sources_from = top.sources_from;
    if (top.sources_from)
        p->spec->from_place = mr_yaml_get(p->spec->root, "sources_from")->place;
    if (top.sources_from && !p->most)
        mr_spec_error(p, p->spec->from_place, "write how many there may be at a time, such as sources: {max: 64}",
                      "sources_from: a watched list needs sources.max");
    return MR_OK;
}

/* What shows the run to others. */
static int read_observers(mr_spec_parser *p) {
    mr_option_reader reader = {
        .arena = &p->spec->arena, .diagnostics = p->diagnostics, .directory = p->directory, .where = "http",
        .synonyms = p->spec->synonyms};
    int status = mr_spec_read_http(&reader, mr_yaml_get(p->spec->root, "http"), &p->spec->http);
    reader.where = "hub";
    if (!status)
        status = mr_spec_read_hub(&reader, mr_yaml_get(p->spec->root, "hub"), &p->spec->hub);
    reader.where = "otlp";
    return status ? status : mr_spec_read_otlp(&reader, mr_yaml_get(p->spec->root, "otlp"), &p->spec->otlp);
}

/* ---- sources and stages -------------------------------------------------------------------------------------- */

static int start_vertex(mr_spec_parser *p, mr_spec_vertex *vertex, const mr_yaml *node, bool is_source) {
    vertex->id = node->key;
    vertex->place = node->key_place;
    vertex->node = node;
    vertex->is_source = is_source;
    vertex->place_text = vertex->place.line > 0
                             ? mr_arena_print(&p->spec->arena, "%s:%d:%d", vertex->place.file, vertex->place.line,
                                              vertex->place.column)
                             : vertex->place.file;
    if (!vertex->place_text)
        return MR_ERROR_MEMORY;
    bool plain = is_source ? mr_spec_source_id_is_plain(node->key) : mr_spec_id_is_plain(node->key);
    if (!plain || strcmp(node->key, "sources") == 0)
        mr_spec_error(p, node->key_place,
                      is_source
                          ? "use letters, digits, - and _, up to 64 bytes; \"sources\" is taken"
                          : "use up to 64 of the letters a to z and A to Z, digits, - and _; \"sources\" is taken",
                      "\"%s\" cannot be the id of a %s", node->key, is_source ? "source" : "stage");
    return MR_OK;
}

/* Reads `section`'s map into a vertex array. */
static int read_section(mr_spec_parser *p, const char *section, bool is_source, size_t most, size_t *count,
                        mr_spec_vertex **vertices) {
    const mr_yaml *map = mr_yaml_get(p->spec->root, section);
    const char *hint = map && map->kind == MR_YAML_LIST
                           ? "replace each dash by an id and a colon: lobby: {...}"
                       : is_source ? "add sources: {lobby: {uri: lobby.mp4}}"
                                   : "add stages: {decode: {input: lobby}}";
    if (mr_option_misspelt(p->spec->synonyms, section, top_options, NULL, p->spec->root))
        return MR_OK;
    if (is_source && p->most && map->count == 0)
        return MR_OK; /* They are added while it runs. */
    if (!map || mr_yaml_is_null(map) || map->kind != MR_YAML_MAP || map->count == 0) {
        mr_location place = map ? map->place : p->spec->root->place;
        mr_spec_error(p, place, hint, map && map->kind != MR_YAML_MAP && !mr_yaml_is_null(map)
                      ? "%s: expected a map with an id for each" : "the pipeline has no %s", section);
        return MR_OK;
    }
    if (map->count > most) {
        mr_spec_error(p, map->key_place, NULL, "there are %zu %s; at most %zu are accepted", map->count, section,
                      most);
        return MR_OK;
    }
    *vertices = mr_arena_array(&p->spec->arena, map->count, sizeof **vertices);
    if (!*vertices)
        return MR_ERROR_MEMORY;
    for (const mr_yaml *node = map->first; node; node = node->next) {
        mr_spec_vertex *vertex = &(*vertices)[(*count)++];
        size_t before = p->diagnostics->errors;
        if (start_vertex(p, vertex, node, is_source) || mr_spec_read_vertex(p, vertex))
            return MR_ERROR_MEMORY;
        /* A value whose variable was missing is diagnosed before, so the count alone is not enough. */
        vertex->broken = vertex->broken || p->diagnostics->errors > before;
    }
    return MR_OK;
}

/* Ids are shared by sources and stages, since `input` names both. */
static int check_ids(mr_spec_parser *p) {
    mr_index ids = {0};
    mr_spec *spec = p->spec;
    for (size_t i = 0; i < spec->source_count; i++)
        if (mr_index_put(&ids, &spec->arena, spec->sources[i].id, &spec->sources[i]))
            return MR_ERROR_MEMORY;
    for (size_t i = 0; i < spec->stage_count; i++) {
        const mr_spec_vertex *stage = &spec->stages[i], *source = mr_index_get(&ids, stage->id);
        if (source)
            mr_spec_error(p, stage->place, "give one of them another id",
                          "the stage \"%s\" has the id of a source (%s)", stage->id, source->place_text);
    }
    return MR_OK;
}

/* ---- together ------------------------------------------------------------------------------------------------ */

const char *mr_spec_implied_source(const mr_stage_type *const *types) {
    for (; types && *types; types++)
        if (!(*types)->inputs && (*types)->implied)
            return (*types)->name;
    return NULL;
}

static int start(mr_spec_parser *p) {
    const char *path = p->params->path ? p->params->path : "pipeline";
    if (strcmp(path, "-") == 0)
        path = "<stdin>";
    const char *slash = strrchr(path, '/');
    p->spec->types = p->params->types;
    p->spec->synonyms = mr_synonyms_of(p->params->types);
    p->spec->model_of = p->params->model_of;
    p->spec->file = mr_arena_text(&p->spec->arena, path, strlen(path));
    p->directory = mr_arena_text(&p->spec->arena, path, slash ? (size_t)(slash - path) + 1 : 0);
    p->default_source =
        p->params->default_source_type ? p->params->default_source_type : mr_spec_implied_source(p->params->types);
    return p->spec->file && p->directory ? mr_spec_index_types(p) : MR_ERROR_MEMORY;
}

static int refuse_whole(mr_spec_parser *p, const char *why, const char *whose) {
    const mr_location place = {.file = p->spec->file, .line = 1, .column = 1};
    return mr_spec_error(p, place,
                         "begin with version: 1, then pipeline, sources and stages", "%s%s", why, whose);
}

/* Refuses another program's configuration as such: hardly any key would be right. */
static const mr_synonym *foreign_keys(const mr_synonym *table, const mr_yaml *root) {
    bool ours = mr_yaml_get(root, "version") || mr_yaml_get(root, "sources") || mr_yaml_get(root, "stages");
    return ours ? NULL : mr_synonym_file(table, root);
}

static int read_tree(mr_spec_parser *p) {
    static const char foreign[] = "this is not a millrace pipeline: it looks like a file for ";
    mr_spec *spec = p->spec;
    const char *text = NULL;
    size_t bytes = 0;
    int status = read_text(p, &text, &bytes);
    if (status)
        return status;
    const char *head = mr_arena_text(&spec->arena, text, bytes < 64 ? bytes : 64);
    const mr_synonym *other = head ? mr_synonym_text(spec->synonyms, head) : NULL;
    if (!head || other)
        return head ? refuse_whole(p, foreign, other->instead) : MR_ERROR_MEMORY;
    spec->text = mr_arena_text(&spec->arena, text, bytes);
    if (!spec->text)
        return MR_ERROR_MEMORY;
    status = mr_yaml_parse(&spec->root, &spec->arena, spec->file, text, bytes, false, p->diagnostics);
    if (status == MR_ERROR_MEMORY || (status && !spec->root))
        return status;
    if (!spec->root || spec->root->kind != MR_YAML_MAP)
        return refuse_whole(p, spec->root ? "this is not a pipeline: expected a map" : "the file is empty", "");
    if ((other = foreign_keys(spec->synonyms, spec->root)))
        return refuse_whole(p, foreign, other->instead);
    if (mr_spec_override(p) || mr_yaml_expand(spec->root, &spec->arena, p->diagnostics) == MR_ERROR_MEMORY)
        return MR_ERROR_MEMORY;
    return mr_spec_spread(p);
}

static int read_spec(mr_spec_parser *p) {
    mr_spec *spec = p->spec;
    if (start(p))
        return MR_ERROR_MEMORY;
    int status = read_tree(p);
    if (status)
        return status;
    if (read_top(p) || read_observers(p) || mr_spec_read_devices(p) ||
        read_section(p, "sources", true, MR_SPEC_MAX_SOURCES, &spec->source_count, &spec->sources) ||
        mr_spec_reserve(p) ||
        read_section(p, "stages", false, MR_SPEC_MAX_STAGES, &spec->stage_count, &spec->stages) || check_ids(p) ||
        mr_spec_read_nodes(p))
        return MR_ERROR_MEMORY;
    return MR_OK;
}

int mr_spec_parse(mr_spec **spec, const mr_spec_params *params, mr_diagnostics *diagnostics) {
    size_t before = diagnostics->errors;
    mr_spec_parser parser = {.params = params, .diagnostics = diagnostics};
    *spec = NULL;
    parser.spec = calloc(1, sizeof *parser.spec);
    if (!parser.spec)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a pipeline");
    int status = read_spec(&parser);
    if (status) {
        /* Neither missing memory nor a wrong call was diagnosed before. */
        if (diagnostics->errors == before)
            mr_diagnose(diagnostics, MR_SEVERITY_ERROR, status, (mr_location){.file = params->path}, NULL, "%s",
                        mr_message());
        mr_spec_destroy(&parser.spec);
        return status;
    }
    parser.spec->broken = diagnostics->errors > before;
    if (!parser.spec->broken &&
        (mr_spec_return_room(&parser) || mr_yaml_digest(parser.spec->root, parser.spec->digest))) {
        mr_spec_destroy(&parser.spec);
        return MR_ERROR_MEMORY;
    }
    *spec = parser.spec;
    return mr_diagnostics_status(diagnostics);
}

void mr_spec_destroy(mr_spec **spec) {
    if (!*spec)
        return;
    mr_type_list_fini(&(*spec)->type_list);
    mr_arena_fini(&(*spec)->arena);
    free(*spec);
    *spec = NULL;
}

const char *mr_spec_source_name(const mr_spec *spec, size_t source) {
    for (size_t g = 0; g < spec->group_count; g++)
        if (source - spec->groups[g].first < spec->groups[g].count)
            return spec->groups[g].name;
    return spec->sources[source].id;
}
