/* Between the files that make a plan (plan.c, plan_links.c, plan_order.c, negotiate.c, and plan_*.c); nobody else
 * includes this.
 *
 * Vertices are numbered as the YAML has them, sources first, until plan_order.c has put the stages in topological
 * order; from then on by the plan. */
#ifndef MILLRACE_PLAN_BUILDER_H
#define MILLRACE_PLAN_BUILDER_H

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

/* plan_balance.c: what measured costs say of stages whose device is the planner's choice. */
typedef struct mr_plan_balance {
    int *group;     /* by vertex: the first of the stages that it is linked with; -1: it has no choice */
    double *cost;   /* by first vertex: nanoseconds on devices for each frame of the sources */
    bool *together; /* by first vertex: one of them remembers earlier frames, so that all are on one device */
    double *load;   /* by device: what is placed there */
    double total;   /* of all */
} mr_plan_balance;
int mr_plan_balance_begin(const mr_plan_builder *builder, mr_plan_balance *balance);
/* The stage to be placed next: of the most expensive group; -1: all that have a choice are placed. */
int mr_plan_balance_next(const mr_plan_builder *builder, const mr_plan_balance *balance, const bool *placed);
/* Places a stage, whose group it is the first of to be placed, on some of `devices`, which become its own. */
int mr_plan_balance_take(mr_plan_builder *builder, mr_plan_balance *balance, int vertex, int *devices, size_t count);

/* Each answers MR_OK or MR_ERROR_MEMORY and diagnoses all else. */
int mr_plan_resolve_links(mr_plan_builder *builder);  /* names -> link */
int mr_plan_order(mr_plan_builder *builder);          /* cycles; vertex and link in topological order; in and out */
int mr_plan_reach(mr_plan_builder *builder);          /* which sources reach which vertex */
int mr_plan_negotiate(mr_plan_builder *builder);      /* formats */
/* Whether the source is one of several that were written as one folder or glob, which the run can do without. */
bool mr_plan_may_spare(const mr_plan_builder *builder, int vertex);
/* Gives sources that could not be opened what others of their folder give; an error where none of it can be. */
void mr_plan_fill_unreadable(mr_plan_builder *builder);
int mr_plan_settle_jobs(mr_plan_builder *builder);    /* which sources wait for their turn; once they have answered */
int mr_plan_place(mr_plan_builder *builder);          /* devices, and stages on those that they name */
int mr_plan_sizes(mr_plan_builder *builder);          /* queues of joins, output_buffers; may be called again */
int mr_plan_pools(mr_plan_builder *builder);          /* what pools there are, from output_buffers; also again */
int mr_plan_place_auto(mr_plan_builder *builder);     /* stages whose device is the planner's choice; needs pools */
int mr_plan_assign_nodes(mr_plan_builder *builder);   /* which node runs what; after vertices were created */
int mr_plan_insert_cuts(mr_plan_builder *builder);    /* where nodes meet; numbers vertices and links anew */
int mr_plan_insert_copies(mr_plan_builder *builder);  /* numbers vertices and links anew */
int mr_plan_memory(mr_plan_builder *builder);         /* pools, totals and limits */
int mr_plan_account(mr_plan_builder *builder);        /* the rows of memory and their sums; after the pools */

/* plan.c, plan_order.c: plan->edges from link; in and out from link. */
int mr_plan_list_edges(mr_plan_builder *builder);
int mr_plan_list_fans(mr_plan_builder *builder);

/* plan_splice.c: puts vertices into links. */
typedef struct mr_plan_insertion {
    bool (*needed)(const mr_plan_builder *builder, const mr_plan_link *link);
    /* Whether what was put in for one reader of an output port does for another, too. */
    bool (*shared)(const mr_plan_vertex *reader, const mr_plan_vertex *other);
    int count; /* vertices that are put in, one behind the other */
    /* Fills them; their ports are wired by who calls. MR_ERROR_MEMORY. */
    int (*make)(mr_plan_builder *builder, const mr_plan_link *link, mr_plan_vertex *vertices, mr_spec_vertex *specs);
} mr_plan_insertion;
/* MR_OK or MR_ERROR_MEMORY. */
int mr_plan_splice(mr_plan_builder *builder, const mr_plan_insertion *insertion);
/* Makes the input and the output of a vertex that gives frames on as they come: from that port of `from`. What has no
 * output port (the end of a cut) has the output nevertheless, for the link to the other end, but counts none. */
int mr_plan_repeat(mr_plan_builder *builder, mr_plan_vertex *vertex, const mr_plan_vertex *from, int port);

/* plan_cuts.c: how many frames what is behind a cut may hold before it lets go of any. */
typedef struct mr_plan_holds {
    int *behind;  /* by vertex: that it, and what comes behind it on one way, may hold */
    int *before;  /* likewise what comes before it */
    bool *reached, *leads; /* of the cut that was asked for last: where its frames come; what leads to a join */
    int *wanted;           /* by vertex: how long its queue must be at least */
} mr_plan_holds;
typedef struct mr_plan_hold {
    int window;  /* so many at least must be able to be under way; 0: any number */
    int share;   /* of each source; 0: sources need no share of their own */
    int sources;
    int join;    /* the first vertex that joins what comes over the cut with what comes another way; -1: none */
} mr_plan_hold;
int mr_plan_holds_begin(const mr_plan_builder *builder, mr_plan_holds *holds);
mr_plan_hold mr_plan_hold_of(const mr_plan_builder *builder, mr_plan_holds *holds, const mr_plan_cut *cut);
/* Of the cut that was asked for last, whose shares are set: the queues from it to joins must be so long that no
 * source stands in the way of another there. */
void mr_plan_note_way(const mr_plan_builder *builder, mr_plan_holds *holds, const mr_plan_cut *cut);
/* Makes them so long; refuses what the author has made shorter. */
void mr_plan_lengthen_ways(mr_plan_builder *builder, const mr_plan_holds *holds);

/* plan_endpoints.c: where each process of each node listens, and with which keys; after the cuts were made.
 * MR_ERROR_MEMORY. */
int mr_plan_assign_endpoints(mr_plan_builder *builder);

/* plan_nodes.c: whether a stage or source is another process's than that which is planned for: what it needs may not
 * be on this machine. */
bool mr_plan_is_elsewhere(const mr_plan_builder *builder, int vertex);
/* The same, and what it reads is not here either: it is asked without opening anything. */
bool mr_plan_is_unseen(const mr_plan_builder *builder, int vertex);

/* plan.c: entries and calls in flight, which hang on how many devices there are. */
void mr_plan_set_calls(mr_plan_builder *builder, int vertex);

/* plan_devices.c */
void mr_plan_set_turns(mr_plan_builder *builder);
bool mr_plan_is_cuda(const mr_plan_device *device);
bool mr_plan_is_auto(const mr_spec_vertex *spec);
/* Whether the device is there, where that can be known, and how much memory it has; a message where it is not. */
int mr_plan_probe(mr_plan_builder *builder, mr_plan_device *device);
/* Diagnoses why the stage cannot compute on that device, which it names at `place`. */
/* What the type has against what comes into the vertex, on a device that is there: MR_OK, or the status of mr_fail.
 * What it does otherwise is added to the vertex's remark where `remarks` is set. */
int mr_plan_check_inputs(mr_plan_builder *builder, int vertex, const char *device, bool remarks);
void mr_plan_check_device(mr_plan_builder *builder, const mr_spec_vertex *spec, mr_place place, int device);
void mr_plan_name_device(mr_plan_builder *builder, mr_plan_vertex *vertex);
/* Processors do not fail, and no device takes over from itself. Whether there is one in reserve. */
bool mr_plan_settle_reserve(mr_plan_vertex *vertex);
/* The least of its limit and its memory; 0: neither is known. */
uint64_t mr_plan_most_bytes(const mr_plan_device *device);
/* plan_memory.c: most bytes of a whole frame with its tensors, as a copy or a cut holds it; false where that is not
 * known, with what is. */
bool mr_plan_frame_bytes(const mr_format_set *set, const mr_planned_result *results, bool more_results,
                         uint64_t *bytes);
/* plan_account.c: the most that a pool of all instances takes, on each of its devices. */
uint64_t mr_plan_pool_bytes(const mr_plan_vertex *vertex, const mr_plan_pool *pool);
/* A sum that is too large to count stays the largest there is: one that began anew would prove any limit. */
static inline uint64_t mr_plan_plus(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
static inline uint64_t mr_plan_times(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
/* plan_memory.c: about what the vertex takes of its device's memory, with what is brought there for it. */
uint64_t mr_plan_estimate(const mr_plan_builder *builder, int vertex);

/* Whether what comes out of a port lies in buffers of the stage's own, and how large they are; 0: not known. */
bool mr_plan_allocates(const mr_plan_vertex *vertex, size_t port, uint64_t *bytes);
/* Whether a link's frames may leave the stage that it leads to in the buffers they came in. */
bool mr_plan_passes_on(const mr_plan_builder *builder, const mr_plan_link *link);

/* plan_memory.c: for each vertex, what becomes of buffers that frames leave it in, and where they may come from. */
typedef struct mr_plan_ways {
    bool *shared; /* they go to another process of this host */
    int *pinned;  /* the device that copies from them; 0: none */
    bool *lent;   /* they may lie in memory that a library or the program gave, or in that of a message */
} mr_plan_ways;
/* In the memory of the plan. MR_ERROR_MEMORY. */
int mr_plan_find_ways(const mr_plan_builder *builder, mr_plan_ways *ways);
/* The same for one output port of a vertex. */
int mr_plan_pinned_for(const mr_plan_builder *builder, const mr_plan_ways *ways, int vertex, int port);
bool mr_plan_is_shared(const mr_plan_builder *builder, const mr_plan_ways *ways, int vertex, int port);
/* Whether what comes to a vertex may be lent. */
bool mr_plan_gets_lent(const mr_plan_builder *builder, const mr_plan_ways *ways, int vertex);
/* The first device of a vertex that is not the host; 0 where it has none. */
int mr_plan_accelerator(const mr_plan_vertex *vertex);

/* expect.c: plan->expected, if a device is like a card. MR_ERROR_MEMORY. */
int mr_plan_expect(mr_plan_builder *builder);
/* A copy in the memory of the plan; NULL without memory. */
const mr_card *mr_plan_keep_card(mr_plan_builder *builder, const mr_card *card);

/* plan_links.c: compares ids with an unknown name, as long as that comes to little for all of a file's unknown names. */
void mr_plan_offer_ids(mr_plan_builder *builder, mr_nearest *nearest, bool sources, bool stages);

/* How many ports there are; NULL has none. */
int mr_port_count(const mr_port *ports);

/* fit.c: whether formats fit, and what to say where they do not. */
bool mr_port_accepts_anything(const mr_port *port);
/* Whether a port takes any of `set`, and what of it (`met` may be NULL). */
bool mr_port_accepts(const mr_port *port, const mr_format_set *set, mr_format_set *met);
/* Whether some of what is known to come lies outside of what is taken. */
bool mr_format_set_exceeds(const mr_format_set *comes, const mr_format_set *taken);
/* "packets", "pictures", ... or the set in full. */
const char *mr_plan_describe(const mr_format_set *set, char *text, size_t bytes);

#endif
