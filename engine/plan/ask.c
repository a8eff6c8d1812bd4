/* Asking one stage: told what can come in, it answers what comes out and what it takes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/plan/negotiate.h"
#include "engine/text/options.h"
#include "engine/text/paths.h"
#include "millrace/status.h"

/* What mr_refuse and mr_promise_result need to know of the stage that is being asked. */
typedef struct asking {
    mr_plan_builder *b;
    const mr_spec_vertex *vertex;
    int v;
    mr_plan_need *needs;
    bool refused;
} asking;

/* ---- what a stage type may call -------------------------------------------------------------------------------- */

/* A file that is not there may be looked for in another folder than its author thinks. */
static const char *hint_for(const asking *ask, int status, const char *name, const mr_yaml *node) {
    const mr_option *option = name ? mr_option_find(ask->vertex->type->options, name) : NULL;
    if (status != MR_ERROR_NO_INPUT || !option || node == ask->vertex->node)
        return NULL;
    return mr_path_hint(ask->b->arena, ask->b->spec->file, option, node);
}

static int refuse(mr_negotiation *negotiation, int status, const char *option, const char *format,
                  va_list arguments) {
    asking *ask = negotiation->planner;
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    mr_place place = ask->vertex->place;
    const mr_yaml *node = option ? mr_yaml_nearest(ask->vertex->node, option) : ask->vertex->node;
    if (node != ask->vertex->node)
        place = node->place;
    ask->refused = true;
    /* One video of many that is broken, or gone, is no reason to do without the others. */
    bool spared = status != MR_ERROR_CONFIG && status != MR_ERROR_MEMORY && mr_plan_may_spare(ask->b, ask->v);
    ask->b->plan->vertices[ask->v].unreadable = spared;
    return mr_diagnose(ask->b->diagnostics, spared ? MR_SEVERITY_WARNING : MR_SEVERITY_ERROR, status, place,
                       spared ? "the others are read; in the end the run fails for this one" 
                              : hint_for(ask, status, option, node), "%s.%s: %s",
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

void mr_take(mr_negotiation *negotiation, size_t input, const mr_format_set *set, const char *why, ...) {
    asking *ask = negotiation->planner;
    char text[256];
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(text, sizeof text, why, arguments);
    va_end(arguments);
    negotiation->takes[input] = *set;
    /* Where memory has run out, the message does without. */
    ask->needs[input].why = mr_arena_print(ask->b->arena, "%s", text);
}

void mr_leave_uncounted(mr_negotiation *negotiation, const char *what, ...) {
    const asking *ask = negotiation->planner;
    char text[512];
    va_list arguments;
    va_start(arguments, what);
    vsnprintf(text, sizeof text, what, arguments);
    va_end(arguments);
    /* Where memory has run out, it is still said that something is. */
    const char *copy = mr_arena_print(ask->b->arena, "%s", text);
    negotiation->work.unknown = copy ? copy : "some of it is not counted";
}

int mr_promise_result(mr_negotiation *negotiation, size_t port, mr_result_kind kind, const char *name,
                      const mr_format_set *set) {
    asking *ask = negotiation->planner;
    mr_planned_result *result = mr_arena_alloc(ask->b->arena, sizeof *result);
    const char *copy = name ? mr_arena_print(ask->b->arena, "%s", name) : NULL;
    if (!result || (name && !copy))
        return mr_fail(MR_ERROR_MEMORY, "no memory for a plan");
    mr_planned_output *output = &negotiation->outputs[port];
    *result = (mr_planned_result){.kind = kind, .name = copy, .next = output->results};
    if (set)
        result->set = *set;
    output->results = result;
    return MR_OK;
}

/* ---- what the answer is worth ---------------------------------------------------------------------------------- */

/* A stage that answers what it has not announced is wrong itself; the pipeline is not to blame. */
static void check_answer(mr_plan_builder *b, int v, const mr_negotiation *n) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    char given[MR_FORMAT_SET_TEXT];
    if (n->entry < vertex->type->entry)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_INTERNAL, vertex->mark, NULL,
                    "%s: the stage type %s widens how it may be entered", vertex->id, vertex->type->name);
    for (size_t i = 0; i < vertex->output_count; i++)
        if (!mr_port_accepts(&vertex->type->outputs[i], &n->outputs[i].set, NULL))
            mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_INTERNAL, vertex->mark, NULL,
                        "%s: the stage type %s answers with %s on its output \"%s\", which it does not announce",
                        vertex->id, vertex->type->name, mr_plan_describe(&n->outputs[i].set, given, sizeof given),
                        vertex->type->outputs[i].name);
}

/* What of an input the stage has answered that it takes, where that is less than its port accepts. */
static bool check_takes(mr_plan_builder *b, int v) {
    mr_format_set met;
    bool fits = true;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        const mr_planned_output *given = &b->plan->vertices[link->from].outputs[link->from_port];
        const mr_plan_need *need = &b->needs[v][link->to_port];
        if (mr_format_set_meet(&given->set, &need->set, &met))
            continue;
        mr_plan_misfit(b, link, mr_plan_port(b, v, link->to_port), need, &given->set);
        fits = false;
    }
    return fits;
}

/* Before it is asked, a stage takes what its ports accept of what comes. */
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

static void take_answer(mr_plan_vertex *vertex, const mr_negotiation *n) {
    vertex->entry = n->entry;
    vertex->blocking = n->blocking;
    vertex->threads = n->threads;
    vertex->rate = n->rate;
    vertex->paced = n->paced;
    vertex->frames = n->frames;
    vertex->endless = n->endless;
    vertex->retained = n->retained;
    vertex->constant_bytes = n->constant_bytes;
    vertex->work = n->work;
    memcpy(vertex->stream_bytes, n->stream_bytes, sizeof vertex->stream_bytes);
    vertex->library_bytes = n->library_bytes;
    vertex->scratch.bytes = n->scratch_bytes;
    vertex->pinned.bytes = n->pinned_bytes;
    vertex->results.bytes = n->result_bytes;
    for (size_t i = 0; i < vertex->output_count; i++)
        if (vertex->outputs[i].follows >= 0)
            vertex->outputs[i].set = vertex->inputs[vertex->outputs[i].follows].set;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

/* Whether the file is known not to be there; all else is left to the stage, which opens it. */
static bool is_missing(const mr_option *option, const char *path) {
    struct stat about;
    return path && option->file == MR_FILE_READ && option->kind == MR_OPTION_PATH && !option->searched &&
           stat(path, &about) && (errno == ENOENT || errno == ENOTDIR);
}

bool mr_plan_check_files(mr_plan_builder *b, int v) {
    const mr_spec_vertex *vertex = b->vertex[v];
    bool there = true;
    if (b->params.offline || mr_plan_is_unseen(b, v) || !vertex->type || !vertex->options || vertex->broken)
        return true;
    for (const mr_option *option = vertex->type->options; option && option->name; option++) {
        const mr_yaml *said = mr_yaml_get(vertex->node, option->name);
        const char *path = said ? mr_option_path(option, vertex->options) : NULL;
        if (!path || !is_missing(option, path))
            continue;
        there = false;
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_NO_INPUT, said->place,
                    mr_path_hint(b->arena, b->spec->file, option, said), "stages.%s.%s: cannot open %s: %s", vertex->id,
                    option->name, path, strerror(errno));
    }
    return there;
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

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
                        .options = vertex->options,
                        .offline = b->params.offline || mr_plan_is_unseen(b, v),
                        .returns = b->plan->node_count > 0 && b->plan->node >= 0,
                        .input_count = vertex->input_count,
                        .inputs = vertex->inputs,
                        .batch = vertex->batch,
                        .device = device->count ? device->item[0] : "cpu",
                        .sources = (int)vertex->source_count,
                        .workers = b->plan->workers,
                        .takes = takes,
                        .outputs = vertex->outputs,
                        .entry = vertex->type->entry,
                        .blocking = vertex->type->blocking,
                        .planner = &context};
    if (vertex->role != MR_ROLE_SOURCE)
        prepare_takes(b, v, takes);
    int status = vertex->type->negotiate ? vertex->type->negotiate(&n) : MR_OK;
    note_needs(b, v, &n);
    if (status < 0 && !context.refused)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, status, vertex->mark, NULL, "%s.%s: %s",
                    vertex->role == MR_ROLE_SOURCE ? "sources" : "stages", vertex->id, mr_message());
    if (status < 0 || context.refused || !check_takes(b, v))
        return false;
    take_answer(vertex, &n);
    check_answer(b, v, &n);
    return true;
}
