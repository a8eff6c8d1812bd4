/* The places of sources that come and go: which source has which place, what becomes of one that leaves, and the
 * account of each. Internal to the engine; millrace.h documents what a program sees of it.
 *
 * A place is a source of the plan with all instances that work for it alone (turns.h opens and resets them). Its plan's
 * vertex is changed only while nobody has it; the graph's lock guards that, and all readers but instances that have a
 * frame of the source take it. Any thread. */
#ifndef MILLRACE_FLOW_SEATS_H
#define MILLRACE_FLOW_SEATS_H

#include "engine/flow/graph.h"
#include "engine/flow/ledger/departed.h"

/* A source of a plan of its own, which has proven it. */
typedef struct mr_newcomer {
    mr_plan *with;
    uint32_t source;
} mr_newcomer;

/* For a graph whose sources come and go; else it does nothing. */
int mr_seats_create(mr_graph *graph);
void mr_seats_destroy(mr_graph *graph);

/* Whether a source of that id could come now, if there is a place for it: as mr_seat_take. */
int mr_seat_is_free(mr_graph *graph, const char *id);
/* Gives the newcomer a place, or, if a source of its id is leaving, the place of that one. On success takes
 * newcomer->with over. MR_ERROR_USAGE (that id is there, or all places are taken), MR_ERROR_CONFIG (no place fits),
 * MR_ERROR_CANCELLED. */
int mr_seat_take(mr_graph *graph, mr_newcomer *newcomer);
/* The same in place of the source of that id, which leaves if it is there. */
int mr_seat_replace(mr_graph *graph, mr_newcomer *newcomer);
/* Lets the source of that id leave. MR_ERROR_USAGE: there is none. */
int mr_seat_leave(mr_graph *graph, const char *id);
/* Waits until no source of that id is leaving. MR_ERROR_AGAIN. */
int mr_seat_await(mr_graph *graph, const char *id, int64_t timeout_ns);
/* The number of the source of that id: MR_SOURCE_NONE if it is not there. With the lock. */
uint32_t mr_seat_find(const mr_graph *graph, const char *id);
/* Whether it is there, has not ended, and is neither leaving nor being replaced. */
bool mr_seat_gives(mr_graph *graph, const char *id);
/* Copies the map of its options into the arena, and of its places the file's name. MR_ERROR_USAGE if it is not
 * there. */
int mr_seat_options(mr_graph *graph, const char *id, mr_arena *arena, mr_yaml **node);

/* For turns.h: the place of a source is vacant. True if the next one has it now. */
bool mr_seat_left(mr_graph *graph, uint32_t source);

/* What became of a source so far; false: nobody has the place. The row owns its lists and its message (mr_row_fini). */
bool mr_seat_account(mr_graph *graph, uint32_t source, mr_source_summary *account);

#endif
