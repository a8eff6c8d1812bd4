#include "engine/flow/run/resume_plan.h"

#include <string.h>
#include <xxhash.h>

#include "engine/base/memory.h"
#include "engine/plan/renewal.h"
#include "engine/text/options.h"

/* ---- plans that cannot be resumed ------------------------------------------------------------------------------ */

static int refuse(const mr_plan_vertex *vertex, const char *why) {
    return mr_fail(MR_ERROR_CONFIG, "%s: %s: %s", vertex->place, vertex->id, why);
}

static int check_sinks(const mr_plan *plan) {
    for (size_t v = plan->source_count; v < plan->vertex_count; v++) {
        const mr_plan_vertex *vertex = &plan->vertices[v];
        bool sink = !vertex->type->outputs && vertex->role != MR_ROLE_CUT_OUT && mr_plan_is_here(plan, vertex);
        if (sink && !vertex->type->resumes)
            return refuse(vertex, "its output cannot be continued after a crash (--resume); write with jsonl");
    }
    return MR_OK;
}

static int check_ways(const mr_plan *plan) {
    unsigned char *ways = mr_alloc(plan->vertex_count + 1);
    int status = ways ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a checkpoint");
    for (uint32_t s = 0; !status && s < plan->source_count; s++) {
        mr_plan_count_ways(plan, s, ways);
        for (size_t v = plan->source_count; !status && v < plan->vertex_count; v++)
            if (ways[v] > 1 && plan->vertices[v].type->sync && mr_plan_is_here(plan, &plan->vertices[v]))
                status = refuse(&plan->vertices[v], "frames of one source reach it on several paths, and after a crash "
                                                    "(--resume) their records cannot be told apart; give each path its "
                                                    "own sink, or join them");
    }
    mr_free(ways);
    return status;
}

static int check_sources(const mr_plan *plan) {
    const mr_plan_vertex *other = NULL;
    for (uint32_t s = 0; s < plan->source_count; s++) {
        const mr_plan_vertex *vertex = &plan->vertices[s];
        if (!mr_plan_is_here(plan, vertex))
            continue;
        if (vertex->offer.repeats)
            return MR_OK;
        other = vertex;
    }
    return other ? refuse(other, "it cannot give its frames again, so that a run cannot be continued (--resume is for "
                                 "files)")
                 : MR_OK;
}

int mr_resume_check(const mr_plan *plan) {
    const mr_location *most = &plan->spec->most_place;
    if (mr_plan_changes(plan))
        return mr_fail(MR_ERROR_USAGE,
                       "%s:%d:%d: sources.max: a run whose sources come and go cannot be continued from a "
                       "checkpoint: run it without one (--resume), or remove `max`",
                       most->file, most->line, most->column);
    int status = check_sources(plan);
    if (!status)
        status = check_sinks(plan);
    return status ? status : check_ways(plan);
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

bool mr_resume_concerns(const mr_plan *plan, int node) {
    for (size_t v = 0; v < plan->vertex_count; v++) {
        const mr_plan_vertex *vertex = &plan->vertices[v];
        bool sink = !vertex->type->outputs && vertex->role != MR_ROLE_CUT_OUT;
        if (vertex->node == node && (vertex->role == MR_ROLE_SOURCE || sink))
            return true;
    }
    return false;
}

bool mr_resume_serves(const mr_plan *plan, int node) {
    mr_plan alone = *plan;
    alone.node = node;
    return mr_resume_concerns(plan, node) && mr_resume_check(&alone) == MR_OK;
}

/* ---- identity of a source -------------------------------------------------------------------------------------- */

static uint64_t add(uint64_t seed, const void *bytes, size_t count) {
    return XXH64(bytes, count, seed);
}

static uint64_t add_text(uint64_t sum, const char *text) {
    return text ? add(sum, text, strlen(text)) : sum;
}

static uint64_t add_texts(uint64_t sum, const char *const *item, size_t count) {
    for (size_t i = 0; i < count; i++)
        sum = add_text(sum, item[i]);
    return sum;
}

static uint64_t add_option(uint64_t sum, const mr_option *option, const char *options);

static uint64_t add_options(uint64_t sum, const mr_option *option, const char *options) {
    for (; option && option->name; option++)
        sum = add_option(add_text(sum, option->name), option, options);
    return sum;
}

static uint64_t add_points(uint64_t sum, const mr_points *points) {
    return points->count ? add(sum, points->at, points->count * sizeof *points->at) : sum;
}

static uint64_t add_shapes(uint64_t sum, const mr_shapes *shapes) {
    for (size_t i = 0; i < shapes->count; i++)
        sum = add_points(add_text(sum, shapes->name[i]), &shapes->points[i]);
    return sum;
}

/* An option that was not given and has no default adds only its name. */
static uint64_t add_several(uint64_t sum, const mr_option *option, const void *field) {
    const mr_strings *strings = field;
    const mr_pairs *pairs = field;
    const mr_doubles *doubles = field;
    const bool *given = field;
    switch (option->kind) {
    case MR_OPTION_STRINGS:
        return add_texts(sum, strings->item, strings->count);
    case MR_OPTION_PAIRS:
        return add_texts(add_texts(sum, pairs->key, pairs->count), pairs->value, pairs->count);
    case MR_OPTION_DOUBLES:
        return add(sum, doubles->value, doubles->count * sizeof *doubles->value);
    case MR_OPTION_POINTS:
        return add_points(sum, field);
    case MR_OPTION_SHAPES:
        return add_shapes(sum, field);
    default:
        return *given ? add_options(sum, option->fields, field) : sum;
    }
}

static uint64_t add_option(uint64_t sum, const mr_option *option, const char *options) {
    const char *field = options + option->offset;
    char format[MR_FORMAT_TEXT];
    if (option->elsewhere)
        return sum;
    switch (option->kind) {
    case MR_OPTION_BOOL:
        return add(sum, field, sizeof(bool));
    case MR_OPTION_ENUM:
        return add(sum, field, sizeof(int));
    case MR_OPTION_SIZE:
        return add(sum, field, sizeof(mr_size));
    case MR_OPTION_EVERY:
        return add(sum, field, sizeof(mr_every));
    case MR_OPTION_INT:
    case MR_OPTION_DURATION:
    case MR_OPTION_BYTES:
        return add(sum, field, sizeof(int64_t));
    case MR_OPTION_DOUBLE:
    case MR_OPTION_RATE:
        return add(sum, field, sizeof(double));
    case MR_OPTION_FORMAT:
        return add_text(sum, mr_format_print((const mr_format *)(const void *)field, format, sizeof format));
    case MR_OPTION_STRING:
    case MR_OPTION_PATH:
    case MR_OPTION_URI:
        return add_text(sum, mr_option_string(option, options));
    default:
        return add_several(sum, option, field);
    }
}

uint64_t mr_resume_digest(const mr_plan_vertex *source) {
    return add_options(add_text(0, source->type->name), source->type->options, source->options);
}

/* ---- stages that leave settled frames out ---------------------------------------------------------------------- */

static bool remembers(const mr_plan_vertex *vertex) {
    return vertex->type->outputs && !vertex->copy && vertex->role != MR_ROLE_CUT_IN &&
           vertex->calls.entry != MR_ENTRY_STATELESS;
}

/* Vertices are in topological order, so later vertices are known first. */
int mr_resume_mark(const mr_plan *plan, bool **passes) {
    bool *needs = *passes = mr_calloc(plan->vertex_count + 1, sizeof *needs);
    if (!needs)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a checkpoint");
    for (size_t v = plan->vertex_count; v-- > 0;) {
        needs[v] = remembers(&plan->vertices[v]) || plan->vertices[v].role == MR_ROLE_SOURCE;
        for (size_t e = 0; e < plan->edge_count; e++)
            needs[v] |= plan->edges[e].from == (int)v && needs[plan->edges[e].to];
    }
    return MR_OK;
}
