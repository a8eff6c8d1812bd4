/* Formats, in three passes over the graph. Forward: each stage gets the possible inputs and answers with its outputs
 * and the inputs that it accepts. Backward: the accepted inputs narrow what earlier stages can choose. Forward again:
 * choices are made, and stages after a choice are asked once more. Each pass looks at every link once. */
#include "engine/planner/negotiate.h"

#include <string.h>

#include "engine/planner/jobs.h"
#include "engine/planner/graph/links.h"
#include "engine/planner/graph/mismatch.h"
#include "engine/planner/nodes.h"

/* ---- inputs --------------------------------------------------------------------------------------------------- */

static mr_planned_output *output_of(const mr_plan_builder *b, const mr_plan_link *link) {
    mr_plan_vertex *from = &b->plan->vertices[link->from];
    return from->outputs ? &from->outputs[link->from_port] : NULL;
}

static void refuse_merge(mr_plan_builder *b, const mr_plan_link *link, const mr_planned_input *with,
                         const mr_format_set *set) {
    char one[MR_FORMAT_SET_TEXT], other[MR_FORMAT_SET_TEXT];
    mr_plan_error(b, link->place, "merge frames of one kind, or join by name: join: {a: ..., b: ...}",
                  "%s merges %s from %s with %s from %s", b->vertex[link->to]->id,
                  mr_plan_describe(set, one, sizeof one), b->vertex[link->from]->id,
                  mr_plan_describe(&with->set, other, sizeof other), with->from);
}

static void merge_results(mr_planned_input *input, const mr_planned_output *output) {
    input->more_results |= output->more_results || input->results != output->results;
    if (input->results != output->results)
        input->results = NULL;
}

/* Adds one link to an input. */
static bool take_link(mr_plan_builder *b, const mr_plan_link *link, mr_planned_input *input, const mr_port *port) {
    static const mr_planned_output nothing_known = {.more_results = true};
    const mr_planned_output *output = output_of(b, link);
    output = output ? output : &nothing_known;
    mr_format_set comes;
    if (!mr_port_accepts(port, &output->set, &comes)) {
        if (!b->unknown[link->from])
            mr_plan_mismatch(b, link, port, NULL, &output->set);
        return false;
    }
    const bool unseen = b->plan->vertices[link->from].type && mr_plan_is_unseen(b, link->from);
    if (!input->from) {
        *input = (mr_planned_input){.port = input->port, .from = b->vertex[link->from]->id, .set = comes,
                                    .settled = !b->hangs[link->from], .unseen = unseen, .results = output->results,
                                    .operation = output->operation,
                                    .more_results = output->more_results};
        return true;
    }
    merge_results(input, output);
    if (input->operation && (!output->operation || strcmp(input->operation, output->operation) != 0))
        input->operation = NULL;
    input->settled &= !b->hangs[link->from];
    input->unseen |= unseen;
    if (mr_format_set_widen(&input->set, &comes))
        return true;
    if (mr_port_accepts_anything(port) || b->unknown[link->from]) {
        input->set = (mr_format_set){0};
        return true;
    }
    refuse_merge(b, link, input, &comes);
    return false;
}

/* The mean over all of an input's links, and the most references; not known if one link's is not. Stills if all links
 * carry stills. */
static void note_typical(const mr_plan_builder *b, int v, int port, mr_planned_input *input) {
    int64_t pixels = 0, links = 0, references = 0;
    bool sized = true, counted = true, stills = true;
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
        stills = stills && output->stills;
    }
    input->mean_pixels = links && sized ? pixels / links : 0;
    input->references = counted ? (int)references : 0;
    input->stills = links && stills;
}

static bool read_inputs(mr_plan_builder *b, int v, mr_planned_input *inputs) {
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

static void set_inputs(mr_plan_vertex *vertex, mr_planned_input *inputs) {
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
    *fits = read_inputs(b, v, inputs);
    /* A port whose input was not found, which is diagnosed, is not negotiated. */
    for (size_t i = 0; i < count; i++)
        *fits = *fits && inputs[i].from;
    vertex->input_count = count;
    set_inputs(vertex, inputs);
    return MR_OK;
}

/* ---- outputs -------------------------------------------------------------------------------------------------- */

/* An output before the stage is asked: the port's only format, or the input's. */
static void assume(mr_plan_vertex *vertex, size_t port) {
    const mr_port *said = &vertex->type->outputs[port];
    const mr_planned_input *input = vertex->input_count ? &vertex->inputs[0] : NULL;
    mr_planned_output *output = &vertex->outputs[port];
    *output = (mr_planned_output){.follows = -1, .shares = -1};
    if (input) {
        output->results = input->results;
        output->more_results = input->more_results;
        output->mean_pixels = input->mean_pixels;
        output->references = input->references;
        output->stills = input->stills;
        output->shares = vertex->type->negotiate || vertex->type->map ? -1 : 0;
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

/* A source with only one kind of output has it despite any error; a stage's output depends on more. */
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

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Backward: the inputs that stages accept narrow what earlier ones can choose. A stage accepts an input that it passes
 * on as later stages do. An output that is neither chosen nor passed on is fixed, and must be accepted whole. */
/* The key in which the vertex names that input. */
static mr_location place_of(const mr_plan_builder *b, int v, int input) {
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        if (b->link[b->in.item[i]].to_port == input)
            return b->link[b->in.item[i]].place;
    return b->plan->vertices[v].mark;
}

/* Intersects a need with another: `met`, and the vertex that sets it if the result is smaller than before. */
static void take_over(mr_plan_need *need, const mr_plan_need *other, const mr_format_set *met) {
    bool less = !mr_format_set_holds(met, &need->set);
    bool unread = need->unread || other->unread;
    if (less)
        *need = *other;
    need->set = *met;
    need->unread = unread;
}

/* The first of the consumers before `until` that does not fit it; NULL if it fits each but not all. */
static const mr_plan_need *opponent(const mr_plan_builder *b, int v, const mr_plan_link *until,
                                    const mr_plan_need *need) {
    mr_format_set met;
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->out.item[i]];
        if (link == until)
            break;
        if (link->from_port != until->from_port || !b->asked[link->to] || b->unknown[link->to])
            continue;
        const mr_plan_need *other = &b->needs[link->to][link->to_port];
        if (!mr_format_set_meet(&other->set, &need->set, &met))
            return other;
    }
    return NULL;
}

/* The formats that one consumer accepts for an output that can be narrowed. */
static void narrow_by(mr_plan_builder *b, int v, const mr_plan_link *link, mr_plan_need *narrowed,
                      const mr_plan_need *need) {
    const mr_format_set *given = &b->plan->vertices[v].outputs[link->from_port].set;
    mr_format_set met;
    if (mr_format_set_meet(&narrowed->set, &need->set, &met))
        take_over(narrowed, need, &met);
    else if (!mr_format_set_meet(given, &need->set, &met))
        mr_plan_mismatch(b, link, mr_plan_port(b, link->to, link->to_port), need, given);
    else {
        const mr_plan_need *other = opponent(b, v, link, need);
        mr_plan_conflict(b, link, other ? other : narrowed, need);
    }
}

static void ask_for(mr_plan_builder *b, int v, const mr_plan_link *link) {
    mr_planned_output *output = &b->plan->vertices[v].outputs[link->from_port];
    const mr_plan_need *need = &b->needs[link->to][link->to_port];
    mr_format_set met;
    if (output->chosen)
        narrow_by(b, v, link, &b->wanted[v][link->from_port], need);
    else if (output->follows >= 0)
        narrow_by(b, v, link, &b->needs[v][output->follows], need);
    else if (!mr_format_set_meet(&output->set, &need->set, &met) || mr_format_set_exceeds(&output->set, &need->set))
        mr_plan_mismatch(b, link, mr_plan_port(b, link->to, link->to_port), need, &output->set);
}

/* Begins with each stage's own inputs and outputs. */
static void begin(mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    for (size_t i = 0; b->needs[v] && i < vertex->input_count; i++)
        b->needs[v][i].place = place_of(b, v, (int)i);
    for (size_t i = 0; b->wanted[v] && i < vertex->output_count; i++)
        b->wanted[v][i] = (mr_plan_need){.set = vertex->outputs[i].set, .by = v, .place = vertex->mark};
}

static void leave_open(mr_plan_builder *b, int v, const mr_plan_link *link) {
    const mr_planned_output *output = &b->plan->vertices[v].outputs[link->from_port];
    b->wanted[v][link->from_port].unread = true;
    if (output->follows >= 0)
        b->needs[v][output->follows].unread = true;
}

static void narrow(mr_plan_builder *b) {
    for (int v = b->count - 1; v >= 0; v--) {
        begin(b, v);
        for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
            const mr_plan_link *link = &b->link[b->out.item[i]];
            if (!b->asked[v] || b->unknown[v])
                continue;
            if (b->asked[link->to] && !b->unknown[link->to])
                ask_for(b, v, link);
            else
                leave_open(b, v, link);
        }
    }
}

/* ---- choosing -------------------------------------------------------------------------------------------------- */

/* The first member in the order of preference; a set with only one, or an open one, stays. */
static uint32_t prefer(uint32_t members, const int *order, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (members & MR_IN_SET(order[i]))
            return MR_IN_SET(order[i]);
    return members & -members;
}

static void choose(mr_plan_builder *b, int v, size_t port) {
    static const int dtypes[] = {MR_DTYPE_F32, MR_DTYPE_F16, MR_DTYPE_U8};
    static const int layouts[] = {MR_LAYOUT_NCHW, MR_LAYOUT_NHWC, MR_LAYOUT_FLAT};
    char text[MR_FORMAT_SET_TEXT];
    mr_planned_output *output = &b->plan->vertices[v].outputs[port];
    mr_format_set *set = &output->set;
    set->dtypes = prefer(set->dtypes, dtypes, 3);
    set->layouts = prefer(set->layouts, layouts, 3);
    set->pixels = prefer(set->pixels, NULL, 0);
    if (mr_format_set_is_fixed(set) || output->ranges || b->wanted[v][port].unread)
        return;
    b->unknown[v] = true;
    mr_plan_error(b, b->plan->vertices[v].mark, output->unfixed,
                  "%s can give any %s, and no stage after it determines which", b->vertex[v]->id,
                  mr_plan_describe(set, text, sizeof text));
}

/* Whether frames may have sizes that are not wanted. */
static bool has_sizes_beyond(const mr_format_set *set, const mr_format_set *wanted) {
    mr_format_set sizes = *set;
    sizes.dtypes = sizes.layouts = sizes.pixels = 0;
    return mr_format_set_exceeds(&sizes, wanted);
}

/* Compares the stage's second answer with the formats that later stages accept. */
static void check_choice(mr_plan_builder *b, int v, size_t port) {
    mr_planned_output *output = &b->plan->vertices[v].outputs[port];
    mr_format_set met;
    if (mr_format_set_meet(&output->set, &b->wanted[v][port].set, &met) &&
        !(output->ranges && has_sizes_beyond(&output->set, &b->wanted[v][port].set))) {
        output->set = met;
        choose(b, v, port);
        return;
    }
    b->unknown[v] = true;
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->out.item[i]];
        const mr_plan_need *need = &b->needs[link->to][link->to_port];
        if (link->from_port == (int)port && (!mr_format_set_meet(&output->set, &need->set, &met) ||
                                             (output->ranges && has_sizes_beyond(&output->set, &need->set))))
            mr_plan_mismatch(b, link, mr_plan_port(b, link->to, link->to_port), need, &output->set);
    }
}

static bool has_choice(const mr_plan_vertex *vertex) {
    for (size_t i = 0; i < vertex->output_count; i++)
        if (vertex->outputs[i].chosen)
            return true;
    return false;
}

/* ---- asking again ---------------------------------------------------------------------------------------------- */

/* Whether the stage already knew that exactly these inputs would arrive: then the answer still holds. */
static bool foresaw(const mr_plan_builder *b, int v, size_t input, const mr_planned_input *comes) {
    const mr_plan_need *need = &b->needs[v][input];
    return need->by == v && mr_format_set_is_fixed(&need->set) &&
           b->plan->vertices[v].inputs[input].results == comes->results;
}

/* Reads the inputs anew. *again: the stage must be asked again, because they differ. */
static int refresh(mr_plan_builder *b, int v, bool *again) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    mr_planned_input *inputs = mr_arena_array(b->arena, vertex->input_count, sizeof *inputs);
    if (!inputs)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < vertex->input_count; i++)
        inputs[i].port = vertex->inputs[i].port;
    read_inputs(b, v, inputs);
    for (size_t i = 0; i < vertex->input_count; i++) {
        bool same = mr_format_set_holds(&inputs[i].set, &vertex->inputs[i].set) &&
                    inputs[i].results == vertex->inputs[i].results;
        *again = *again || !(same || foresaw(b, v, i, &inputs[i]));
    }
    set_inputs(vertex, inputs);
    for (size_t i = 0; i < vertex->output_count; i++)
        if (vertex->outputs[i].follows >= 0)
            vertex->outputs[i].set = inputs[vertex->outputs[i].follows].set;
    return MR_OK;
}

static void ask_again(mr_plan_builder *b, int v) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    mr_plan_assume_outputs(vertex);
    for (size_t i = 0; i < vertex->output_count; i++)
        vertex->outputs[i].wanted = &b->wanted[v][i].set;
    b->unknown[v] = !mr_plan_ask(b, v);
}

/* No input can be checked after a stage whose output is unknown. */
static bool is_behind_unknown(const mr_plan_builder *b, int v) {
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        if (b->unknown[b->link[b->in.item[i]].from])
            return true;
    return false;
}

static int make_choices(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        if (!b->hangs[v])
            continue;
        b->hangs[v] = false;
        b->unknown[v] = b->unknown[v] || is_behind_unknown(b, v);
        if (!b->asked[v] || b->unknown[v])
            continue;
        bool again = has_choice(vertex);
        if (refresh(b, v, &again))
            return MR_ERROR_MEMORY;
        if (again)
            ask_again(b, v);
        for (size_t i = 0; !b->unknown[v] && i < vertex->output_count; i++)
            if (vertex->outputs[i].chosen)
                check_choice(b, v, i);
    }
    return MR_OK;
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
    vertex->calls.entry = vertex->type->entry;
    if (mr_plan_is_not_asked(b, v)) {
        b->asked[v] = !b->vertex[v]->broken;
        return MR_OK;
    }
    /* A stage with wrong options or inputs is not asked: it would complain about errors that it did not cause. */
    bool files = mr_plan_has_files(b, v);
    bool wrong = b->vertex[v]->broken || !fits || !files;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        wrong = wrong || b->unknown[b->link[b->in.item[i]].from];
    b->asked[v] = !wrong;
    if (!wrong)
        wrong = !mr_plan_ask(b, v);
    if (b->vertex[v]->reserved)
        vertex->offer.frames = 0;
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

/* For cuts, over which more may arrive than was planned. */
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
    narrow(b);
    /* A choice for stages that do not fit would only be reported once more. */
    if (b->diagnostics->errors == errors && make_choices(b))
        return MR_ERROR_MEMORY;
    int status = note_formats(b);
    return status ? status : note_takes(b);
}
