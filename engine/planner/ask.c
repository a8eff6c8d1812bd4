/* Asks one stage: given its possible inputs, it answers with its outputs and the inputs that it accepts. */
#include "engine/planner/negotiate.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/memory.h"
#include "engine/data/kinds.h"
#include "engine/planner/graph/builder.h"
#include "engine/planner/graph/links.h"
#include "engine/planner/graph/mismatch.h"
#include "engine/planner/jobs.h"
#include "engine/planner/lineage.h"
#include "engine/planner/nodes.h"
#include "engine/planner/plan_memory.h"
#include "engine/text/options.h"
#include "engine/text/paths.h"
#include "millrace/events.h"
#include "millrace/objects.h"
#include "millrace/status.h"

const mr_port *mr_plan_port(const mr_plan_builder *b, int v, int input) {
    const mr_port *ports = b->vertex[v]->type->inputs;
    return &ports[ports[0].many ? 0 : input];
}

/* The stage that is being asked, for mr_refuse and mr_promise_result. */
typedef struct asking {
    mr_plan_builder *b;
    const mr_spec_vertex *vertex;
    int v; /* -1: it is not in the plan */
    mr_plan_need *needs;
    bool refused;
    bool diagnosed; /* why it will be refused, where the reason is */
} asking;

static bool finds_files(mr_plan_builder *b, int v);

/* ---- functions for stage types --------------------------------------------------------------------------------- */

/* The author may look for a missing file in another folder. */
static const char *hint_for(const asking *ask, int status, const char *name, const mr_yaml *node) {
    const mr_option *option = name ? mr_option_find(ask->vertex->type->options, name) : NULL;
    if (status != MR_ERROR_NO_INPUT || !option || node == ask->vertex->node)
        return NULL;
    const mr_spec *spec = ask->b->spec;
    return mr_path_hint(ask->b->arena, spec->synonyms, spec->model_of, spec->file, option, node);
}

static int refuse(mr_negotiation *negotiation, int status, const char *option, const char *format,
                  va_list arguments) {
    asking *ask = negotiation->planner;
    char text[1024];
    if (ask->diagnosed) {
        ask->refused = true;
        return status;
    }
    vsnprintf(text, sizeof text, format, arguments);
    const mr_yaml *node = option ? mr_yaml_nearest(ask->vertex->node, option) : ask->vertex->node;
    const mr_location place = node == ask->vertex->node ? ask->vertex->place : node->place;
    ask->refused = true;
    /* If one video of many is broken, or was removed, the others still run. */
    bool planned = ask->v >= 0;
    bool spared = planned && status != MR_ERROR_CONFIG && status != MR_ERROR_MEMORY &&
                  mr_plan_may_spare(ask->b, ask->v);
    if (planned)
        ask->b->plan->vertices[ask->v].offer.unreadable = spared;
    return mr_diagnose(ask->b->diagnostics, spared ? MR_SEVERITY_WARNING : MR_SEVERITY_ERROR, status, place,
                       spared ? "the others are read; because of this one, the run fails at its end"
                              : hint_for(ask, status, option, node), "%s.%s: %s",
                       ask->vertex->is_source ? "sources" : "stages", ask->vertex->id, text);
}

bool mr_is_given(const mr_negotiation *negotiation, const char *option) {
    const asking *ask = negotiation->planner;
    return mr_yaml_get(ask->vertex->node, option) != NULL;
}

int mr_planned_lineage(mr_negotiation *negotiation, size_t input, mr_lineage *lineage) {
    asking *ask = negotiation->planner;
    if (ask->v < 0)
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s is not part of a pipeline", negotiation->id);
    bool *before = mr_calloc((size_t)ask->b->count, sizeof *before);
    if (!before)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the lineage of %s", negotiation->id);
    int status = mr_plan_lineage(ask->b, ask->v, input, before, lineage);
    for (int u = 0; status == MR_ERROR_NO_INPUT && u < ask->v; u++)
        ask->diagnosed |= before[u] && !ask->b->vertex[u]->is_source && !finds_files(ask->b, u);
    mr_free(before);
    return status;
}

/* ---- what comes to an input -------------------------------------------------------------------------------------- */

/* Whether at most one dimension can be above 1 in all members. */
static bool may_be_vectors(const mr_format_set *set) {
    int longer = 0;
    for (int i = 0; i < set->rank; i++)
        longer += set->dims[i].min > 1;
    return longer < 2;
}

static mr_planned_finding judge(const mr_format_set *set) {
    const mr_format common = mr_format_set_common(set);
    const bool open = set->payload == MR_PAYLOAD_ANY ||
                      (set->payload == MR_PAYLOAD_TENSOR && !mr_tensor_count(&common) && may_be_vectors(set));
    return mr_vector_length(&common) ? MR_PLANNED_FOUND : open ? MR_PLANNED_UNKNOWN : MR_PLANNED_NONE;
}

/* *result: the one that is found; NULL: the payload, or none. */
static mr_planned_finding find_vector(const mr_planned_input *input, const char *tensor, mr_format *vector,
                                      const mr_planned_result **result) {
    mr_planned_finding of = tensor ? MR_PLANNED_NONE : judge(&input->set);
    const mr_format_set *set = &input->set;
    *result = NULL;
    if (of == MR_PLANNED_NONE && input->more_results)
        return MR_PLANNED_UNKNOWN;
    for (const mr_planned_result *one = input->results; one && of == MR_PLANNED_NONE; one = one->next)
        if (one->kind == mr_kind_tensor() && (!tensor || strcmp(one->name, tensor) == 0)) {
            *result = one;
            set = &one->set;
            of = judge(set);
        }
    *vector = mr_format_set_common(set);
    return of;
}

mr_planned_finding mr_planned_find_vector(const mr_planned_input *input, const char *tensor, mr_format *vector) {
    const mr_planned_result *result;
    return find_vector(input, tensor, vector, &result);
}

const char *mr_planned_operation(const mr_planned_input *input, const char *tensor) {
    const mr_planned_result *result;
    mr_format vector;
    if (find_vector(input, tensor, &vector, &result) != MR_PLANNED_FOUND)
        return NULL;
    return result ? result->operation : input->operation;
}

/* The newest classes of a kind for an output; *known: it has no others. */
static const mr_planned_classes *classes_of(const mr_planned_output *output, const mr_result_kind *kind, bool *known) {
    const mr_planned_result *one = output->results;
    while (one && one->kind != kind)
        one = one->next;
    *known &= !output->more_results && (!one || one->classes);
    return one ? one->classes : NULL;
}

const mr_planned_classes *mr_planned_classes_at(const mr_negotiation *negotiation, size_t input, size_t index,
                                                bool *known) {
    const mr_result_kind *const kinds[] = {mr_kind_classes(), mr_kind_objects()};
    const asking *ask = negotiation->planner;
    const mr_plan_builder *b = ask->b;
    const mr_planned_classes *found = NULL;
    size_t count = 0;
    *known = ask->v >= 0;
    if (ask->v < 0)
        return NULL;
    for (int i = b->in.start[ask->v]; i < b->in.start[ask->v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        const mr_planned_output *outputs = b->plan->vertices[link->from].outputs;
        if ((size_t)link->to_port != input)
            continue;
        *known &= outputs != NULL;
        for (int k = 0; outputs && k < 2; k++) {
            const mr_planned_classes *one = classes_of(&outputs[link->from_port], kinds[k], known);
            found = one && count++ == index ? one : found;
        }
    }
    return found;
}

const mr_planned_zones *mr_planned_zones_at(const mr_negotiation *negotiation, size_t input, size_t index,
                                            bool *known) {
    const asking *ask = negotiation->planner;
    const mr_plan_builder *b = ask->b;
    const mr_planned_zones *found = NULL;
    size_t count = 0;
    *known = ask->v >= 0;
    for (int i = *known ? b->in.start[ask->v] : 0; ask->v >= 0 && i < b->in.start[ask->v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        const mr_planned_output *outputs = b->plan->vertices[link->from].outputs;
        if ((size_t)link->to_port != input)
            continue;
        *known &= outputs && !outputs[link->from_port].more_results;
        for (const mr_planned_result *one = outputs ? outputs[link->from_port].results : NULL; one; one = one->next) {
            *known &= one->kind != mr_kind_events() || one->zones;
            found = one->zones && count++ == index ? one->zones : found;
        }
    }
    return found;
}

static bool may_have(const mr_planned_output *output, const mr_result_kind *kind) {
    const mr_planned_result *one = output->results;
    while (one && one->kind != kind)
        one = one->next;
    return one || output->more_results;
}

bool mr_planned_may_have(const mr_negotiation *negotiation, size_t input, const mr_result_kind *kind) {
    const asking *ask = negotiation->planner;
    const mr_plan_builder *b = ask->b;
    bool any = ask->v < 0;
    for (int i = any ? 0 : b->in.start[ask->v]; !any && i < b->in.start[ask->v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        const mr_planned_output *outputs = b->plan->vertices[link->from].outputs;
        any = (size_t)link->to_port == input && (!outputs || may_have(&outputs[link->from_port], kind));
    }
    return any;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

int mr_refuse(mr_negotiation *negotiation, const char *option, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    refuse(negotiation, MR_ERROR_CONFIG, option, format, arguments);
    va_end(arguments);
    return MR_ERROR_CONFIG;
}

int mr_refuse_status(mr_negotiation *negotiation, int status, const char *option, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    refuse(negotiation, status, option, format, arguments);
    va_end(arguments);
    return status;
}

/* An option's place in the YAML, or the stage's. */
static mr_location place_of(const asking *ask, const char *option) {
    const mr_yaml *node = option ? mr_yaml_nearest(ask->vertex->node, option) : ask->vertex->node;
    return node == ask->vertex->node ? ask->vertex->place : node->place;
}

/* A stage may be asked twice. */
static bool is_warned(const mr_diagnostics *diagnostics, const char *message) {
    for (size_t i = 0; i < diagnostics->count; i++)
        if (diagnostics->item[i].severity == MR_SEVERITY_WARNING && strcmp(diagnostics->item[i].message, message) == 0)
            return true;
    return false;
}

void mr_warn(mr_negotiation *negotiation, const char *option, const char *hint, const char *format, ...) {
    const asking *ask = negotiation->planner;
    char text[1024], message[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "%s.%s: %s", ask->vertex->is_source ? "sources" : "stages", ask->vertex->id,
             text);
    if (!is_warned(ask->b->diagnostics, message))
        mr_diagnose(ask->b->diagnostics, MR_SEVERITY_WARNING, MR_OK, place_of(ask, option), hint, "%s", message);
}

void mr_take(mr_negotiation *negotiation, size_t input, const mr_format_set *set, const char *why, ...) {
    asking *ask = negotiation->planner;
    va_list arguments;
    va_start(arguments, why);
    negotiation->takes[input] = *set;
    /* If memory runs out, the message goes without it. */
    ask->needs[input].why = mr_arena_vprint(ask->b->arena, why, arguments);
    va_end(arguments);
}

void mr_leave_uncounted(mr_negotiation *negotiation, const char *what, ...) {
    const asking *ask = negotiation->planner;
    va_list arguments;
    va_start(arguments, what);
    /* If memory runs out, the message still says that there is one. */
    const char *copy = mr_arena_vprint(ask->b->arena, what, arguments);
    negotiation->work.unknown = copy ? copy : "some of it is not counted";
    va_end(arguments);
}

void mr_remark(mr_negotiation *negotiation, const char *format, ...) {
    const asking *ask = negotiation->planner;
    va_list arguments;
    va_start(arguments, format);
    /* If memory runs out, the plan goes without it. */
    negotiation->remark = mr_arena_vprint(ask->b->arena, format, arguments);
    va_end(arguments);
}

/* NULL for NULL, and if memory runs out: *short_of is then true. */
static const char *copy_text(const asking *ask, const char *text, bool *short_of) {
    const char *copy = text ? mr_arena_text(ask->b->arena, text, strlen(text)) : NULL;
    *short_of |= text && !copy;
    return copy;
}

static int promise(mr_negotiation *negotiation, size_t port, const mr_planned_result *like) {
    const asking *ask = negotiation->planner;
    mr_planned_result *result = mr_arena_alloc(ask->b->arena, sizeof *result);
    mr_planned_output *output = &negotiation->outputs[port];
    bool short_of = !result;
    mr_planned_result made = *like;
    made.maker = made.maker ? made.maker : negotiation->id;
    made.name = copy_text(ask, like->name, &short_of);
    made.operation = copy_text(ask, like->operation, &short_of);
    made.next = output->results;
    if (short_of)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a plan");
    *result = made;
    output->results = result;
    return MR_OK;
}

/* A cut knows only the kinds that stage types list: better now than at the first frame that crosses one. */
static int check_kind(const asking *ask, const mr_result_kind *kind) {
    const mr_stage_type *type = ask->vertex->type;
    mr_kinds known = mr_kinds_built_in();
    if (!mr_kinds_add(&known, type->kinds) && mr_kinds_id(&known, kind))
        return MR_OK;
    return mr_fail(MR_ERROR_INTERNAL, "the stage type %s promises results of the kind \"%.64s\", which it does not "
                   "list in `kinds`", type->name, kind->name);
}

int mr_promise_result(mr_negotiation *negotiation, size_t port, const mr_result_kind *kind, const char *name,
                      const mr_format_set *set) {
    int status = check_kind(negotiation->planner, kind);
    if (status)
        return status;
    mr_planned_result result = {
        .kind = kind, .name = name, .items_bytes = mr_result_kind_has_items(kind) ? MR_MOST_ITEMS_BYTES : 0};
    if (set)
        result.set = *set;
    return promise(negotiation, port, &result);
}

/* If no opened file determines the size, every picture is copied: pools of unknown size belong to outputs that share
 * nothing. */
void mr_promise_changes(mr_negotiation *negotiation, size_t port, size_t input) {
    const size_t bytes = mr_format_set_most_bytes(&negotiation->inputs[input].set);
    negotiation->outputs[port].follows = (int)input;
    negotiation->outputs[port].shares = bytes ? (int)input : -1;
    negotiation->outputs[port].buffer_bytes = bytes;
}

int mr_promise_tensor(mr_negotiation *negotiation, size_t port, const char *name, const mr_format_set *set,
                      const char *operation) {
    return promise(negotiation, port,
                   &(mr_planned_result){.kind = mr_kind_tensor(), .name = name, .set = *set, .operation = operation});
}

void mr_name_operation(mr_negotiation *negotiation, size_t port, const char *operation) {
    const asking *ask = negotiation->planner;
    /* If memory runs out, it is not known. */
    negotiation->outputs[port].operation = mr_arena_print(ask->b->arena, "%s", operation);
}

static const mr_planned_classes *keep_classes(const mr_negotiation *negotiation, const mr_planned_classes *classes) {
    const asking *ask = negotiation->planner;
    mr_planned_classes *made = mr_arena_alloc(ask->b->arena, sizeof *made);
    const char **labels = classes->labels ? mr_arena_array(ask->b->arena, classes->count + 1, sizeof *labels) : NULL;
    bool short_of = !made || (classes->labels && !labels);
    for (size_t i = 0; labels && i < classes->count && !short_of; i++)
        labels[i] = copy_text(ask, classes->labels[i], &short_of);
    if (short_of) {
        mr_fail(MR_ERROR_MEMORY, "no memory for a plan");
        return NULL;
    }
    *made = *classes;
    made->from = negotiation->id;
    made->labels = labels;
    return made;
}

int mr_promise_classes(mr_negotiation *negotiation, size_t port, const mr_planned_classes *classes) {
    const mr_planned_result result = {.kind = mr_kind_classes(), .classes = keep_classes(negotiation, classes)};
    return result.classes ? promise(negotiation, port, &result) : MR_ERROR_MEMORY;
}

int mr_promise_labels(mr_negotiation *negotiation, size_t port, const mr_planned_classes *classes) {
    mr_planned_output *output = &negotiation->outputs[port];
    mr_planned_result result = *output->results;
    output->results = result.next;
    result.classes = keep_classes(negotiation, classes);
    return result.classes ? promise(negotiation, port, &result) : MR_ERROR_MEMORY;
}

void mr_promise_limit(mr_negotiation *negotiation, size_t port, size_t most) {
    mr_planned_result *newest = (mr_planned_result *)(uintptr_t)negotiation->outputs[port].results;
    newest->limited = negotiation->id;
    newest->most = newest->elements = most;
}

void mr_promise_elements(mr_negotiation *negotiation, size_t port, size_t most) {
    ((mr_planned_result *)(uintptr_t)negotiation->outputs[port].results)->elements = most;
}

void mr_promise_items(mr_negotiation *negotiation, size_t port, uint64_t most) {
    mr_planned_result *newest = (mr_planned_result *)(uintptr_t)negotiation->outputs[port].results;
    newest->items_bytes = most < MR_MOST_ITEMS_BYTES ? most : MR_MOST_ITEMS_BYTES;
}

int mr_promise_tracks(mr_negotiation *negotiation, size_t port) {
    const mr_planned_result *objects = negotiation->outputs[port].results;
    while (objects && objects->kind != mr_kind_objects())
        objects = objects->next;
    mr_planned_result result =
        objects ? *objects : (mr_planned_result){.kind = mr_kind_objects(), .items_bytes = MR_MOST_ITEMS_BYTES};
    result.tracked = true;
    result.maker = negotiation->id;
    return promise(negotiation, port, &result);
}

int mr_promise_zones(mr_negotiation *negotiation, size_t port, const mr_planned_zones *zones) {
    const asking *ask = negotiation->planner;
    mr_planned_zones *made = mr_arena_alloc(ask->b->arena, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a plan");
    *made = *zones;
    made->from = negotiation->id;
    return promise(negotiation, port, &(mr_planned_result){.kind = mr_kind_events(), .zones = made});
}

int mr_promise_again(mr_negotiation *negotiation, size_t port, const mr_planned_result *result) {
    return promise(negotiation, port, result);
}

/* ---- checking the answer --------------------------------------------------------------------------------------- */

/* An answer that the stage type has not announced is the type's own error; the pipeline is not to blame. */
static void check_answer(mr_plan_builder *b, int v, const mr_negotiation *n) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    char given[MR_FORMAT_SET_TEXT];
    if (n->entry < vertex->type->entry)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_INTERNAL, vertex->mark, NULL,
                    "%s: the stage type %s asks for more concurrency than it has announced", vertex->id,
                    vertex->type->name);
    for (size_t i = 0; i < vertex->output_count; i++)
        if (!mr_port_accepts(&vertex->type->outputs[i], &n->outputs[i].set, NULL))
            mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_INTERNAL, vertex->mark, NULL,
                        "%s: the stage type %s answers with %s on its output \"%s\", which it has not announced",
                        vertex->id, vertex->type->name, mr_plan_describe(&n->outputs[i].set, given, sizeof given),
                        vertex->type->outputs[i].name);
}

/* The inputs whose format or buffers the outputs are to have exist. */
static bool check_promises(mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    const int inputs = (int)vertex->input_count;
    for (size_t i = 0; i < vertex->output_count; i++)
        if (vertex->outputs[i].follows >= inputs || vertex->outputs[i].shares >= inputs) {
            mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_INTERNAL, vertex->mark, NULL,
                        "%s: the stage type %s answers that its output \"%s\" follows input %d and shares input %d, "
                        "and it has %d", vertex->id, vertex->type->name, vertex->type->outputs[i].name,
                        vertex->outputs[i].follows, vertex->outputs[i].shares, inputs);
            return false;
        }
    return true;
}

/* The formats that the stage accepts for an input, if its answer accepts fewer than the port. */
static bool check_takes(mr_plan_builder *b, int v) {
    mr_format_set met;
    bool fits = true;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        const mr_planned_output *given = &b->plan->vertices[link->from].outputs[link->from_port];
        const mr_plan_need *need = &b->needs[v][link->to_port];
        if (mr_format_set_meet(&given->set, &need->set, &met))
            continue;
        mr_plan_mismatch(b, link, mr_plan_port(b, v, link->to_port), need, &given->set);
        fits = false;
    }
    return fits;
}

/* Before it is asked, a stage accepts the arriving formats that the ports accept. */
static void prepare_takes(mr_plan_builder *b, int v, mr_format_set *takes) {
    for (size_t i = 0; i < b->plan->vertices[v].input_count; i++) {
        const mr_port *port = mr_plan_port(b, v, (int)i);
        bool one = !mr_port_accepts_anything(port) && !port->accepts[1].payload;
        takes[i] = one ? port->accepts[0] : (mr_format_set){0};
        b->needs[v][i] = (mr_plan_need){.by = v};
    }
}

static void note_needs(mr_plan_builder *b, int v, const mr_negotiation *n) {
    for (size_t i = 0; i < n->input_count; i++) {
        b->needs[v][i].set = n->takes[i];
        b->needs[v][i].unread = n->unread;
    }
}

/* How many frames there are for each that the stage works on. If a rate is not known, few are expected: a batch then
 * leaves before it is full. */
static int spacing_of(const mr_plan *plan, const mr_plan_vertex *vertex, const mr_every *every) {
    enum { USUAL_RATE = 30 };
    double rate = 0;
    for (size_t i = 0; i < vertex->source_count; i++)
        rate = fmax(rate, plan->vertices[vertex->sources[i]].offer.rate);
    const double frames = every->time_ns ? ceil((rate > 0 ? rate : USUAL_RATE) * (double)every->time_ns / 1e9)
                                         : (double)every->frames;
    return frames < 1 ? 1 : (int)fmin(frames, MR_PLAN_MOST_BUFFERS);
}

/* A call would need buffers for all the frames that it takes together, and the pool has them only for a batch. */
static int gathers_of(const mr_plan_vertex *vertex, const mr_negotiation *n) {
    uint64_t bytes;
    for (size_t port = 0; port < vertex->output_count; port++)
        if (mr_plan_allocates(vertex, port, &bytes))
            return 1;
    return n->gathers;
}

static void take_answer(const mr_plan *plan, mr_plan_vertex *vertex, const mr_negotiation *n) {
    vertex->calls.entry = n->entry;
    vertex->calls.overlap = n->overlap;
    vertex->calls.every = n->every;
    vertex->calls.spacing = spacing_of(plan, vertex, &n->every);
    vertex->calls.gathers = gathers_of(vertex, n);
    vertex->calls.blocking = n->blocking;
    vertex->calls.threads = n->threads;
    vertex->offer.rate = n->rate;
    vertex->offer.paced = n->paced;
    vertex->offer.frames = n->frames;
    vertex->offer.endless = n->endless;
    vertex->offer.repeats = n->repeats;
    vertex->needs.retained = n->retained;
    vertex->needs.shows = n->shows;
    vertex->needs.blind = n->blind;
    vertex->memory.constant_bytes = n->constant_bytes;
    vertex->memory.waiting_bytes = n->waiting_bytes;
    vertex->needs.work = n->work;
    vertex->remarks.anywhere = n->remark;
    vertex->remarks.forced = n->forced && n->remark;
    memcpy(vertex->needs.stream_bytes, n->stream_bytes, sizeof vertex->needs.stream_bytes);
    vertex->needs.library_bytes = n->library_bytes;
    vertex->memory.scratch.bytes = n->scratch_bytes;
    vertex->memory.pinned.bytes = n->pinned_bytes;
    vertex->memory.results.bytes = n->result_bytes;
    for (size_t i = 0; i < vertex->output_count; i++) {
        mr_planned_output *output = &vertex->outputs[i];
        if (output->follows >= 0)
            output->set = vertex->inputs[output->follows].set;
        if (output->shares >= 0)
            output->operation = vertex->inputs[output->shares].operation;
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

/* Whether the file is known to be missing; other errors are left to the stage, which opens it. */
static bool is_missing(const mr_option *option, const char *path) {
    struct stat about;
    return path && option->file == MR_FILE_READ && option->kind == MR_OPTION_PATH && !option->searched &&
           stat(path, &about) && (errno == ENOENT || errno == ENOTDIR);
}

/* Files that are missing are diagnosed. */
static bool finds_files(mr_plan_builder *b, int v) {
    const mr_spec_vertex *vertex = b->vertex[v];
    bool there = true;
    if (!vertex->type || !vertex->options || vertex->broken)
        return true;
    for (const mr_option *option = vertex->type->options; option && option->name; option++) {
        const mr_yaml *said = mr_yaml_get(vertex->node, option->name);
        const char *path = said ? mr_option_path(option, vertex->options) : NULL;
        if (!path || !is_missing(option, path))
            continue;
        const char *hint = mr_path_hint(b->arena, b->spec->synonyms, b->spec->model_of, b->spec->file, option, said);
        const char *why = strerror(errno);
        there = false;
        if (mr_option_is_name(option, said->text))
            mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_NO_INPUT, said->place, hint,
                        "stages.%s.%s: there is no \"%s\" here, neither a file nor a model's name", vertex->id,
                        option->name, said->text);
        else
            mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_NO_INPUT, said->place, hint,
                        "stages.%s.%s: cannot open %s: %s", vertex->id, option->name, path, why);
    }
    return there;
}

bool mr_plan_has_files(mr_plan_builder *b, int v) {
    return b->params.offline || mr_plan_is_unseen(b, v) || finds_files(b, v);
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

/* The first stage that reads output 0 in pictures as large as those of the source; NULL: there is none. An output that
 * goes to another process is read so. */
static const char *whole_for(const mr_plan_builder *b, int v) {
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->out.item[i]];
        const mr_plan_vertex *to = &b->plan->vertices[link->to];
        bool shrinks = to->type && to->type->shrinks && to->node == b->plan->vertices[v].node;
        if (link->from_port == 0 && !shrinks)
            return to->id;
    }
    return NULL;
}

/* A source that is proven alone, to be added to others, meets stages that were planned for as many as may come. */
static size_t source_count(const mr_plan_builder *b, const mr_plan_vertex *vertex) {
    return b->spec->most_sources > vertex->source_count ? b->spec->most_sources : vertex->source_count;
}

/* An author's `batch` must hold. A device does not need this: work waits in a stream. */
static int most_gathered(const mr_plan_builder *b, int v) {
    const mr_spec_vertex *spec = b->vertex[v];
    const mr_strings *device = &spec->common.device;
    const bool on_host = device->count == 0 || strcmp(device->item[0], "cpu") == 0;
    return on_host && !spec->common.batch.size && spec->type->gathers > 1 ? spec->type->gathers : 1;
}

const char *mr_planned_source(const mr_negotiation *negotiation, size_t index) {
    const asking *ask = negotiation->planner;
    const mr_plan_vertex *vertex = ask->v < 0 ? NULL : &ask->b->plan->vertices[ask->v];
    return vertex && index < vertex->source_count ? ask->b->plan->vertices[vertex->sources[index]].id : NULL;
}

bool mr_plan_ask(mr_plan_builder *b, int v) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    asking context = {.b = b, .vertex = b->vertex[v], .v = v, .needs = b->needs[v]};
    mr_format_set *takes = mr_arena_array(b->arena, vertex->input_count, sizeof *takes);
    if (!takes) {
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_MEMORY, vertex->mark, NULL, "no memory for a plan");
        return false;
    }
    const mr_strings *device = &b->vertex[v]->common.device;
    mr_negotiation n = {.id = vertex->id,
                        .type = vertex->type,
                        .options = vertex->options,
                        .offline = b->params.offline || mr_plan_is_unseen(b, v),
                        .connect = b->params.connect,
                        .force = b->params.force,
                        .returns = b->params.resumes || b->params.known ||
                                   (b->plan->node_count > 0 && b->plan->node >= 0),
                        .input_count = vertex->input_count,
                        .inputs = vertex->inputs,
                        .batch = vertex->calls.batch,
                        .device = device->count ? device->item[0] : "cpu",
                        .sources = (int)source_count(b, vertex),
                        .workers = b->plan->workers,
                        .whole_for = whole_for(b, v),
                        .takes = takes,
                        .outputs = vertex->outputs,
                        .entry = vertex->type->entry,
                        .gathers = most_gathered(b, v),
                        .blocking = vertex->type->blocking,
                        .blind = vertex->type->blind,
                        .repeats = vertex->type->repeats,
                        .shows = vertex->type->outputs ? 0 : UINT32_MAX,
                        .planner = &context};
    if (vertex->role != MR_ROLE_SOURCE)
        prepare_takes(b, v, takes);
    mr_message_clear();
    int status = vertex->type->negotiate ? vertex->type->negotiate(&n) : MR_OK;
    note_needs(b, v, &n);
    if (status < 0 && !context.refused)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, status, vertex->mark, NULL, "%s.%s: %s",
                    vertex->role == MR_ROLE_SOURCE ? "sources" : "stages", vertex->id, mr_message_or(status));
    if (status < 0 || context.refused || !check_takes(b, v) || !check_promises(b, v))
        return false;
    take_answer(b->plan, vertex, &n);
    check_answer(b, v, &n);
    return true;
}

/* ---- sources that are not opened ------------------------------------------------------------------------------- */

/* The source with that id in another plan for the pipeline; NULL: it must be opened. */
static const mr_plan_vertex *known_source(const mr_plan_builder *b, int v) {
    const mr_plan *known = b->params.known;
    const char *id = b->vertex[v]->id;
    if (!known || !b->vertex[v]->is_source || strcmp(id, b->params.added) == 0)
        return NULL;
    for (size_t s = 0; s < known->spec->source_count; s++)
        if (strcmp(known->spec->sources[s].id, id) == 0 && known->vertices[s].type == b->vertex[v]->type)
            return &known->vertices[s];
    return NULL;
}

/* The first reserved source, which is asked for all of them. */
static const mr_plan_vertex *first_reserved(const mr_plan_builder *b, int v) {
    size_t first = b->spec->source_count - b->spec->reserved_count;
    return b->vertex[v]->reserved && (size_t)v > first ? &b->plan->vertices[first] : NULL;
}

static void give_as(mr_plan_vertex *vertex, const mr_plan_vertex *like) {
    vertex->calls.entry = like->calls.entry;
    vertex->calls.blocking = like->calls.blocking;
    vertex->calls.threads = like->calls.threads;
    vertex->offer.rate = like->offer.rate;
    vertex->offer.paced = like->offer.paced;
    vertex->offer.endless = like->offer.endless;
    vertex->needs.retained = like->needs.retained;
    memcpy(vertex->outputs, like->outputs, vertex->output_count * sizeof *vertex->outputs);
}

/* Whether the vertex is a source that need not be asked. One that comes later can give all that the type gives. */
bool mr_plan_is_not_asked(mr_plan_builder *b, int v) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    const mr_plan_vertex *like = known_source(b, v);
    like = like ? like : first_reserved(b, v);
    if (like)
        give_as(vertex, like);
    else if (b->vertex[v]->partial)
        vertex->calls.blocking = vertex->type->blocking;
    return like || b->vertex[v]->partial;
}

/* ---- sources of a list ------------------------------------------------------------------------------------------- */

int mr_plan_ask_listed(void *builder, const mr_spec_vertex *source) {
    mr_plan_builder *b = builder;
    const mr_stage_type *type = source->type;
    asking context = {.b = b, .vertex = source, .v = -1};
    mr_plan_vertex vertex = {.type = type, .output_count = (size_t)mr_port_count(type->outputs)};
    vertex.outputs = mr_arena_array(b->arena, vertex.output_count, sizeof *vertex.outputs);
    if (!vertex.outputs)
        return MR_ERROR_MEMORY;
    mr_plan_assume_outputs(&vertex);
    mr_negotiation n = {.id = source->id,
                        .type = type,
                        .options = source->options,
                        .offline = true,
                        .device = "cpu",
                        .sources = 1,
                        .workers = b->plan->workers,
                        .outputs = vertex.outputs,
                        .entry = type->entry,
                        .blocking = type->blocking,
                        .repeats = type->repeats,
                        .planner = &context};
    mr_message_clear();
    int status = type->negotiate ? type->negotiate(&n) : MR_OK;
    if (status < 0 && !context.refused)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, status, source->place, NULL, "sources.%s: %s", source->id,
                    mr_message_or(status));
    return status == MR_ERROR_MEMORY ? status : MR_OK;
}
