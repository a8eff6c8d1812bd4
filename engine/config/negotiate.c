/* Formats: every link's is what its producer answers when it is asked, checked against what its consumer takes. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/config/plan_builder.h"
#include "millrace/status.h"

/* What mr_refuse needs to know of the stage that is being asked. */
typedef struct asking {
    mr_plan_builder *b;
    const mr_spec_vertex *vertex;
    bool refused;
} asking;

static int refuse(mr_negotiation *negotiation, int status, const char *option, const char *format,
                  va_list arguments) {
    asking *ask = negotiation->planner;
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    mr_place place = ask->vertex->place;
    if (option) {
        const mr_yaml *node = mr_yaml_nearest(ask->vertex->node, option);
        if (node != ask->vertex->node)
            place = node->place;
    }
    ask->refused = true;
    return mr_diagnose(ask->b->diagnostics, MR_SEVERITY_ERROR, status, place, NULL, "%s.%s: %s",
                       ask->vertex->is_source ? "sources" : "stages", ask->vertex->id, text);
}

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

/* ---- what ports take ------------------------------------------------------------------------------------------ */

static bool accepts_anything(const mr_port *port) {
    return !port->accepts || port->accepts[0].payload == MR_PAYLOAD_ANY;
}

bool mr_port_accepts(const mr_port *port, const mr_format *format, mr_format *met) {
    mr_format common, only = *format;
    int fitting = 0;
    for (const mr_format *set = port->accepts; !accepts_anything(port) && set->payload != MR_PAYLOAD_ANY; set++)
        if (mr_format_meet(format, set, &common)) {
            only = common;
            fitting++;
        }
    /* Where several sets fit, nothing more is known than before. */
    if (met)
        *met = fitting == 1 ? only : *format;
    return fitting > 0 || accepts_anything(port);
}

static bool says_only_payload(const mr_format *format) {
    return format->pixel == MR_PIXEL_ANY && format->width == 0 && format->height == 0 &&
           format->dtype == MR_DTYPE_ANY && format->layout == MR_LAYOUT_ANY && format->rank == 0;
}

/* "packets", "pictures", ... or the format in full. */
static const char *describe(const mr_format *format, char *text, size_t bytes) {
    static const char *const plural[] = {[MR_PAYLOAD_ANY] = "anything",
                                         [MR_PAYLOAD_PACKET] = "packets",
                                         [MR_PAYLOAD_PICTURE] = "pictures",
                                         [MR_PAYLOAD_TENSOR] = "tensors",
                                         [MR_PAYLOAD_RESULTS] = "results without content"};
    if (!says_only_payload(format))
        return mr_format_print(format, text, bytes);
    snprintf(text, bytes, "%s", plural[format->payload]);
    return text;
}

static const char *describe_port(const mr_port *port, char *text, size_t bytes) {
    char one[MR_FORMAT_TEXT];
    text[0] = 0;
    for (const mr_format *set = port->accepts; set->payload != MR_PAYLOAD_ANY; set++) {
        size_t length = strlen(text);
        snprintf(text + length, bytes - length, "%s%s", length ? " or " : "", describe(set, one, sizeof one));
    }
    return text;
}

/* ---- what would convert --------------------------------------------------------------------------------------- */

enum { MAX_TYPES = 64, MAX_STEPS = 3 };

static bool gives(const mr_stage_type *type, const mr_port *wanted) {
    for (const mr_port *port = type->outputs; port && port->name; port++)
        for (const mr_format *set = port->accepts; set && set->payload != MR_PAYLOAD_ANY; set++)
            if (mr_port_accepts(wanted, set, NULL))
                return true;
    return false;
}

static bool takes_output_of(const mr_stage_type *type, const mr_stage_type *from) {
    for (const mr_port *port = from->outputs; port && port->name; port++)
        for (const mr_format *set = port->accepts; set && set->payload != MR_PAYLOAD_ANY; set++)
            if (mr_port_accepts(&type->inputs[0], set, NULL))
                return true;
    return false;
}

/* A stage type that turns one thing into another: it says what it takes and gives, and has one input. */
static bool converts(const mr_stage_type *type) {
    return type->inputs && type->outputs && !accepts_anything(&type->inputs[0]) && !type->inputs[1].name;
}

static void write_chain(const mr_stage_type *const *types, const int *before, int last, char *hint, size_t bytes) {
    char text[256] = "", longer[256];
    for (int at = last; at >= 0; at = before[at]) {
        snprintf(longer, sizeof longer, "%s%s%.150s", types[at]->name, *text ? ", then " : "", text);
        memcpy(text, longer, sizeof text);
    }
    snprintf(hint, bytes, "put a stage of type %s between them", text);
}

/* The shortest chain of at most MAX_STEPS types that makes of `have` what `wanted` takes; NULL where
 * there is none. */
static const char *conversion(const mr_stage_type *const *types, const mr_format *have, const mr_port *wanted,
                              char *hint, size_t bytes) {
    int queue[MAX_TYPES], before[MAX_TYPES], steps[MAX_TYPES] = {0}, found = 0;
    for (int t = 0; types[t] && t < MAX_TYPES; t++)
        if (converts(types[t]) && mr_port_accepts(&types[t]->inputs[0], have, NULL)) {
            before[t] = -1;
            steps[t] = 1;
            queue[found++] = t;
        }
    for (int i = 0; i < found; i++) {
        int at = queue[i];
        if (gives(types[at], wanted)) {
            write_chain(types, before, at, hint, bytes);
            return hint;
        }
        for (int t = 0; types[t] && t < MAX_TYPES && steps[at] < MAX_STEPS; t++)
            if (steps[t] == 0 && converts(types[t]) && takes_output_of(types[t], types[at])) {
                before[t] = at;
                steps[t] = steps[at] + 1;
                queue[found++] = t;
            }
    }
    return NULL;
}

/* ---- inputs --------------------------------------------------------------------------------------------------- */

static void misfit(mr_plan_builder *b, const mr_plan_link *link, const mr_port *port, const mr_format *format) {
    const mr_spec_vertex *to = b->vertex[link->to], *from = b->vertex[link->from];
    char takes[256], given[MR_FORMAT_TEXT], hint[320];
    if (b->unknown[link->from])
        return;
    mr_plan_error(b, link->place, conversion(b->spec->types, format, port, hint, sizeof hint),
                  "%s takes %s, but %s gives %s", to->id, describe_port(port, takes, sizeof takes), from->id,
                  describe(format, given, sizeof given));
}

/* What frames of either format have in common; false where one link cannot carry both. */
static bool merge(mr_format *a, const mr_format *b) {
    if (a->payload != b->payload)
        return false;
    a->pixel = a->pixel == b->pixel ? a->pixel : MR_PIXEL_ANY;
    if (a->width != b->width || a->height != b->height)
        a->width = a->height = 0;
    a->matrix = a->matrix == b->matrix ? a->matrix : MR_MATRIX_ANY;
    a->range = a->range == b->range ? a->range : MR_RANGE_ANY;
    a->siting = a->siting == b->siting ? a->siting : MR_SITING_ANY;
    if (a->sar_num != b->sar_num || a->sar_den != b->sar_den)
        a->sar_num = a->sar_den = 0;
    if (a->rotation != b->rotation || a->flip != b->flip) {
        a->rotation = 0;
        a->flip = false;
    }
    a->dtype = a->dtype == b->dtype ? a->dtype : MR_DTYPE_ANY;
    a->layout = a->layout == b->layout ? a->layout : MR_LAYOUT_ANY;
    if (a->rank != b->rank) {
        a->rank = 0;
        memset(a->dims, 0, sizeof a->dims);
    }
    for (int i = 0; i < MR_MAX_RANK; i++)
        a->dims[i] = a->dims[i] == b->dims[i] ? a->dims[i] : 0;
    return true;
}

static void refuse_merge(mr_plan_builder *b, const mr_plan_link *link, const mr_planned_input *with,
                         const mr_format *format) {
    char one[MR_FORMAT_TEXT], other[MR_FORMAT_TEXT];
    mr_plan_error(b, link->place, "merge what is of one kind, or join by name: join: {a: ..., b: ...}",
                  "%s merges %s from %s with %s from %s", b->vertex[link->to]->id, describe(format, one, sizeof one),
                  b->vertex[link->from]->id, describe(&with->format, other, sizeof other), with->from);
}

/* Takes one link into the input that it belongs to. */
static bool take_link(mr_plan_builder *b, const mr_plan_link *link, mr_plan_edge *edge, mr_planned_input *input,
                      const mr_port *port) {
    const mr_plan_vertex *from = &b->plan->vertices[edge->from];
    mr_format format = {0};
    if (from->outputs)
        format = from->outputs[edge->from_port];
    edge->format = format;
    if (!mr_port_accepts(port, &format, &edge->format)) {
        misfit(b, link, port, &format);
        return false;
    }
    if (!input->from) {
        input->from = from->id;
        input->format = edge->format;
        return true;
    }
    if (merge(&input->format, &edge->format))
        return true;
    if (accepts_anything(port) || b->unknown[edge->from]) {
        input->format = (mr_format){0};
        return true;
    }
    refuse_merge(b, link, input, &edge->format);
    return false;
}

static int gather_inputs(mr_plan_builder *b, int v, bool *fits) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    const mr_spec_vertex *spec = b->vertex[v];
    const mr_port *ports = spec->type->inputs;
    bool many = ports[0].many;
    size_t count = !many ? (size_t)mr_port_count(ports) : spec->joins || !ports[0].optional ? spec->input_count : 1;
    mr_planned_input *inputs = mr_arena_array(b->arena, count, sizeof *inputs);
    if (!inputs)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        inputs[i].port = !many ? ports[i].name : spec->joins ? spec->inputs[i].port : ports[0].name;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        int e = b->in.item[i];
        int port = b->link[e].to_port;
        if (!take_link(b, &b->link[e], &b->plan->edges[e], &inputs[port], &ports[many ? 0 : port]))
            *fits = false;
    }
    /* A port whose input was not found, which is diagnosed, has nothing to be asked about. */
    for (size_t i = 0; i < count; i++)
        *fits = *fits && inputs[i].from;
    vertex->inputs = inputs;
    vertex->input_count = count;
    return MR_OK;
}

/* ---- outputs -------------------------------------------------------------------------------------------------- */

/* What an output is before its stage was asked: the one thing that it can give, or what comes in. */
static mr_format assume(const mr_port *port, const mr_plan_vertex *vertex) {
    mr_format input = vertex->input_count ? vertex->inputs[0].format : (mr_format){0};
    if (accepts_anything(port))
        return input;
    if (port->accepts[1].payload != MR_PAYLOAD_ANY)
        return mr_port_accepts(port, &input, NULL) ? input : port->accepts[0];
    mr_format met;
    return mr_format_meet(&port->accepts[0], &input, &met) ? met : port->accepts[0];
}

/* A stage that answers what it has not announced is wrong itself; the pipeline is not to blame. */
static void check_answer(mr_plan_builder *b, int v, const mr_negotiation *n) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    char given[MR_FORMAT_TEXT];
    if (n->entry < vertex->type->entry)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_INTERNAL, vertex->mark, NULL,
                    "%s: the stage type %s widens how it may be entered", vertex->id, vertex->type->name);
    for (size_t i = 0; i < vertex->output_count; i++)
        if (!mr_port_accepts(&vertex->type->outputs[i], &n->outputs[i], NULL))
            mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_INTERNAL, vertex->mark, NULL,
                        "%s: the stage type %s answers with %s on its output \"%s\", which it does not announce",
                        vertex->id, vertex->type->name, describe(&n->outputs[i], given, sizeof given),
                        vertex->type->outputs[i].name);
}

/* False where the stage refuses. */
static bool ask(mr_plan_builder *b, int v) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    asking context = {.b = b, .vertex = b->vertex[v]};
    mr_negotiation n = {.id = vertex->id,
                        .options = vertex->options,
                        .offline = b->params.offline,
                        .input_count = vertex->input_count,
                        .inputs = vertex->inputs,
                        .batch = vertex->batch,
                        .sources = (int)vertex->source_count,
                        .workers = b->plan->workers,
                        .outputs = vertex->outputs,
                        .entry = vertex->type->entry,
                        .blocking = vertex->type->blocking,
                        .planner = &context};
    int status = vertex->type->negotiate ? vertex->type->negotiate(&n) : MR_OK;
    if (status < 0 && !context.refused)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, status, vertex->mark, NULL, "%s.%s: %s",
                    vertex->is_source ? "sources" : "stages", vertex->id, mr_message());
    if (status < 0 || context.refused)
        return false;
    check_answer(b, v, &n);
    vertex->entry = n.entry;
    vertex->blocking = n.blocking;
    vertex->threads = n.threads;
    vertex->output_buffers = n.retained; /* plan_sizes.c adds the rest */
    return true;
}

/* A source that always gives one kind of thing gives it whatever is wrong with it; what a stage gives
 * hangs on more. */
static bool gives_one_thing(const mr_stage_type *type) {
    return !type->inputs && !accepts_anything(&type->outputs[0]) && !type->outputs[1].name;
}

static int negotiate_vertex(mr_plan_builder *b, int v) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    bool fits = true;
    if (!vertex->type) {
        b->unknown[v] = true;
        return MR_OK;
    }
    if (!vertex->is_source && gather_inputs(b, v, &fits))
        return MR_ERROR_MEMORY;
    vertex->output_count = (size_t)mr_port_count(vertex->type->outputs);
    vertex->outputs = mr_arena_array(b->arena, vertex->output_count, sizeof *vertex->outputs);
    if (!vertex->outputs)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < vertex->output_count; i++)
        vertex->outputs[i] = assume(&vertex->type->outputs[i], vertex);
    vertex->entry = vertex->type->entry;
    /* A stage whose options or inputs are wrong is not asked: it would complain of what is none of its own. */
    bool wrong = b->vertex[v]->broken || !fits;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        wrong = wrong || b->unknown[b->link[b->in.item[i]].from];
    if (!wrong)
        wrong = !ask(b, v);
    b->unknown[v] = wrong && !gives_one_thing(vertex->type);
    return MR_OK;
}

int mr_plan_negotiate(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++)
        if (negotiate_vertex(b, v))
            return MR_ERROR_MEMORY;
    return MR_OK;
}
