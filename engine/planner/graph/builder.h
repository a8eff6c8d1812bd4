/* A plan in the making, which the planner's files share. planner.c calls all others; each has a separate header.
 * Private to the planner.
 *
 * Vertices are numbered as in the YAML, sources first, until links.c has put the stages in topological order; from then
 * on as in the plan. */
#pragma once

#include "engine/base/nearest.h"
#include "engine/plan/plan_data.h"

enum { MR_PLAN_MAX_LINKS = 262144 };

typedef struct mr_plan_link {
    int from, from_port, to, to_port;
    mr_location place; /* where `input` or `join` has the name */
} mr_plan_link;

/* Each vertex's links: vertex v has item[start[v]] to item[start[v + 1] - 1], as positions in the links. */
typedef struct mr_plan_fan {
    int *start, *item;
} mr_plan_fan;

/* The formats that an input accepts, or that consumers accept of an output that may choose. */
typedef struct mr_plan_need {
    mr_format_set set;
    const char *why;  /* "the input \"images\" of a.onnx"; NULL if there is no more detail */
    int by;           /* the vertex that sets this limit; if nothing has narrowed the output, its vertex */
    mr_location place;   /* the key where that vertex names the input */
    bool unread;      /* more would be known if files were opened */
} mr_plan_need;

typedef struct mr_plan_builder {
    mr_plan *plan;
    mr_spec *spec;
    mr_plan_params params;
    mr_diagnostics *diagnostics;
    mr_arena *arena;        /* the plan's */
    int count;              /* vertices */
    const mr_spec_vertex **vertex;
    mr_index ids;           /* to elements in `vertex` */
    size_t link_count, link_room;
    mr_plan_link *link;     /* grouped by `to` */
    mr_plan_fan in, out;    /* each vertex's links in and out; once ordered */
    bool *unknown;          /* vertices whose output is unknown, because an error is there */
    mr_index device_names;  /* names and aliases to plan->devices */
    size_t device_room;
    bool *asked;            /* vertices that have answered */
    int offered;            /* ids that were compared with unknown names */
    bool *hangs;            /* vertices that can choose, or come after one that can; until the choice is made */
    mr_plan_need **needs;   /* [vertex][input]: what it and all stages that the frames continue to accept */
    mr_plan_need **wanted;  /* [vertex][output]: accepted by all that follow, if it is chosen */
} mr_plan_builder;

#define mr_plan_error(builder, place, hint, ...)                                                                     \
    mr_diagnose((builder)->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, (place), (hint), __VA_ARGS__)

/* A sum that overflows stays the largest number: one that wrapped around would satisfy any limit. */
static inline uint64_t mr_plan_plus(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
static inline uint64_t mr_plan_times(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
