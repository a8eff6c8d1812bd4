/* Whether a stage type is well formed, so that an error of a plugin or a program is reported by name. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/data/kinds.h"
#include "engine/spec/spec.h"
#include "engine/text/options.h"
#include "millrace/status.h"

/* A table that is longer probably has no end. */
enum { MOST_OPTIONS = 256, MOST_CHOICES = 256, MOST_FORMATS = 64 };

static int wrong(const mr_stage_type *type, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int wrong(const mr_stage_type *type, const char *format, ...) {
    char why[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return mr_fail(MR_ERROR_DATA, "the stage type \"%.64s\" is malformed: %s", type->name, why);
}

/* Characters in YAML names; a path, where dots separate names, can allow more. */
static bool is_plain(const char *name, const char *more) {
    size_t length = strlen(name);
    for (size_t i = 0; i < length; i++) {
        char c = (char)(name[i] | 32);
        if (!(c >= 'a' && c <= 'z') && !(name[i] >= '0' && name[i] <= '9' && i > 0) && !strchr(more, name[i]))
            return false;
    }
    return length > 0 && length <= 64 && !strchr("-.", *name);
}

/* ---- ports ----------------------------------------------------------------------------------------------------- */

/* How many there are, or a negative status. */
static int check_ports(const mr_stage_type *type, const mr_port *ports, const char *kind) {
    int count = 0;
    for (const mr_port *port = ports; port && port->name; port++) {
        if (++count > MR_SPEC_MAX_PORTS)
            return wrong(type, "it has more than %d %ss, or no {0} after the last", MR_SPEC_MAX_PORTS, kind);
        if (!is_plain(port->name, "-_"))
            return wrong(type, "\"%.64s\" cannot be the name of an %s: letters, digits, - and _", port->name, kind);
        for (const mr_port *other = ports; other < port; other++)
            if (strcmp(other->name, port->name) == 0)
                return wrong(type, "two %ss are called \"%s\"", kind, port->name);
        int sets = 0;
        for (const mr_format_set *set = port->accepts; set && set->payload != MR_PAYLOAD_ANY; set++)
            if (++sets > MOST_FORMATS)
                return wrong(type, "the formats of %s \"%s\" have no end: MR_PAYLOAD_ANY is missing", kind, port->name);
    }
    if (ports && count == 0)
        return wrong(type, "its table of %ss is empty: use NULL if there are none", kind);
    return count;
}

/* ---- options --------------------------------------------------------------------------------------------------- */

/* A field's C type: bytes and alignment; 0 if a stage cannot have that kind. */
static size_t field_bytes(mr_option_kind kind, size_t *alignment) {
#define FIELD(type) (*alignment = _Alignof(type), sizeof(type))
    switch (kind) {
    case MR_OPTION_BOOL:
    case MR_OPTION_MAP: /* the first member */
        return FIELD(bool);
    case MR_OPTION_INT:
    case MR_OPTION_DURATION:
    case MR_OPTION_BYTES:
        return FIELD(int64_t);
    case MR_OPTION_DOUBLE:
    case MR_OPTION_RATE:
        return FIELD(double);
    case MR_OPTION_STRING:
    case MR_OPTION_PATH:
    case MR_OPTION_URI:
        return FIELD(const char *);
    case MR_OPTION_ENUM:
        return FIELD(int);
    case MR_OPTION_SIZE:
        return FIELD(mr_size);
    case MR_OPTION_DOUBLES:
        return FIELD(mr_doubles);
    case MR_OPTION_STRINGS:
        return FIELD(mr_strings);
    case MR_OPTION_PAIRS:
        return FIELD(mr_pairs);
    case MR_OPTION_POINTS:
        return FIELD(mr_points);
    case MR_OPTION_SHAPES:
        return FIELD(mr_shapes);
    case MR_OPTION_FORMAT:
        return FIELD(mr_format);
    case MR_OPTION_EVERY:
        return FIELD(mr_every);
    default:
        return 0;
    }
#undef FIELD
}

static int check_choices(const mr_stage_type *type, const mr_option *option) {
    int count = 0;
    while (option->choices && option->choices[count] && count <= MOST_CHOICES)
        count++;
    return count > 0 && count <= MOST_CHOICES
               ? MR_OK
               : wrong(type, "option \"%s\" is an ENUM and needs choices, ended by NULL", option->name);
}

static int check_table(const mr_stage_type *type, const mr_option *table, size_t base, bool nested);

/* One option, whose table describes a struct that begins `base` bytes into the options. */
static int check_option(const mr_stage_type *type, const mr_option *option, size_t base, bool nested) {
    size_t alignment = 1, bytes = field_bytes(option->kind, &alignment), offset = base + option->offset;
    if (!is_plain(option->name, "-_"))
        return wrong(type, "\"%.64s\" cannot be the name of an option: letters, digits, - and _", option->name);
    if (!nested && mr_option_find(mr_spec_keys(type->inputs ? MR_SPEC_STAGE : MR_SPEC_SOURCE), option->name))
        return wrong(type, "option \"%s\": every %s has a key of that name", option->name,
                     type->inputs ? "stage" : "source");
    if (bytes == 0 || option->elsewhere || (nested && option->kind == MR_OPTION_MAP))
        return wrong(type, "option \"%s\" has a kind that options of a stage type cannot have", option->name);
    if (option->offset > type->options_bytes || offset > type->options_bytes - bytes ||
        type->options_bytes < bytes || offset % alignment)
        return wrong(type, "option \"%s\": its field at byte %zu is not within options_bytes, which is %zu, or is not "
                           "aligned for its kind", option->name, offset, type->options_bytes);
    if (nested && option->offset == 0)
        return wrong(type, "option \"%s\": the first member of a MAP's struct is a bool, whether the map was given",
                     option->name);
    if (!(option->min <= option->max))
        return wrong(type, "option \"%s\": its min is above its max", option->name);
    if (option->kind == MR_OPTION_ENUM)
        return check_choices(type, option);
    if (option->kind == MR_OPTION_MAP)
        return option->fields ? check_table(type, option->fields, offset, true)
                              : wrong(type, "option \"%s\" is a MAP and has no fields", option->name);
    return MR_OK;
}

static int check_table(const mr_stage_type *type, const mr_option *table, size_t base, bool nested) {
    int count = 0;
    for (const mr_option *option = table; option && option->name; option++) {
        if (++count > MOST_OPTIONS)
            return wrong(type, "it has more than %d options, or no MR_OPTIONS_END after the last", MOST_OPTIONS);
        int status = check_option(type, option, base, nested);
        if (status)
            return status;
        if (mr_option_find(table, option->name) != option)
            return wrong(type, "two options are called \"%s\"", option->name);
        if (option->unless && !mr_option_find(table, option->unless))
            return wrong(type, "option \"%s\" names \"%.64s\" in `unless`, but there is no such option", option->name,
                         option->unless);
        if (option->brief && !mr_option_find(option->fields, option->brief))
            return wrong(type, "option \"%s\": there is no field \"%.64s\"", option->name, option->brief);
    }
    return MR_OK;
}

/* A default that the option's table refuses. */
static int check_defaults(const mr_stage_type *type) {
    mr_arena arena = {0};
    mr_diagnostics found = {0};
    const mr_option_reader reader = {.arena = &arena, .diagnostics = &found, .directory = "", .where = type->name};
    void *options = mr_arena_alloc(&arena, type->options_bytes + 1);
    int status = options ? mr_options_default(&reader, type->options, options, type->options_bytes) : MR_ERROR_MEMORY;
    if (status && status != MR_ERROR_MEMORY)
        status = wrong(type, "a default of its options is not valid: %s", found.count ? found.item[0].message : "");
    mr_diagnostics_fini(&found);
    mr_arena_fini(&arena);
    return status;
}

static int check_kinds(const mr_stage_type *type) {
    char why[512];
    for (const mr_result_kind *const *kind = type->kinds; kind && *kind; kind++)
        if (mr_result_kind_check(*kind)) {
            snprintf(why, sizeof why, "%s", mr_message());
            return wrong(type, "%s", why);
        }
    return MR_OK;
}

/* ---- together -------------------------------------------------------------------------------------------------- */

static int check_functions(const mr_stage_type *type, int inputs, int outputs) {
    if (type->external && (inputs || type->process || type->map))
        return wrong(type, "`external` is for sources that the program pushes to; they have neither process nor map");
    if (type->awaits && inputs)
        return wrong(type, "`awaits` is for sources");
    if (!type->external && !type->process && !type->map)
        return wrong(type, "it has neither process nor map");
    if (type->process && type->map)
        return wrong(type, "it has both process and map: the engine calls one of them");
    if (type->map && (inputs != 1 || outputs != 1 || type->inputs[0].many))
        return wrong(type, "map is for stages with one input and one output");
    if ((type->passes || type->spares) && (!type->batches || type->gathers > 1))
        return wrong(type, "it passes frames between those of a batch, so it must take batches, and cannot gather");
    if (type->gathers > 1 && !type->batches)
        return wrong(type, "it gathers frames, but its calls take only one");
    if (type->shape && !type->map)
        return wrong(type, "it has shape but not map");
    if (type->cascade == MR_CASCADE_GATHER && (inputs != 2 || type->entry != MR_ENTRY_PER_SOURCE || type->batches))
        return wrong(type, "it gathers objects, so it needs two inputs and an instance for each source, and takes no "
                     "batches");
    if (type->cascade == MR_CASCADE_SPLIT && (inputs != 1 || type->batches))
        return wrong(type, "it gives a frame for each object, so it needs one input, and takes no batches");
    return MR_OK;
}

int mr_stage_type_check(const mr_stage_type *type) {
    MR_PLAIN_NUMBERS;
    if (!type->name || !is_plain(type->name, "-_."))
        return mr_fail(MR_ERROR_DATA, "\"%.64s\" cannot be the name of a stage type: up to 64 letters, digits, ., - "
                       "and _", type->name ? type->name : "");
    if (!type->summary || !*type->summary || strchr(type->summary, '\n'))
        return wrong(type, "it needs a summary of one line");
    if ((unsigned)type->entry > MR_ENTRY_SHARED)
        return wrong(type, "its entry %d is not a value of mr_entry", (int)type->entry);
    int inputs = check_ports(type, type->inputs, "input"), outputs = check_ports(type, type->outputs, "output");
    if (inputs < 0 || outputs < 0)
        return MR_ERROR_DATA;
    if (inputs == 0 && outputs == 0)
        return wrong(type, "it has neither inputs nor outputs");
    int status = check_functions(type, inputs, outputs);
    if (!status && type->options && type->options[0].name && type->options_bytes == 0)
        status = wrong(type, "it has options, but options_bytes is 0");
    if (!status)
        status = check_kinds(type);
    if (!status)
        status = check_table(type, type->options, 0, false);
    return status ? status : check_defaults(type);
}
