/* A plan that is being made: what the files of the planner share (planner.c calls all others; each has a header of its own).
 * Private to the planner.
 *
 * Vertices are numbered as the YAML has them, sources first, until links.c has put the stages in topological order; from
 * then on by the plan. */
#ifndef MILLRACE_PLANNER_BUILDER_H
#define MILLRACE_PLANNER_BUILDER_H

#include "engine/base/nearest.h"
#include "engine/plan/plan.h"

enum { MR_PLAN_MAX_LINKS = 262144, MR_PLAN_MOST_BUFFERS = 1 << 28 /* of a pool */ };

typedef struct mr_plan_link {
    int from, from_port, to, to_port;
    mr_place place; /* of the name in `input` or `join` */
} mr_plan_link;

/* Links of each vertex: those of vertex v are item[start[v]] to item[start[v + 1] - 1], as positions in the links. */
typedef struct mr_plan_fan {
    int *start, *item;
} mr_plan_fan;

/* What is taken of an input, or wanted of an output that may choose. */
typedef struct mr_plan_need {
    mr_format_set set;
    const char *why;  /* "the input \"images\" of a.onnx"; NULL where there is no more to say */
    int by;           /* the vertex that takes no more than this; of an output that nothing has narrowed, its own */
    mr_place place;   /* where that vertex names what it comes from */
    bool unread;      /* more would be known, were files opened */
} mr_plan_need;

typedef struct mr_plan_builder {
    mr_plan *plan;
    mr_spec *spec;
    mr_plan_params params;
    mr_diagnostics *diagnostics;
    mr_arena *arena;        /* the plan's */
    int count;              /* vertices */
    const mr_spec_vertex **vertex;
    mr_index ids;           /* to the elements of `vertex` */
    size_t link_count, link_room;
    mr_plan_link *link;     /* grouped by `to` */
    mr_plan_fan in, out;    /* links into and out of each vertex; once ordered */
    bool *unknown;          /* vertices of which nobody knows what comes out, since something is wrong there */
    mr_index device_names;  /* names and aliases to plan->devices */
    size_t device_room;
    bool *asked;            /* vertices that have answered */
    int offered;            /* ids that were compared with unknown names */
    bool *hangs;            /* vertices that may choose, or stand behind one that may; until the choice is made */
    mr_plan_need **needs;   /* [vertex][input]: what it, and all that its frames go on to, takes */
    mr_plan_need **wanted;  /* [vertex][output]: what all that follows takes, where it is chosen */
} mr_plan_builder;

#define mr_plan_error(builder, place, hint, ...)                                                                     \
    mr_diagnose((builder)->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, (place), (hint), __VA_ARGS__)

/* A sum that is too large to count stays the largest there is: one that began anew would prove any limit. */
static inline uint64_t mr_plan_plus(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
static inline uint64_t mr_plan_times(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

#endif
