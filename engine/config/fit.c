/* Whether formats fit, and what to say where they do not: both ends, both sets, and the stages that would convert. */
#include <stdio.h>
#include <string.h>

#include "engine/config/plan_builder.h"

/* ---- what ports take ------------------------------------------------------------------------------------------ */

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
    /* Where several sets fit, nothing more is known than before. */
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

/* ---- in words --------------------------------------------------------------------------------------------------- */

static bool says_only_payload(const mr_format_set *set) {
    return !set->codec && !set->pixels && !set->width.max && !set->height.max && !set->dtypes && !set->layouts &&
           !set->rank;
}

const char *mr_plan_describe(const mr_format_set *set, char *text, size_t bytes) {
    static const char *const plural[] = {[MR_PAYLOAD_ANY] = "anything",
                                         [MR_PAYLOAD_PACKET] = "packets",
                                         [MR_PAYLOAD_PICTURE] = "pictures",
                                         [MR_PAYLOAD_TENSOR] = "tensors",
                                         [MR_PAYLOAD_RESULTS] = "results without content"};
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

/* ---- what would convert --------------------------------------------------------------------------------------- */

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

/* A stage type that turns one thing into another: it says what it takes and gives, and has one input. */
static bool converts(const mr_stage_type *type) {
    return type->inputs && type->outputs && !mr_port_accepts_anything(&type->inputs[0]) && !type->inputs[1].name;
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
static const char *conversion(const mr_stage_type *const *types, const mr_format_set *have, const mr_port *wanted,
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

void mr_plan_misfit(mr_plan_builder *b, const mr_plan_link *link, const mr_port *port, const mr_format_set *takes,
                    const mr_format_set *given) {
    const mr_spec_vertex *to = b->vertex[link->to], *from = b->vertex[link->from];
    const mr_format_set narrowed[2] = {takes ? *takes : (mr_format_set){0}};
    const mr_port wanted = {.name = port->name, .accepts = takes ? narrowed : port->accepts};
    char taken[512], comes[MR_FORMAT_SET_TEXT], hint[320];
    mr_plan_error(b, link->place, conversion(b->spec->types, given, &wanted, hint, sizeof hint),
                  "%s takes %s, but %s gives %s", to->id, describe_port(&wanted, taken, sizeof taken), from->id,
                  mr_plan_describe(given, comes, sizeof comes));
}
