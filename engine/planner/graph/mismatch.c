/* Whether formats fit, formats in words, and the message if they do not: both ends, both sets, and the fix. */
#include "engine/planner/graph/mismatch.h"

#include <stdio.h>
#include <string.h>

#include "engine/planner/graph/builder.h"

/* ---- formats that ports accept -------------------------------------------------------------------------------- */

bool mr_port_accepts_anything(const mr_port *port) {
    return !port->accepts || port->accepts[0].payload == MR_PAYLOAD_ANY;
}

bool mr_port_accepts(const mr_port *port, const mr_format_set *set, mr_format_set *met) {
    mr_format_set common, only = *set;
    int fitting = 0;
    for (const mr_format_set *one = port->accepts; !mr_port_accepts_anything(port) && one->payload; one++)
        if (mr_format_set_meet(set, one, &common)) {
            only = common;
            fitting++;
        }
    /* If several sets fit, nothing more is known than before. */
    if (met)
        *met = fitting == 1 ? only : *set;
    return fitting > 0 || mr_port_accepts_anything(port);
}

static bool members_exceed(uint32_t come, uint32_t taken) {
    return come && taken && (come & ~taken);
}

static bool bounds_exceed(mr_bounds come, mr_bounds taken) {
    return come.max && taken.max && (come.min < taken.min || come.max > taken.max);
}

bool mr_format_set_exceeds(const mr_format_set *comes, const mr_format_set *taken) {
    bool exceeds = members_exceed(comes->pixels, taken->pixels) || bounds_exceed(comes->width, taken->width) ||
                   bounds_exceed(comes->height, taken->height) || members_exceed(comes->dtypes, taken->dtypes) ||
                   members_exceed(comes->layouts, taken->layouts);
    for (int i = 0; comes->rank == taken->rank && i < comes->rank; i++)
        exceeds = exceeds || bounds_exceed(comes->dims[i], taken->dims[i]);
    return exceeds;
}

/* ---- in words -------------------------------------------------------------------------------------------------- */

static bool says_only_payload(const mr_format_set *set) {
    return !set->codec && !set->pixels && !set->width.max && !set->height.max && !set->dtypes && !set->layouts &&
           !set->rank;
}

const char *mr_plan_describe(const mr_format_set *set, char *text, size_t bytes) {
    static const char *const plural[] = {[MR_PAYLOAD_ANY] = "anything",
                                         [MR_PAYLOAD_PACKET] = "packets",
                                         [MR_PAYLOAD_PICTURE] = "pictures",
                                         [MR_PAYLOAD_TENSOR] = "tensors",
                                         [MR_PAYLOAD_RESULTS] = "results alone"};
    if (!says_only_payload(set))
        return mr_format_set_print(set, text, bytes);
    snprintf(text, bytes, "%s", plural[set->payload]);
    return text;
}

static const char *describe_port(const mr_port *port, char *text, size_t bytes) {
    char one[MR_FORMAT_SET_TEXT];
    text[0] = 0;
    for (const mr_format_set *set = port->accepts; set->payload; set++) {
        size_t length = strlen(text);
        snprintf(text + length, bytes - length, "%s%s", length ? " or " : "", mr_plan_describe(set, one, sizeof one));
    }
    return text;
}

/* ---- converters ----------------------------------------------------------------------------------------------- */

enum { MAX_TYPES = 64, MAX_STEPS = 3 };

static bool gives(const mr_stage_type *type, const mr_port *wanted) {
    for (const mr_port *port = type->outputs; port && port->name; port++)
        for (const mr_format_set *set = port->accepts; set && set->payload; set++)
            if (mr_port_accepts(wanted, set, NULL))
                return true;
    return false;
}

static bool takes_output_of(const mr_stage_type *type, const mr_stage_type *from) {
    return gives(from, &type->inputs[0]);
}

static void write_chain(const mr_stage_type *const *types, const int *before, int last, char *hint, size_t bytes) {
    char text[256] = "", longer[256];
    for (int at = last; at >= 0; at = before[at]) {
        snprintf(longer, sizeof longer, "%s%s%.150s", types[at]->name, *text ? ", then " : "", text);
        memcpy(text, longer, sizeof text);
    }
    snprintf(hint, bytes, "put a stage of type %s between them", text);
}

/* The shortest chain of at most MAX_STEPS types that converts `have` to formats in `wanted`; NULL if there is none. */
static const char *conversion(const mr_stage_type *const *types, const mr_format_set *have, const mr_port *wanted,
                              char *hint, size_t bytes) {
    int queue[MAX_TYPES], before[MAX_TYPES], steps[MAX_TYPES] = {0}, found = 0;
    for (int t = 0; types[t] && t < MAX_TYPES; t++)
        if (types[t]->converts && mr_port_accepts(&types[t]->inputs[0], have, NULL)) {
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
            if (steps[t] == 0 && types[t]->converts && takes_output_of(types[t], types[at])) {
                before[t] = at;
                steps[t] = steps[at] + 1;
                queue[found++] = t;
            }
    }
    return NULL;
}

/* ---- the fix --------------------------------------------------------------------------------------------------- */

/* The vertex whose output arrives here, through those that only pass it on; -1 if several are merged on the way. */
static int origin_of(const mr_plan_builder *b, int v, int port) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    int input = vertex->outputs ? vertex->outputs[port].follows : -1, only = -1;
    if (input < 0)
        return v;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        if (link->to_port != input)
            continue;
        if (only >= 0)
            return -1;
        only = b->in.item[i];
    }
    return only < 0 ? -1 : origin_of(b, b->link[only].from, b->link[only].from_port);
}

static bool is_of_kind(const mr_port *wanted, const mr_format_set *given) {
    for (const mr_format_set *set = wanted->accepts; set && set->payload; set++)
        if (set->payload == given->payload)
            return true;
    return false;
}

/* A stage before, or the source, on the only way here, whose output arrives unchanged; -1 if there is none. */
static int fitting_before(const mr_plan_builder *b, int v, const mr_port *wanted) {
    while (b->in.start[v + 1] - b->in.start[v] == 1) {
        const mr_plan_link *link = &b->link[b->in.item[b->in.start[v]]];
        const mr_plan_vertex *from = &b->plan->vertices[link->from];
        v = link->from;
        if (!b->unknown[v] && link->from_port == 0 && from->outputs &&
            mr_port_accepts(wanted, &from->outputs[0].set, NULL))
            return v;
    }
    return -1;
}

/* The only producer for a stage, such as filter, that adds nothing to frames and so can only choose among them; -1: it
 * is no such stage. */
static int chosen_from(const mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    if (b->in.start[v + 1] - b->in.start[v] != 1 || vertex->input_count != 1 || vertex->output_count != 1 ||
        vertex->outputs[0].follows != 0 || vertex->outputs[0].results != vertex->inputs[0].results)
        return -1;
    return b->link[b->in.item[b->in.start[v]]].from;
}

static const char *advise_before(const mr_plan_builder *b, const mr_plan_link *link, const mr_port *wanted, char *hint,
                                 size_t bytes) {
    int before = fitting_before(b, link->from, wanted), other = chosen_from(b, link->from);
    if (before < 0)
        return NULL;
    if (other < 0 || other == before)
        snprintf(hint, bytes, "use an earlier stage: write input: %s", b->vertex[before]->id);
    else
        snprintf(hint, bytes,
                 "put a join before %s: seen: {type: join, join: {a: %s, b: %s}}, and write input: seen in %s",
                 b->vertex[link->from]->id, b->vertex[before]->id, b->vertex[other]->id, b->vertex[link->from]->id);
    return hint;
}

/* Producer options, if they can make it fit; else stages that would convert. A stage in between cannot convert a format
 * that is one kind. */
static const char *advise(const mr_plan_builder *b, const mr_plan_link *link, const mr_port *wanted,
                          const mr_format_set *given, char *hint, size_t bytes) {
    char options[256];
    int origin = origin_of(b, link->from, link->from_port);
    const mr_plan_vertex *vertex = origin < 0 ? NULL : &b->plan->vertices[origin];
    if (!is_of_kind(wanted, given)) {
        const char *chain = conversion(b->spec->types, given, wanted, hint, bytes);
        return chain ? chain : advise_before(b, link, wanted, hint, bytes);
    }
    if (!vertex || !vertex->type->suggest ||
        !vertex->type->suggest(vertex->options, &wanted->accepts[0], options, sizeof options))
        return NULL;
    snprintf(hint, bytes, "write %s in %s", options, vertex->id);
    return hint;
}

static const char *describe_why(const mr_plan_need *need, char *text, size_t bytes) {
    bool reported = need && need->why;
    snprintf(text, bytes, "%s%s%s", reported ? " (" : "", reported ? need->why : "", reported ? ")" : "");
    return text;
}

void mr_plan_mismatch(mr_plan_builder *b, const mr_plan_link *link, const mr_port *port, const mr_plan_need *need,
                    const mr_format_set *given) {
    const mr_format_set narrowed[2] = {need ? need->set : (mr_format_set){0}};
    const mr_port wanted = {.name = port->name, .accepts = need ? narrowed : port->accepts};
    bool passed_on = need && need->by != link->to;
    const char *to = b->vertex[passed_on ? need->by : link->to]->id;
    const mr_format_set kind = {.payload = given->payload}; /* if that is wrong already, no more is reported */
    char taken[512], why[512], comes[MR_FORMAT_SET_TEXT], hint[320];
    mr_plan_error(b, passed_on ? need->place : link->place, advise(b, link, &wanted, given, hint, sizeof hint),
                  "%s takes %s%s, but %s gives %s", to, describe_port(&wanted, taken, sizeof taken),
                  describe_why(need, why, sizeof why), b->vertex[link->from]->id,
                  mr_plan_describe(is_of_kind(&wanted, given) ? given : &kind, comes, sizeof comes));
}

void mr_plan_conflict(mr_plan_builder *b, const mr_plan_link *link, const mr_plan_need *one,
                      const mr_plan_need *other) {
    char first[MR_FORMAT_SET_TEXT], second[MR_FORMAT_SET_TEXT], why_first[512], why_second[512], hint[320];
    int origin = origin_of(b, link->from, link->from_port);
    const mr_plan_vertex *from = &b->plan->vertices[origin < 0 ? link->from : origin];
    snprintf(hint, sizeof hint, "give each of them its own %s of type %s",
             from->role == MR_ROLE_SOURCE ? "source" : "stage", from->type->name);
    mr_plan_error(b, other->place, hint, "%s takes %s%s and %s takes %s%s, but both read the output of %s",
                  b->vertex[one->by]->id, mr_plan_describe(&one->set, first, sizeof first),
                  describe_why(one, why_first, sizeof why_first), b->vertex[other->by]->id,
                  mr_plan_describe(&other->set, second, sizeof second),
                  describe_why(other, why_second, sizeof why_second), from->id);
}
