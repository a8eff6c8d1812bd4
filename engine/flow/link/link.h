/* Links: bounded queues between stages, with one lane for each source, served in rounds.
 *
 * In each round every lane gives one frame; gaps and ends go with the next frame and are not a turn. A lane that is
 * empty at its turn can still give a frame in the same round, while others have not. So sources that offer more than
 * the consumer can take get equal shares, whatever their rates. A source that offers less can deliver everything, if
 * the lane can hold what arrives between two turns.
 *
 * A lane can hold `capacity` frames, and also marks, which need no room. A gap announces a frame that will not come, so
 * that joins need not wait for it (gap.h has further marks). An end means that nothing more comes from the source.
 * Items in a lane stay in order.
 *
 * If a lane is full, the policy decides. Block leaves the frame with the producer; the link wakes the producer when
 * enough of the lane is free for more than one frame. Drop-oldest and drop-newest drop frames in the consumer's name,
 * and leave a gap if gaps are wanted. With compressed packets, those that no other packet needs go first. Otherwise
 * everything up to the next key frame must go (reason "gop"), since it could not be decoded.
 *
 * Any thread may call; each link has a lock. Wakers and producers' tasks are called without it. */
#pragma once

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
    mr_identity identity; /* GAP; a frame has one already: mr_item_identity */
    int64_t entered_ns;   /* when the item entered the link */
    bool absorbed;        /* GAP: a stage has absorbed the frame */
    bool cut_short;       /* END: the source was stopped, and may have had more frames */
    bool leaves;          /* END: another source may use the slot later, so stages must not end */
} mr_item;

/* Only for a frame or a gap. */
static inline const mr_identity *mr_item_identity(const mr_item *item) {
    return item->kind == MR_ITEM_FRAME ? &item->frame->identity : &item->identity;
}

typedef struct mr_link_params {
    size_t source_count;      /* in the whole pipeline */
    const uint32_t *sources;  /* those that come here, ascending */
    size_t lane_count;
    int capacity;             /* frames per lane */
    int refill;               /* wakes waiting producers when a lane has no more frames than this */
    mr_policy policy;
    bool keeps_head;          /* the consumer uses mr_link_head: a lane's first item must not be dropped */
    bool wants_gaps;          /* the consumer or a stage after it needs gaps; otherwise none are kept */
    const char *stage;        /* the consumer's id, in whose name frames are dropped */
    void (*wake)(void *context); /* called when the consumer has new items */
    bool wake_always;         /* for each item; otherwise only if the link was empty, which is enough for one entry */
    void *context;
} mr_link_params;

int mr_link_create(mr_link **link, const mr_link_params *params);
void mr_link_destroy(mr_link **link);

/* Adds a producer that will send an end mark for this source; the lane ends with the last one. Call before the run. */
void mr_link_expect(mr_link *link, uint32_t source);

/* The source sends nothing until mr_link_begin, so the consumer need not wait for it. Call mr_link_expect_later before
 * the run, mr_link_begin from any thread. After an end with `leaves`, the link expects the source later again. */
void mr_link_expect_later(mr_link *link, uint32_t source);
void mr_link_begin(mr_link *link, uint32_t source);

/* Moves the item in and returns true. If the lane is full and the policy is block, returns false, leaves the item
 * untouched and will wake `producer` (may be NULL) when there is room. If the consumer must be woken, sets *news: the
 * caller must then call mr_link_tell, once after several items. */
bool mr_link_put(mr_link *link, mr_item *item, mr_task *producer, bool *news);
void mr_link_tell(mr_link *link);
/* mr_link_put and mr_link_tell for one item. */
static inline bool mr_link_push(mr_link *link, mr_item *item, mr_task *producer) {
    bool news = false, admitted = mr_link_put(link, item, producer, &news);
    if (news)
        mr_link_tell(link);
    return admitted;
}
/* Whether the lane has room for one frame more than `coming`, which will be pushed later. If not, the producer will be
 * woken when frames are taken. */
bool mr_link_has_room(mr_link *link, uint32_t source, uint32_t coming, mr_task *producer);
/* Takes up to `count` items, one frame from each lane in turn. Returns how many. */
size_t mr_link_pop(mr_link *link, mr_item *items, size_t count);
/* The same, but asks `claim` before it takes the frame at a lane's head. Lanes whose frame stays are first in the next
 * round. Each lane is tried once, so more items may remain. */
typedef bool mr_link_claim(void *context, uint32_t source);
size_t mr_link_pop_claimed(mr_link *link, mr_item *items, size_t count, mr_link_claim *claim, void *context);
/* Copies the first item in a source's lane without a reference; false if the lane is empty. In a link with keeps_head
 * it stays until the consumer takes it, except an `away` mark, which the next item replaces. */
bool mr_link_head(mr_link *link, uint32_t source, mr_item *item);
/* Takes the first item from a source's lane, which must not be empty. */
void mr_link_take(mr_link *link, uint32_t source, mr_item *item);
/* True if every lane that has begun has also ended and is empty. */
bool mr_link_ended(mr_link *link);
/* How many frames are in the link now. *most: the most that one source had in it at once. */
uint64_t mr_link_frames(mr_link *link, int *most);
bool mr_link_has_source(const mr_link *link, uint32_t source);

/* Call before the run: reports the number of frames whenever it changes. `awaited` says what a blocked producer waits
 * for. */
typedef struct mr_link_tracing {
    mr_trace *trace;
    mr_track *queue;
    const char *awaited;
} mr_link_tracing;
void mr_link_trace(mr_link *link, const mr_link_tracing *tracing);
const char *mr_link_awaited(const mr_link *link);
