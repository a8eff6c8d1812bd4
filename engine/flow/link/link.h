/* Links: bounded queues between stages, one lane for each source, served in rounds.
 *
 * In a round each lane gives one frame; gaps and ends are taken with the frame after them and are no turn. A lane that
 * is empty when its turn comes can still give its frame in the same round, as long as others have not given theirs. So
 * sources that offer more than the consumer takes get equal shares, whatever their rates; a source that offers less
 * than that gets all it offers, if its lane holds what comes between two turns.
 *
 * A lane holds frames, at most `capacity` of them, and marks, which take no room: gaps (a frame that will not come, so
 * that joins do not wait for it; gap.h has marks that say more) and ends (nothing more comes from that source). Order
 * within a lane is kept.
 *
 * If a lane is full, the policy decides. Block leaves the frame with the producer, who is woken when enough of the lane
 * is free for more than one frame. Drop-oldest and drop-newest drop in the name of the consuming stage and leave a gap
 * if gaps are wanted. Of compressed packets, those that no other refers to go first; else everything up to the next key
 * frame goes (reason "gop"), since it could not be decoded.
 *
 * Threads: any; a lock guards each link. The consumer's waker and the producers' tasks are called without it. */
#ifndef MILLRACE_FLOW_LINK_LINK_H
#define MILLRACE_FLOW_LINK_LINK_H

#include "engine/data/gap.h"
#include "engine/flow/executor/executor.h"
#include "engine/observe/trace.h"
#include "engine/plan/plan_data.h"
#include "millrace/frame.h"

typedef struct mr_link mr_link;

typedef enum mr_item_kind { MR_ITEM_FRAME, MR_ITEM_GAP, MR_ITEM_END } mr_item_kind;

typedef struct mr_item {
    mr_item_kind kind;
    uint32_t source;
    mr_frame *frame;      /* FRAME: one reference */
    mr_identity identity; /* GAP; a frame has its own: mr_item_identity */
    int64_t entered_ns;   /* when it entered the link */
    bool cut_short;       /* END: the source was stopped, and may have had more frames */
    bool leaves;          /* END: its place may have another source later, so that stages do not end with it */
} mr_item;

/* Of a frame or gap. */
static inline const mr_identity *mr_item_identity(const mr_item *item) {
    return item->kind == MR_ITEM_FRAME ? &item->frame->identity : &item->identity;
}

typedef struct mr_link_params {
    size_t source_count;      /* of the pipeline */
    const uint32_t *sources;  /* that come here, ascending */
    size_t lane_count;
    int capacity;             /* frames a lane */
    int refill;               /* waiting producers are woken if no more frames than this are left in a lane */
    mr_policy policy;
    bool keeps_head;          /* the consumer uses mr_link_head: the first item of a lane is not dropped */
    bool wants_gaps;          /* the consumer, or a stage behind it, needs to know of gaps; else none is kept */
    const char *stage;        /* id of the consumer, in whose name frames are dropped */
    void (*wake)(void *context); /* called if the consumer has new items */
    bool wake_always;         /* for each item; else only if the link was empty, which is enough for one entry */
    void *context;
} mr_link_params;

int mr_link_create(mr_link **link, const mr_link_params *params);
void mr_link_destroy(mr_link **link);

/* Adds a producer that will send an end mark for that source; the lane ends with the last of them. Before the run. */
void mr_link_expect(mr_link *link, uint32_t source);

/* The source sends nothing until mr_link_begin, so the consumer need not wait for it. The first before the run, the
 * other from any thread. An end with which the source only leaves has the effect of the first again. */
void mr_link_expect_later(mr_link *link, uint32_t source);
void mr_link_begin(mr_link *link, uint32_t source);

/* Moves the item in and returns true. If the lane is full and the policy is block, leaves it untouched, notes
 * `producer` (may be NULL) to be woken when there is room, and returns false. If the consumer is to be woken it sets
 * *news; the caller then calls mr_link_tell, after the last of several items that come at once. */
bool mr_link_put(mr_link *link, mr_item *item, mr_task *producer, bool *news);
void mr_link_tell(mr_link *link);
/* Both for one item. */
static inline bool mr_link_push(mr_link *link, mr_item *item, mr_task *producer) {
    bool news = false, admitted = mr_link_put(link, item, producer, &news);
    if (news)
        mr_link_tell(link);
    return admitted;
}
/* Whether the lane has room for one more frame beside `coming` that will be pushed into it. If not, the producer will
 * be woken when more frames are taken from it. */
bool mr_link_has_room(mr_link *link, uint32_t source, uint32_t coming, mr_task *producer);
/* Takes up to `count` items, a frame of each lane in turn; returns the number taken. */
size_t mr_link_pop(mr_link *link, mr_item *items, size_t count);
/* The same, but it takes frames only if `claim` permits it, called for each frame at the head of a lane; lanes whose
 * frames stay are the first of the next round. Lanes are tried once, so there may be more to take. */
typedef bool mr_link_claim(void *context, uint32_t source);
size_t mr_link_pop_claimed(mr_link *link, mr_item *items, size_t count, mr_link_claim *claim, void *context);
/* Copies the first item of one source's lane, without a reference of its own; false if it is empty. Of a link with
 * keeps_head it stays until the consumer takes it, unless it is an `away` mark, which the next item replaces. */
bool mr_link_head(mr_link *link, uint32_t source, mr_item *item);
/* Takes the first item of one source's lane, which must not be empty. */
void mr_link_take(mr_link *link, uint32_t source, mr_item *item);
/* True once every lane that has begun has ended and been emptied. */
bool mr_link_ended(mr_link *link);
/* The most frames of one source that it has held at once. */
int mr_link_most_frames(mr_link *link);
bool mr_link_has_source(const mr_link *link, uint32_t source);

/* Before the run: reports the number of frames in it on every change. `awaited` names the cause of a producer's
 * wait. */
typedef struct mr_link_tracing {
    mr_trace *trace;
    mr_track *queue;
    const char *awaited;
} mr_link_tracing;
void mr_link_trace(mr_link *link, const mr_link_tracing *tracing);
const char *mr_link_awaited(const mr_link *link);

#endif
