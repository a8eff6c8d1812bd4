/* Formats, in three passes over the graph: forward, each stage is told what can come and answers what it gives and
 * takes; backward (needs.c), what stages take narrows what those before them may choose; forward again (choose.c),
 * choices are made and stages behind a choice are asked once more. Each pass looks at every link once. */
#include "engine/plan/negotiate.h"

#include "millrace/status.h"

/* ---- inputs --------------------------------------------------------------------------------------------------- */

static mr_planned_output *output_of(const mr_plan_builder *b, const mr_plan_link *link) {
    mr_plan_vertex *from = &b->plan->vertices[link->from];
    return from->outputs ? &from->outputs[link->from_port] : NULL;
}

static void refuse_merge(mr_plan_builder *b, const mr_plan_link *link, const mr_planned_input *with,
                         const mr_format_set *set) {
    char one[MR_FORMAT_SET_TEXT], other[MR_FORMAT_SET_TEXT];
    mr_plan_error(b, link->place, "merge what is of one kind, or join by name: join: {a: ..., b: ...}",
                  "%s merges %s from %s with %s from %s", b->vertex[link->to]->id,
                  mr_plan_describe(set, one, sizeof one), b->vertex[link->from]->id,
                  mr_plan_describe(&with->set, other, sizeof other), with->from);
}

static void merge_results(mr_planned_input *input, const mr_planned_output *output) {
    input->more_results |= output->more_results || input->results != output->results;
    if (input->results != output->results)
        input->results = NULL;
}

/* Takes one link into the input that it belongs to. */
static bool take_link(mr_plan_builder *b, const mr_plan_link *link, mr_planned_input *input, const mr_port *port) {
    static const mr_planned_output nothing_known = {.more_results = true};
    const mr_planned_output *output = output_of(b, link);
    output = output ? output : &nothing_known;
    mr_format_set comes;
    if (!mr_port_accepts(port, &output->set, &comes)) {
        if (!b->unknown[link->from])
            mr_plan_misfit(b, link, port, NULL, &output->set);
        return false;
    }
    if (!input->from) {
        *input = (mr_planned_input){.port = input->port, .from = b->vertex[link->from]->id, .set = comes,
                                    .settled = !b->hangs[link->from], .results = output->results,
                                    .more_results = output->more_results};
        return true;
    }
    merge_results(input, output);
    input->settled &= !b->hangs[link->from];
    if (mr_format_set_widen(&input->set, &comes))
        return true;
    if (mr_port_accepts_anything(port) || b->unknown[link->from]) {
        input->set = (mr_format_set){0};
        return true;
    }
    refuse_merge(b, link, input, &comes);
    return false;
}

const mr_port *mr_plan_port(const mr_plan_builder *b, int v, int input) {
    const mr_port *ports = b->vertex[v]->type->inputs;
    return &ports[ports[0].many ? 0 : input];
}

/* The mean over all links of an input, and the most references; not known where that of one is not. */
static void note_typical(const mr_plan_builder *b, int v, int port, mr_planned_input *input) {
    int64_t pixels = 0, links = 0, references = 0;
    bool sized = true, counted = true;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        const mr_planned_output *output = output_of(b, link);
        if (link->to_port != port || !output)
            continue;
        links++;
        pixels += output->mean_pixels;
        references = output->references > references ? output->references : references;
        sized = sized && output->mean_pixels > 0;
        counted = counted && output->references > 0;
    }
    input->mean_pixels = links && sized ? pixels / links : 0;
    input->references = counted ? (int)references : 0;
}

bool mr_plan_read_inputs(mr_plan_builder *b, int v, mr_planned_input *inputs) {
    bool fits = true;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        fits = take_link(b, link, &inputs[link->to_port], mr_plan_port(b, v, link->to_port)) && fits;
    }
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        int port = b->link[b->in.item[i]].to_port;
        if (i == b->in.start[v] || port != b->link[b->in.item[i - 1]].to_port)
            note_typical(b, v, port, &inputs[port]);
    }
    return fits;
}

void mr_plan_set_inputs(mr_plan_vertex *vertex, mr_planned_input *inputs) {
    for (size_t i = 0; i < vertex->input_count; i++)
        inputs[i].format = mr_format_set_common(&inputs[i].set);
    vertex->inputs = inputs;
}

static int gather_inputs(mr_plan_builder *b, int v, bool *fits) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    const mr_spec_vertex *spec = b->vertex[v];
    const mr_port *ports = spec->type->inputs;
    bool many = ports[0].many;
    size_t count = !many ? (size_t)mr_port_count(ports) : spec->joins || !ports[0].optional ? spec->input_count : 1;
    mr_planned_input *inputs = mr_arena_array(b->arena, count, sizeof *inputs);
    b->needs[v] = mr_arena_array(b->arena, count, sizeof **b->needs);
    if (!inputs || !b->needs[v])
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        inputs[i].port = !many ? ports[i].name : spec->joins ? spec->inputs[i].port : ports[0].name;
    *fits = mr_plan_read_inputs(b, v, inputs);
    /* A port whose input was not found, which is diagnosed, has nothing to be asked about. */
    for (size_t i = 0; i < count; i++)
        *fits = *fits && inputs[i].from;
    vertex->input_count = count;
    mr_plan_set_inputs(vertex, inputs);
    return MR_OK;
}

/* ---- outputs -------------------------------------------------------------------------------------------------- */

/* What an output is before its stage was asked: the one thing that it can give, or what comes in. */
static void assume(mr_plan_vertex *vertex, size_t port) {
    const mr_port *said = &vertex->type->outputs[port];
    const mr_planned_input *input = vertex->input_count ? &vertex->inputs[0] : NULL;
    mr_planned_output *output = &vertex->outputs[port];
    *output = (mr_planned_output){.follows = -1};
    if (input) {
        output->results = input->results;
        output->more_results = input->more_results;
        output->mean_pixels = input->mean_pixels;
        output->references = input->references;
    }
    if (mr_port_accepts_anything(said)) {
        output->set = input ? input->set : (mr_format_set){0};
        output->follows = input && !vertex->type->negotiate ? 0 : -1;
        return;
    }
    output->set = said->accepts[0];
    if (input && said->accepts[1].payload && mr_port_accepts(said, &input->set, NULL))
        output->set = input->set;
    else if (input)
        mr_format_set_meet(&said->accepts[0], &input->set, &output->set);
}

void mr_plan_assume_outputs(mr_plan_vertex *vertex) {
    for (size_t i = 0; i < vertex->output_count; i++)
        assume(vertex, i);
}

static int make_outputs(mr_plan_builder *b, int v) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    vertex->output_count = (size_t)mr_port_count(vertex->type->outputs);
    vertex->outputs = mr_arena_array(b->arena, vertex->output_count, sizeof *vertex->outputs);
    b->wanted[v] = mr_arena_array(b->arena, vertex->output_count, sizeof **b->wanted);
    if (!vertex->outputs || !b->wanted[v])
        return MR_ERROR_MEMORY;
    mr_plan_assume_outputs(vertex);
    return MR_OK;
}

/* A source that always gives one kind of thing gives it whatever is wrong with it; what a stage gives
 * hangs on more. */
static bool gives_one_thing(const mr_stage_type *type) {
    return !type->inputs && !mr_port_accepts_anything(&type->outputs[0]) && !type->outputs[1].name;
}

static bool hangs_on_choice(const mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    for (size_t i = 0; i < vertex->output_count; i++)
        if (vertex->outputs[i].chosen)
            return true;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        if (b->hangs[b->link[b->in.item[i]].from])
            return true;
    return false;
}

/* ---- forward -------------------------------------------------------------------------------------------------- */

static int negotiate_vertex(mr_plan_builder *b, int v) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    bool fits = true;
    if (!vertex->type) {
        b->unknown[v] = true;
        return MR_OK;
    }
    if ((vertex->role != MR_ROLE_SOURCE && gather_inputs(b, v, &fits)) || make_outputs(b, v))
        return MR_ERROR_MEMORY;
    vertex->entry = vertex->type->entry;
    /* A stage whose options or inputs are wrong is not asked: it would complain of what is none of its own. */
    bool files = mr_plan_check_files(b, v);
    bool wrong = b->vertex[v]->broken || !fits || !files;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        wrong = wrong || b->unknown[b->link[b->in.item[i]].from];
    b->asked[v] = !wrong;
    if (!wrong)
        wrong = !mr_plan_ask(b, v);
    b->unknown[v] = wrong && !gives_one_thing(vertex->type);
    b->hangs[v] = hangs_on_choice(b, v);
    return MR_OK;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

static int note_formats(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        vertex->formats = mr_arena_array(b->arena, vertex->output_count, sizeof *vertex->formats);
        if (!vertex->formats)
            return MR_ERROR_MEMORY;
        for (size_t i = 0; i < vertex->output_count; i++)
            vertex->formats[i] = mr_format_set_common(&vertex->outputs[i].set);
    }
    return MR_OK;
}

/* For cuts, over which more may come than was planned. */
static int note_takes(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        mr_format_set *takes = mr_arena_array(b->arena, vertex->input_count, sizeof *takes);
        if (!takes)
            return MR_ERROR_MEMORY;
        for (size_t i = 0; b->needs[v] && i < vertex->input_count; i++)
            takes[i] = b->needs[v][i].set;
        vertex->takes = takes;
    }
    return MR_OK;
}

int mr_plan_negotiate(mr_plan_builder *b) {
    b->asked = mr_arena_array(b->arena, (size_t)b->count, sizeof *b->asked);
    b->needs = mr_arena_array(b->arena, (size_t)b->count, sizeof *b->needs);
    b->wanted = mr_arena_array(b->arena, (size_t)b->count, sizeof *b->wanted);
    b->hangs = mr_arena_array(b->arena, (size_t)b->count, sizeof *b->hangs);
    if (!b->asked || !b->needs || !b->wanted || !b->hangs)
        return MR_ERROR_MEMORY;
    size_t errors = b->diagnostics->errors;
    for (int v = 0; v < b->count; v++) {
        if (v == (int)b->spec->source_count)
            mr_plan_fill_unreadable(b);
        if (negotiate_vertex(b, v))
            return MR_ERROR_MEMORY;
    }
    mr_plan_narrow(b);
    /* What is chosen for stages that do not fit would only be complained of once more. */
    if (b->diagnostics->errors == errors && mr_plan_choose(b))
        return MR_ERROR_MEMORY;
    int status = note_formats(b);
    return status ? status : note_takes(b);
}
