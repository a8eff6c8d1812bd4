/* Forward again: choices are made, and stages that could only say then what they give are asked once more. */
#include "engine/plan/negotiate.h"
#include "millrace/status.h"

/* ---- choosing -------------------------------------------------------------------------------------------------- */

/* The first member in the order of preference; what has only one, or is open, stays. */
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
    if (mr_format_set_is_fixed(set) || b->wanted[v][port].unread)
        return;
    b->unknown[v] = true;
    mr_plan_error(b, b->plan->vertices[v].mark, output->unfixed,
                  "%s can give any %s, and no stage behind it says which", b->vertex[v]->id,
                  mr_plan_describe(set, text, sizeof text));
}

/* The stage's second answer beside what those behind it take. */
static void check_choice(mr_plan_builder *b, int v, size_t port) {
    mr_planned_output *output = &b->plan->vertices[v].outputs[port];
    mr_format_set met;
    if (mr_format_set_meet(&output->set, &b->wanted[v][port].set, &met)) {
        output->set = met;
        choose(b, v, port);
        return;
    }
    b->unknown[v] = true;
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->out.item[i]];
        const mr_plan_need *need = &b->needs[link->to][link->to_port];
        if (link->from_port == (int)port && !mr_format_set_meet(&output->set, &need->set, &met))
            mr_plan_misfit(b, link, mr_plan_port(b, link->to, link->to_port), need, &output->set);
    }
}

static bool has_choice(const mr_plan_vertex *vertex) {
    for (size_t i = 0; i < vertex->output_count; i++)
        if (vertex->outputs[i].chosen)
            return true;
    return false;
}

/* ---- asking again ---------------------------------------------------------------------------------------------- */

/* Whether the stage knew already that exactly this would come: then what it answered still holds. */
static bool foresaw(const mr_plan_builder *b, int v, size_t input, const mr_planned_input *comes) {
    const mr_plan_need *need = &b->needs[v][input];
    return need->by == v && mr_format_set_is_fixed(&need->set) &&
           b->plan->vertices[v].inputs[input].results == comes->results;
}

/* Reads the inputs anew. *again: the stage must be asked about what comes now. */
static int refresh(mr_plan_builder *b, int v, bool *again) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    mr_planned_input *inputs = mr_arena_array(b->arena, vertex->input_count, sizeof *inputs);
    if (!inputs)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < vertex->input_count; i++)
        inputs[i].port = vertex->inputs[i].port;
    mr_plan_read_inputs(b, v, inputs);
    for (size_t i = 0; i < vertex->input_count; i++) {
        bool same = mr_format_set_holds(&inputs[i].set, &vertex->inputs[i].set) &&
                    inputs[i].results == vertex->inputs[i].results;
        *again = *again || !(same || foresaw(b, v, i, &inputs[i]));
    }
    mr_plan_set_inputs(vertex, inputs);
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

/* Of what stands behind a stage that nobody knows the output of nothing can be said, for or against it. */
static bool is_behind_unknown(const mr_plan_builder *b, int v) {
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        if (b->unknown[b->link[b->in.item[i]].from])
            return true;
    return false;
}

int mr_plan_choose(mr_plan_builder *b) {
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
