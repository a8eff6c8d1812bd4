/* One source or stage in the YAML: type, inputs, common keys and its options. */
#include "engine/spec/spec_stage.h"

#include <math.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/spec/join_hint.h"
#include "engine/spec/spec_devices.h"
#include "engine/spec/spec_nodes.h"
#include "engine/text/synonyms.h"
#include "engine/text/value.h"
#include "millrace/status.h"

/* Whether a name was written. `null` counts: it is the name of a type. */
static bool is_name(const mr_yaml *node) {
    return node->kind == MR_YAML_SCALAR && *node->text && strcmp(node->text, "~") != 0;
}

static const char *section_of(const mr_spec_vertex *vertex) {
    return vertex->is_source ? "sources" : "stages";
}

static const mr_option *keys_of(const mr_spec_vertex *vertex) {
    return vertex->is_source ? mr_source_keys : mr_stage_keys;
}

/* ---- type ---------------------------------------------------------------------------------------------------- */

static const mr_type_entry *type_named(const mr_spec_parser *p, const char *name, bool is_source) {
    return name ? mr_index_get(&p->types[is_source], name) : NULL;
}

const mr_type_entry *mr_spec_type_of(const mr_spec_parser *p, const mr_yaml *node, bool is_source) {
    const mr_yaml *type = mr_yaml_get(node, "type");
    if (type)
        return type->kind == MR_YAML_SCALAR ? type_named(p, type->text, is_source) : NULL;
    return type_named(p, is_source ? p->default_source : node->key, is_source);
}

static void unknown_type(const mr_spec_parser *p, const mr_spec_vertex *vertex, const mr_yaml *said) {
    const char *name = said ? said->text : vertex->is_source && p->default_source ? p->default_source : vertex->id;
    const char *kind = vertex->is_source ? "source" : "stage", *section = section_of(vertex);
    mr_location place = said ? said->place : vertex->place;
    char hint[320];
    if (type_named(p, name, !vertex->is_source)) {
        mr_spec_error(p, place, vertex->is_source ? "put it under stages" : "put it under sources",
                      "%s.%s: %s is a %s, not a %s", section, vertex->id, name,
                      vertex->is_source ? "stage" : "source", kind);
        return;
    }
    mr_nearest nearest = {.wanted = name};
    for (const mr_stage_type *const *type = p->spec->types; type && *type; type++)
        if (((*type)->inputs == NULL) == vertex->is_source)
            mr_nearest_offer(&nearest, (*type)->name);
    const char *other = NULL;
    if (!nearest.best || nearest.distance > 1)
        other = mr_synonym_type(p->params->types, vertex->is_source, name, hint, sizeof hint);
    if (!other)
        other = mr_nearest_hint(&nearest, hint, sizeof hint,
                                said ? "`millrace list` shows all types"
                                     : "add `type:`; `millrace list` shows all types");
    mr_spec_error(p, place, other, said ? "%s.%s: unknown type \"%s\""
                                        : "%s.%s: `type` is missing, and there is no type \"%s\"", section, vertex->id,
                  name);
}

/* Without a type no options are known, and unknown keys are not reported, unless one was meant as `type`. */
static bool type_is_misspelt(const mr_spec_parser *p, const mr_spec_vertex *vertex) {
    const mr_yaml *entry = mr_option_misspelt(p->spec->synonyms, "type", keys_of(vertex), NULL, vertex->node);
    if (entry)
        mr_spec_error(p, entry->key_place,
                      strchr(entry->key, ':') ? "write a space after the colon" : "did you mean \"type\"?",
                      "%s.%s: unknown key \"%s\"", section_of(vertex), vertex->id, entry->key);
    return entry != NULL;
}

/* A type that is missing or wrong is diagnosed. */
static const mr_type_entry *find_type(const mr_spec_parser *p, const mr_spec_vertex *vertex) {
    const mr_yaml *said = mr_yaml_get(vertex->node, "type");
    if (said && said->broken)
        return NULL;
    if (said && !is_name(said)) {
        char found[64];
        mr_spec_error(p, said->place, "`millrace list` shows all types", "%s.%s.type: expected a name, found %s",
                      section_of(vertex), vertex->id,
                      mr_yaml_found(said, found, sizeof found));
        return NULL;
    }
    const mr_type_entry *entry = mr_spec_type_of(p, vertex->node, vertex->is_source);
    /* A type that a missing plugin may define is not reported beside the plugin. */
    if (!entry && !p->plugins_broken && (said || !type_is_misspelt(p, vertex)))
        unknown_type(p, vertex, said);
    return entry;
}

/* ---- inputs -------------------------------------------------------------------------------------------------- */

/* `port`: the key under `join`, or NULL. A key without a value was meant as an id. */
static const char *hint_for_input(const char *port, const mr_yaml *value, char *text, size_t bytes) {
    if (port && mr_yaml_is_null(value))
        return mr_join_hint(value, text, bytes);
    snprintf(text, bytes, "write the id of a source or stage, such as %.64s: decode", port ? port : "input");
    return text;
}

static int add_input(const mr_spec_parser *p, mr_spec_vertex *vertex, const char *port, const mr_yaml *value) {
    char found[64], hint[256];
    if (value->broken)
        return MR_OK;
    if (!is_name(value)) {
        mr_spec_error(p, value->place, hint_for_input(port, value, hint, sizeof hint),
                      "stages.%s.%s: expected an id, found %s", vertex->id, port ? "join" : "input",
                      mr_yaml_found(value, found, sizeof found));
        return MR_OK;
    }
    vertex->inputs[vertex->input_count++] = (mr_spec_input){.port = port, .from = value->text, .place = value->place};
    return MR_OK;
}

static int read_join(const mr_spec_parser *p, mr_spec_vertex *vertex, const mr_yaml *join) {
    char found[64], hint[256];
    if (join->kind != MR_YAML_MAP || join->count == 0) {
        mr_spec_error(p, join->place, mr_join_hint(join, hint, sizeof hint),
                      "stages.%s.join: expected a map of inputs, found %s", vertex->id,
                      join->kind == MR_YAML_MAP ? "an empty one" : mr_yaml_found(join, found, sizeof found));
        return MR_OK;
    }
    if (join->count > MR_SPEC_MAX_PORTS) {
        mr_spec_error(p, join->place, "join some of them first, and the result with the others",
                      "stages.%s.join: it has %zu inputs; at most %d are accepted", vertex->id, join->count,
                      MR_SPEC_MAX_PORTS);
        return MR_OK;
    }
    vertex->joins = true;
    vertex->inputs = mr_arena_array(&p->spec->arena, join->count, sizeof *vertex->inputs);
    if (!vertex->inputs)
        return MR_ERROR_MEMORY;
    for (const mr_yaml *item = join->first; item; item = item->next)
        add_input(p, vertex, item->key, item);
    return MR_OK;
}

/* Whether one of them is there with a slip in it ("inputs", "join:cam"), which is reported as an unknown key. */
static bool has_slip(const mr_spec_parser *p, const mr_yaml *node) {
    return mr_option_misspelt(p->spec->synonyms, "input", mr_stage_keys, NULL, node) ||
           mr_option_misspelt(p->spec->synonyms, "join", mr_stage_keys, NULL, node);
}

static int read_inputs(const mr_spec_parser *p, mr_spec_vertex *vertex) {
    const mr_yaml *input = mr_yaml_get(vertex->node, "input"), *join = mr_yaml_get(vertex->node, "join");
    if (input && join) {
        mr_spec_error(p, join->key_place, "keep one of them", "stages.%s: it has both `input` and `join`",
                      vertex->id);
        return MR_OK;
    }
    if (join)
        return join->broken ? MR_OK : read_join(p, vertex, join);
    if (!input && has_slip(p, vertex->node)) {
        vertex->broken = true;
        return MR_OK;
    }
    if (!input || (input->kind == MR_YAML_LIST && input->count == 0)) {
        mr_spec_error(p, input ? input->place : vertex->place, "add `input:` with the id of a source or stage",
                      "stages.%s: it has no input", vertex->id);
        return MR_OK;
    }
    size_t count = input->kind == MR_YAML_LIST ? input->count : 1;
    vertex->inputs = mr_arena_array(&p->spec->arena, count, sizeof *vertex->inputs);
    if (!vertex->inputs)
        return MR_ERROR_MEMORY;
    if (input->kind != MR_YAML_LIST)
        return add_input(p, vertex, NULL, input);
    for (const mr_yaml *item = input->first; item; item = item->next)
        add_input(p, vertex, NULL, item);
    return MR_OK;
}

/* ---- keys of every stage ------------------------------------------------------------------------------------- */

static const char *const policies[] = {"block", "drop-oldest", "drop-newest", NULL};
static const char *const error_policies[] = {"drop", "fail", NULL};

static const mr_option queue_fields[] = {
    {.name = "size", .kind = MR_OPTION_INT, .offset = offsetof(mr_spec_queue, size), .min = 1, .max = 65536,
     .unit = "frames", .help = "frames per source that each link into the stage holds"},
    {.name = "when_full", .kind = MR_OPTION_ENUM, .offset = offsetof(mr_spec_queue, when_full), .fallback = "block",
     .choices = policies, .help = "what happens to frames that find the queue full"},
    MR_OPTIONS_END,
};
static const mr_option batch_fields[] = {
    {.name = "size", .kind = MR_OPTION_INT, .offset = offsetof(mr_spec_batch, size), .required = true, .min = 1,
     .max = 1024, .unit = "frames", .help = "most frames in one call"},
    {.name = "timeout", .kind = MR_OPTION_DURATION, .offset = offsetof(mr_spec_batch, timeout_ns), .min = 0,
     .max = 3600e9, .help = "how long a batch that is not full may wait; by default until no more frame can come"},
    MR_OPTIONS_END,
};
const mr_option mr_source_keys[] = {
    {.name = "type", .kind = MR_OPTION_STRING, .elsewhere = true, .help = "the source's type"},
    {.name = "deadline",
     .kind = MR_OPTION_DURATION,
     .offset = offsetof(mr_spec_common, deadline_ns),
     .min = 1000,
     .max = 3600e9,
     .help = "for live and paced sources: a frame that was due longer ago than this is dropped as late before a stage "
             "begins "
             "work on it"},
    MR_OPTIONS_END,
};
const mr_option mr_stage_keys[] = {
    {.name = "type", .kind = MR_OPTION_STRING, .elsewhere = true,
     .help = "the stage's type; not needed if the id is a type name"},
    {.name = "input", .kind = MR_OPTION_STRINGS, .elsewhere = true, .required = true, .unless = "join", .min = 1,
     .max = INFINITY, .example = "decode",
     .help = "the source or stage before it; a list merges several, sources.* means all sources, stage.port one of "
             "several outputs"},
    {.name = "join", .kind = MR_OPTION_PAIRS, .elsewhere = true, .required = true, .unless = "input", .min = 1,
     .max = MR_SPEC_MAX_PORTS, .example = "{picture: decode, boxes: detect}",
     .help = "joins the results for the same frame: a map from input names to sources or stages"},
    {.name = "device", .kind = MR_OPTION_STRINGS, .offset = offsetof(mr_spec_common, device), .fallback = "cpu",
     .help = "device that the stage computes on: cpu, sim:N, cuda:N, a name under devices, or auto; a list spreads "
             "frames over devices"},
    {.name = "queue", .kind = MR_OPTION_MAP, .offset = offsetof(mr_spec_common, queue), .fields = queue_fields,
     .brief = "size", .help = "the queue on each link into the stage"},
    {.name = "batch", .kind = MR_OPTION_MAP, .offset = offsetof(mr_spec_common, batch), .fields = batch_fields,
     .brief = "size", .help = "how many frames the stage takes at once"},
    {.name = "cut", .kind = MR_OPTION_MAP, .offset = offsetof(mr_spec_common, cut), .fields = mr_cut_keys,
     .brief = "mode", .help = "how frames come in from stages on another node (see nodes)"},
    {.name = "in_flight", .kind = MR_OPTION_INT, .offset = offsetof(mr_spec_common, in_flight), .min = 1, .max = 256,
     .unit = "calls", .help = "how many calls one instance can have in flight"},
    {.name = "on_error", .kind = MR_OPTION_ENUM, .offset = offsetof(mr_spec_common, on_error), .fallback = "drop",
     .choices = error_policies, .help = "whether a frame that fails is dropped, or the run fails"},
    {.name = "on_device_error", .kind = MR_OPTION_STRING, .offset = offsetof(mr_spec_common, on_device_error),
     .fallback = "drop", .example = "cpu",
     .help = "action after a device error, which drops the frames that it hit: drop does nothing more, a device (cpu, "
             "sim:N, cuda:N or a name under devices) takes over from then on"},
    MR_OPTIONS_END,
};

/* Copies the common keys into a separate map, so that their table is read like any other. */
static int pick_common(const mr_spec_parser *p, const mr_spec_vertex *vertex, mr_yaml *picked) {
    mr_arena *arena = &p->spec->arena;
    for (const mr_option *option = keys_of(vertex); option->name; option++) {
        const mr_yaml *value = mr_yaml_get(vertex->node, option->name);
        if (!value || option->elsewhere)
            continue;
        mr_yaml *copy = mr_arena_alloc(arena, sizeof *copy);
        if (!copy)
            return MR_ERROR_MEMORY;
        *copy = *value;
        if (mr_yaml_put(picked, arena, option->name, value->key_place, copy))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

/* Values that other programs use for a queue without a bound. */
static bool is_unbounded(const mr_yaml *size) {
    static const char *const words[] = {"unbounded", "unlimited", "infinite", "infinity", "inf",
                                        ".inf",      "endless",   "none",     "false",    "off"};
    int64_t number;
    if (!size || size->kind != MR_YAML_SCALAR || size->broken)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(size->text, words[i]) == 0)
            return true;
    return mr_value_int(size->text, &number) && number <= 0;
}

/* Refuses a queue without a bound (`queue: 0`, `unbounded`, `{size: .inf}`) and marks that value as broken, so that
 * nothing more is reported of it. `queue` may be NULL. */
static void refuse_unbounded(mr_yaml *queue, const char *stage, mr_diagnostics *diagnostics) {
    mr_yaml *size = queue && queue->kind == MR_YAML_MAP ? mr_yaml_get(queue, "size") : queue;
    char found[64];
    if (!is_unbounded(size))
        return;
    mr_diagnose(
        diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, size->place,
        "write how many frames of one source may wait, such as 8; without a limit they fill the memory if a stage is "
        "slower than its source",
        "stages.%s.queue: a queue must have a limit, found %s", stage, mr_yaml_found(size, found, sizeof found));
    size->broken = true;
}

static int read_common(const mr_spec_parser *p, mr_spec_vertex *vertex, mr_option_reader *reader) {
    mr_yaml *picked = mr_yaml_new(&p->spec->arena, MR_YAML_MAP, vertex->node->place);
    if (!picked || pick_common(p, vertex, picked))
        return MR_ERROR_MEMORY;
    if (!vertex->is_source)
        mr_spec_check_device(p, vertex);
    if (!vertex->is_source)
        refuse_unbounded(mr_index_get(&picked->index, "queue"), vertex->id, p->diagnostics);
    int status = mr_options_read(reader, keys_of(vertex), NULL, picked, &vertex->common);
    vertex->broken = vertex->broken || status;
    return status == MR_ERROR_MEMORY ? status : MR_OK;
}

/* ---- its own options ----------------------------------------------------------------------------------------- */

static int read_options(const mr_spec_parser *p, mr_spec_vertex *vertex, mr_type_entry *entry,
                        const mr_option_reader *reader) {
    const mr_stage_type *type = entry->type;
    void *options = mr_arena_alloc(&p->spec->arena, type->options_bytes + 1);
    if (!options)
        return MR_ERROR_MEMORY;
    if (!entry->defaults) {
        void *defaults = mr_arena_alloc(&p->spec->arena, type->options_bytes + 1);
        if (!defaults || mr_options_default(reader, type->options, defaults, type->options_bytes) == MR_ERROR_MEMORY)
            return MR_ERROR_MEMORY;
        entry->defaults = defaults;
    }
    memcpy(options, entry->defaults, type->options_bytes);
    vertex->type = type;
    vertex->options = options;
    int status = mr_options_read(reader, type->options, keys_of(vertex), vertex->node, options);
    vertex->broken = vertex->broken || status;
    return status == MR_ERROR_MEMORY ? status : MR_OK;
}

/* The directory of the file where it is written. */
static const char *directory_of(const mr_spec_parser *p, const mr_yaml *node) {
    const char *file = node->place.file;
    if (!node->place.line || file == p->spec->file)
        return p->directory;
    const char *slash = strrchr(file, '/');
    return mr_arena_text(&p->spec->arena, file, slash ? (size_t)(slash - file) + 1 : 0);
}

int mr_spec_read_vertex(mr_spec_parser *p, mr_spec_vertex *vertex) {
    const char *section = section_of(vertex);
    char found[64], hint[256];
    if (vertex->node->kind != MR_YAML_MAP) {
        bool scalar = vertex->node->kind == MR_YAML_SCALAR && !mr_yaml_is_null(vertex->node);
        const char *source = p->spec->source_count > 0 && !vertex->is_source ? p->spec->sources[0].id : "lobby";
        const char *said = scalar ? vertex->node->text : vertex->is_source ? "lobby.mp4" : source;
        const size_t key = strspn(said, "abcdefghijklmnopqrstuvwxyz_");
        if (key && said[key] == ':' && said[key + 1] && said[key + 1] != '/')
            snprintf(hint, sizeof hint, "a space is missing after the colon: write %.*s: %.100s", (int)key, said,
                     said + key + 1);
        else
            snprintf(hint, sizeof hint, "write %s: {%s: %.150s}", vertex->id,
                     vertex->is_source                  ? "uri"
                     : type_named(p, vertex->id, false) ? "input"
                                                        : "type: decode, input", said);
        if (!vertex->node->broken)
            mr_spec_error(p, vertex->node->place, hint, "%s.%s: expected a map of options, found %s", section,
                          vertex->id, mr_yaml_found(vertex->node, found, sizeof found));
        return MR_OK;
    }
    mr_option_reader reader = {.arena = &p->spec->arena,
                               .diagnostics = p->diagnostics,
                               .directory = directory_of(p, vertex->node),
                               .partial = vertex->reserved,
                               .types = p->spec->types,
                               .synonyms = p->spec->synonyms,
                               .where = mr_arena_print(&p->spec->arena, "%s.%s", section, vertex->id)};
    if (!reader.where || !reader.directory)
        return MR_ERROR_MEMORY;
    reader.more = "`millrace list` shows all types, `millrace inspect TYPE` the options of one";
    if ((!vertex->is_source && read_inputs(p, vertex)) || read_common(p, vertex, &reader))
        return MR_ERROR_MEMORY;
    mr_type_entry *entry = (mr_type_entry *)find_type(p, vertex);
    if (!entry) {
        vertex->broken = true;
        return MR_OK;
    }
    reader.more = mr_arena_print(&p->spec->arena, "`millrace inspect %s` shows its options", entry->type->name);
    return read_options(p, vertex, entry, &reader);
}
