/* Backward: what stages take narrows what those before them may choose. What a stage passes on it takes as those
 * behind it do; what is neither chosen nor passed on comes as it comes, and must be taken whole. */
#include "engine/plan/negotiate.h"

/* Where the vertex names what comes over that input. */
static mr_place place_of(const mr_plan_builder *b, int v, int input) {
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        if (b->link[b->in.item[i]].to_port == input)
            return b->link[b->in.item[i]].place;
    return b->plan->vertices[v].mark;
}

/* A need met with another: `met`, and whose it is where that is less than before. */
static void take_over(mr_plan_need *need, const mr_plan_need *other, const mr_format_set *met) {
    bool less = !mr_format_set_holds(met, &need->set);
    bool unread = need->unread || other->unread;
    if (less)
        *need = *other;
    need->set = *met;
    need->unread = unread;
}

/* The first of the consumers before `until` that does not fit it; NULL where it fits each but not all. */
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

/* What one consumer takes of an output that can be narrowed. */
static void narrow_by(mr_plan_builder *b, int v, const mr_plan_link *link, mr_plan_need *narrowed,
                      const mr_plan_need *need) {
    const mr_format_set *given = &b->plan->vertices[v].outputs[link->from_port].set;
    mr_format_set met;
    if (mr_format_set_meet(&narrowed->set, &need->set, &met))
        take_over(narrowed, need, &met);
    else if (!mr_format_set_meet(given, &need->set, &met))
        mr_plan_misfit(b, link, mr_plan_port(b, link->to, link->to_port), need, given);
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
        mr_plan_misfit(b, link, mr_plan_port(b, link->to, link->to_port), need, &output->set);
}

/* Begins with what each stage takes and gives itself. */
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

void mr_plan_narrow(mr_plan_builder *b) {
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
