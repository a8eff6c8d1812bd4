#include "engine/flow/link/link.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/data/receipt.h"
#include "engine/flow/ledger/ledger.h"

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

/* One source's queue in a link: a ring of items, which can grow for marks, and the producers that wait for room. Not
 * locked: the link must lock it. */
typedef struct lane_queue {
    mr_item *ring;
    uint32_t room;           /* ring size; a power of two */
    uint32_t first, count;   /* items */
    uint32_t frames;         /* items that are frames */
    uint32_t most_frames;    /* the most frames so far */
    uint32_t reported;           /* frames when last reported to the trace */
    uint32_t producers;      /* producers that will send an end mark */
    uint32_t ends_expected;  /* producers whose end mark has not come */
    bool cut_short;          /* an end so far says so */
    bool waits_for_key;      /* drop packets until the next key frame */
    bool listed;             /* in one of the link's lists */
    uint64_t served;         /* the round in which a frame was last taken; 0: none was */
    struct lane_queue *next; /* next in that list */
    mr_task **waiter;        /* producers that found the lane full, in order */
    uint32_t waiter_count, waiter_room;
} lane_queue;

/* Doubles the ring. Without memory for that, discards the gaps. */
static void make_room(lane_queue *lane);

static inline mr_item *item_at(const lane_queue *lane, uint32_t index) {
    return &lane->ring[(lane->first + index) & (lane->room - 1)];
}

/* Adds an item at the end. The ring always has room for a full lane's frames and end; it must grow only for gaps.
 * Gaps are only hints: without memory the queued gaps are discarded, and nothing else is lost. */
static inline void append(lane_queue *lane, const mr_item *item) {
    if (lane->count == lane->room)
        make_room(lane);
    lane->frames += item->kind == MR_ITEM_FRAME;
    lane->most_frames = lane->frames > lane->most_frames ? lane->frames : lane->most_frames;
    *item_at(lane, lane->count++) = *item;
}

static inline void take_item(lane_queue *lane, mr_item *item) {
    *item = *item_at(lane, 0);
    lane->count--;
    /* A lane that is often empty then stays within a few cache lines. */
    lane->first = lane->count ? (lane->first + 1) & (lane->room - 1) : 0;
    lane->frames -= item->kind == MR_ITEM_FRAME;
}

/* Handles an item that arrives while the lane waits for a key frame. True if it is a packet and must be dropped. */
static bool skips(lane_queue *lane, const char *stage, mr_item *incoming);

static bool grow(lane_queue *lane) {
    uint32_t room = lane->room ? lane->room * 2 : 8;
    mr_item *ring = mr_alloc(room * sizeof *ring);
    if (!ring)
        return false;
    for (uint32_t i = 0; i < lane->count; i++)
        ring[i] = *item_at(lane, i);
    mr_free(lane->ring);
    lane->ring = ring;
    lane->room = room;
    lane->first = 0;
    return true;
}

static void discard_gap_marks(lane_queue *lane) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < lane->count; i++)
        if (item_at(lane, i)->kind != MR_ITEM_GAP)
            *item_at(lane, kept++) = *item_at(lane, i);
    lane->count = kept;
}

static void make_room(lane_queue *lane) {
    if (!grow(lane))
        discard_gap_marks(lane);
}

/* ---- dropping -------------------------------------------------------------------------------------------------- */

static void turn_into_gap(mr_item *item, const char *stage, const char *reason) {
    mr_receipt_note(item->frame->receipt, MR_NOTE_DROPPED, stage, reason);
    item->identity = item->frame->identity;
    mr_frame_unref(&item->frame);
    item->kind = MR_ITEM_GAP;
}

static void drop_at(lane_queue *lane, uint32_t index, const char *stage, const char *reason) {
    turn_into_gap(item_at(lane, index), stage, reason);
    lane->frames--;
}

static bool is_packet(const mr_item *item) {
    return item->kind == MR_ITEM_FRAME && item->frame->format.payload == MR_PAYLOAD_PACKET;
}

static bool is_key(const mr_item *item) {
    return item->frame->flags & MR_FRAME_KEY;
}

static bool skips(lane_queue *lane, const char *stage, mr_item *incoming) {
    if (!lane->waits_for_key || !is_packet(incoming))
        return false;
    if (is_key(incoming)) {
        lane->waits_for_key = false;
        return false;
    }
    turn_into_gap(incoming, stage, "gop");
    return true;
}

/* The first item that may be dropped. A consumer that looks at a lane's head must find it again when it takes it. */
static uint32_t first_droppable(const mr_link_params *params) {
    return params->keeps_head ? 1 : 0;
}

/* Drops the oldest packet that no other packet needs; false if there is none. */
static bool drop_disposable(lane_queue *lane, const mr_link_params *params) {
    for (uint32_t i = first_droppable(params); i < lane->count; i++)
        if (is_packet(item_at(lane, i)) && item_at(lane, i)->frame->flags & MR_FRAME_DISPOSABLE) {
            drop_at(lane, i, params->stage, "queue full");
            return true;
        }
    return false;
}

/* Drops the first queued packet and all up to the next key frame. */
static void drop_gop(lane_queue *lane, const mr_link_params *params) {
    bool first = true;
    for (uint32_t i = first_droppable(params); i < lane->count; i++) {
        mr_item *item = item_at(lane, i);
        if (!is_packet(item))
            continue;
        if (!first && is_key(item))
            return;
        drop_at(lane, i, params->stage, first ? "queue full" : "gop");
        first = false;
    }
    lane->waits_for_key = true;
}

static void drop_oldest(lane_queue *lane, const mr_link_params *params) {
    for (uint32_t i = first_droppable(params); i < lane->count; i++)
        if (item_at(lane, i)->kind == MR_ITEM_FRAME) {
            drop_at(lane, i, params->stage, "queue full");
            return;
        }
}

/* Applies the policy to a full lane: drops queued frames, or turns `incoming` into a gap. It also does the latter if
 * the lane holds only a head that must stay. The caller must then append `incoming`. */
static void shed(lane_queue *lane, const mr_link_params *params, mr_item *incoming) {
    const bool packet = is_packet(incoming);
    const uint32_t before = lane->frames;
    if (params->policy == MR_POLICY_DROP_OLDEST) {
        if (!packet)
            drop_oldest(lane, params);
        else if (!drop_disposable(lane, params))
            drop_gop(lane, params);
        if (lane->frames < before) {
            skips(lane, params->stage, incoming);
            return;
        }
    }
    lane->waits_for_key = packet && !(incoming->frame->flags & MR_FRAME_DISPOSABLE);
    turn_into_gap(incoming, params->stage, "queue full");
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

typedef struct lane_list {
    lane_queue *first, *last;
} lane_list;

struct mr_link {
    pthread_mutex_t lock;
    mr_link_params params;
    int32_t *lane_of; /* by source; -1: the source does not come here */
    lane_queue *lanes;
    /* Lanes with items. In each round, each lane gives one frame: `now` holds lanes still to be served, `later` those
     * already served. `left` holds lanes whose frame the consumer left; they are first in the next round. */
    lane_list now, left, later;
    uint64_t round;       /* from 1 */
    size_t items;         /* in all lanes */
    size_t open;          /* lanes whose end has not been taken */
    size_t to_begin;      /* open lanes whose source has not begun */
    mr_link_tracing tracing; /* zero: not traced */
    int64_t frames;       /* in all lanes, as last reported; only if traced */
};

static int create_lanes(mr_link *link) {
    const mr_link_params *params = &link->params;
    link->lane_of = mr_alloc((params->source_count + 1) * sizeof *link->lane_of);
    link->lanes = mr_calloc(params->lane_count + 1, sizeof *link->lanes);
    if (!link->lane_of || !link->lanes)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < params->source_count; i++)
        link->lane_of[i] = -1;
    uint32_t room = 4;
    while (room < (uint32_t)params->capacity + 1)
        room *= 2;
    for (size_t i = 0; i < params->lane_count; i++) {
        link->lane_of[params->sources[i]] = (int32_t)i;
        link->lanes[i].ring = mr_alloc(room * sizeof(mr_item));
        link->lanes[i].room = room;
        if (!link->lanes[i].ring)
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

int mr_link_create(mr_link **link, const mr_link_params *params) {
    mr_link *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the queue of %s", params->stage);
    made->params = *params;
    made->open = params->lane_count;
    made->round = 1;
    mr_lock_init(&made->lock);
    if (create_lanes(made)) {
        mr_link_destroy(&made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the queue of %s (%zu sources)", params->stage,
                       params->lane_count);
    }
    *link = made;
    return MR_OK;
}

static void empty_lane(lane_queue *lane) {
    mr_item item;
    while (lane->count) {
        take_item(lane, &item);
        if (item.kind == MR_ITEM_FRAME)
            mr_frame_unref(&item.frame);
    }
    mr_free(lane->ring);
    mr_free(lane->waiter);
}

void mr_link_destroy(mr_link **link) {
    mr_link *gone = *link;
    if (!gone)
        return;
    for (size_t i = 0; gone->lanes && i < gone->params.lane_count; i++)
        empty_lane(&gone->lanes[i]);
    mr_free(gone->lanes);
    mr_free(gone->lane_of);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
    *link = NULL;
}

bool mr_link_has_source(const mr_link *link, uint32_t source) {
    return link->lane_of[source] >= 0;
}

static lane_queue *lane_of(mr_link *link, uint32_t source) {
    return &link->lanes[link->lane_of[source]];
}

void mr_link_expect(mr_link *link, uint32_t source) {
    lane_queue *lane = lane_of(link, source);
    lane->ends_expected = ++lane->producers;
}

void mr_link_expect_later(mr_link *link, uint32_t source) {
    link->to_begin += mr_link_has_source(link, source);
}

void mr_link_begin(mr_link *link, uint32_t source) {
    MR_LOCKED(&link->lock);
    link->to_begin -= mr_link_has_source(link, source);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static inline void append_lane(lane_list *list, lane_queue *lane) {
    lane->next = NULL;
    if (list->last)
        list->last->next = lane;
    else
        list->first = lane;
    list->last = lane;
}

static void append_list(lane_list *list, lane_list *more) {
    if (!more->first)
        return;
    if (list->last)
        list->last->next = more->first;
    else
        list->first = more->first;
    list->last = more->last;
    *more = (lane_list){0};
}

/* A lane that was empty can still be served in this round, unless it already was. */
static inline void list_lane(mr_link *link, lane_queue *lane) {
    if (lane->listed)
        return;
    lane->listed = true;
    append_lane(lane->served == link->round ? &link->later : &link->now, lane);
}

/* Removes the first lane from those still to be served. */
static inline lane_queue *take_lane(mr_link *link) {
    lane_queue *lane = link->now.first;
    link->now.first = lane->next;
    if (!lane->next)
        link->now.last = NULL;
    return lane;
}

/* If only this lane has items, it begins the next round at once. */
static inline void pass_turn(mr_link *link, lane_queue *lane) {
    if (lane->count && !lane->next && !link->left.first && !link->later.first) {
        link->round++;
        return;
    }
    take_lane(link);
    lane->listed = false;
    if (lane->count)
        list_lane(link, lane);
}

/* Returns the lane to serve next. If every lane was served or left, begins a round. */
static inline lane_queue *lane_in_turn(mr_link *link) {
    if (link->now.first)
        return link->now.first;
    append_list(&link->now, &link->left);
    append_list(&link->now, &link->later);
    link->round++;
    return link->now.first;
}

static bool room_for_waiter(lane_queue *lane) {
    if (lane->waiter_count < lane->waiter_room)
        return true;
    uint32_t room = lane->waiter_room ? lane->waiter_room * 2 : 4;
    mr_task **waiter = mr_realloc(lane->waiter, room * sizeof *waiter);
    if (!waiter)
        return false;
    lane->waiter = waiter;
    lane->waiter_room = room;
    return true;
}

/* Without memory to list it, the producer must try again after a while. */
static void add_waiter(lane_queue *lane, mr_task *producer) {
    static const int64_t again_ns = 1000000;
    for (uint32_t i = 0; i < lane->waiter_count; i++)
        if (lane->waiter[i] == producer)
            return;
    if (producer && room_for_waiter(lane))
        lane->waiter[lane->waiter_count++] = producer;
    else if (producer)
        mr_task_wake_at(producer, mr_executor_now_ns(producer->executor) + again_ns);
}

/* Removes a lane's gaps. Another item may then be first, or none, but the lane stays listed. */
static void forget_gaps(mr_link *link, lane_queue *lane) {
    link->items -= lane->count;
    discard_gap_marks(lane);
    link->items += lane->count;
}

/* Applies the policy to a frame for a full lane. False: the producer must wait. */
static bool admit(mr_link *link, lane_queue *lane, mr_item *item, mr_task *producer) {
    if ((lane->waits_for_key && skips(lane, link->params.stage, item)) ||
        (int)lane->frames < link->params.capacity)
        return true;
    if (link->params.policy == MR_POLICY_BLOCK) {
        add_waiter(lane, producer);
        return false;
    }
    shed(lane, &link->params, item);
    if (!link->params.wants_gaps)
        forget_gaps(link, lane);
    return true;
}

void mr_link_trace(mr_link *link, const mr_link_tracing *tracing) {
    link->tracing = *tracing;
}

const char *mr_link_awaited(const mr_link *link) {
    return link->tracing.awaited;
}

/* Reports the number of frames after a change to one lane. With the lock, so that times stay in order. */
static void trace_lane(mr_link *link, lane_queue *lane) {
    if (lane->frames == lane->reported)
        return;
    link->frames += (int64_t)lane->frames - lane->reported;
    lane->reported = lane->frames;
    mr_trace_value(link->tracing.trace, link->tracing.queue, mr_trace_now_ns(link->tracing.trace), link->frames);
}

static void trace_popped(mr_link *link, const mr_item *items, size_t count) {
    for (size_t i = 0; i < count; i++)
        trace_lane(link, lane_of(link, items[i].source));
}

/* Removes an `away` mark, since the lane is about to get an item. */
static void end_absence(mr_link *link, lane_queue *lane) {
    const mr_item *last = lane->count ? item_at(lane, lane->count - 1) : NULL;
    if (!last || last->kind != MR_ITEM_GAP || !mr_identity_is_away(&last->identity))
        return;
    lane->count--;
    link->items--;
}

/* After this end the lane must behave like a new one. */
static void expect_again(lane_queue *lane) {
    lane->ends_expected = lane->producers;
    lane->cut_short = lane->waits_for_key = false;
}

bool mr_link_put(mr_link *link, mr_item *item, mr_task *producer, bool *news) {
    MR_LOCKED(&link->lock);
    lane_queue *lane = lane_of(link, item->source);
    bool enters = true, admitted = true;
    if (item->kind == MR_ITEM_END) {
        enters = --lane->ends_expected == 0; /* If several producers feed the lane, only the last end concerns the
                                                consumer. */
        item->cut_short = lane->cut_short |= item->cut_short;
        if (enters && item->leaves)
            expect_again(lane);
    } else if (item->kind == MR_ITEM_FRAME)
        enters = admitted = admit(link, lane, item, producer);
    enters &= item->kind != MR_ITEM_GAP || link->params.wants_gaps;
    *news |= enters && (link->items == 0 || link->params.wake_always);
    if (enters) {
        end_absence(link, lane);
        link->items -= lane->count;
        append(lane, item);
        link->items += lane->count;
        list_lane(link, lane);
    }
    if (link->tracing.trace)
        trace_lane(link, lane);
    return admitted;
}

void mr_link_tell(mr_link *link) {
    link->params.wake(link->params.context);
}

/* Takes up to `room` waiting producers, which the caller must wake without the lock, and wakes any others here. All
 * must be woken: the first ones may have nothing left to push. */
static uint32_t take_waiters(mr_link *link, lane_queue *lane, mr_task **tasks, uint32_t room) {
    if ((int)lane->frames > link->params.refill)
        return 0;
    uint32_t count = lane->waiter_count < room ? lane->waiter_count : room;
    memcpy(tasks, lane->waiter, count * sizeof *tasks);
    for (uint32_t i = count; i < lane->waiter_count; i++)
        mr_task_wake(lane->waiter[i]);
    lane->waiter_count = 0;
    return count;
}

static void take_first(mr_link *link, lane_queue *lane, mr_item *item) {
    take_item(lane, item);
    link->items--;
    if (item->kind == MR_ITEM_END && item->leaves)
        link->to_begin++;
    else if (item->kind == MR_ITEM_END)
        link->open--;
}

enum { WAKE_AT_ONCE = 32 };

/* Whether the consumer leaves the lane's first item, a frame, where it is. */
static bool leaves_first(mr_link *link, const lane_queue *lane, mr_link_claim *claim, void *context) {
    const mr_item *first = item_at(lane, 0);
    if (first->kind != MR_ITEM_FRAME || claim(context, first->source))
        return false;
    append_lane(&link->left, take_lane(link));
    return true;
}

/* Takes the first item from the lane being served. A gap or an end is not a turn: otherwise a lane with many of them,
 * which lost frames because it was not served, would also lose turns. */
static inline void take_in_turn(mr_link *link, lane_queue *lane, mr_item *item) {
    take_first(link, lane, item);
    if (item->kind == MR_ITEM_FRAME)
        lane->served = link->round;
    if (item->kind == MR_ITEM_FRAME || !lane->count)
        pass_turn(link, lane);
}

static inline size_t pop(mr_link *link, mr_item *items, size_t count, mr_link_claim *claim, void *context) {
    mr_task *tasks[WAKE_AT_ONCE];
    uint32_t task_count = 0;
    size_t popped = 0;
    const lane_queue *left = NULL; /* the first lane whose frame must stay */
    pthread_mutex_lock(&link->lock);
    while (popped < count && link->items) {
        lane_queue *lane = lane_in_turn(link);
        if (lane == left)
            break;
        if (!lane->count) { /* its gaps were removed */
            pass_turn(link, lane);
            continue;
        }
        if (claim && leaves_first(link, lane, claim, context)) {
            left = left ? left : lane;
            continue;
        }
        take_in_turn(link, lane, &items[popped++]);
        if (lane->waiter_count)
            task_count += take_waiters(link, lane, tasks + task_count, WAKE_AT_ONCE - task_count);
    }
    if (link->tracing.trace)
        trace_popped(link, items, popped);
    pthread_mutex_unlock(&link->lock);
    for (uint32_t i = 0; i < task_count; i++)
        mr_task_wake(tasks[i]);
    return popped;
}

size_t mr_link_pop(mr_link *link, mr_item *items, size_t count) {
    return pop(link, items, count, NULL, NULL);
}

size_t mr_link_pop_claimed(mr_link *link, mr_item *items, size_t count, mr_link_claim *claim, void *context) {
    return pop(link, items, count, claim, context);
}

bool mr_link_has_room(mr_link *link, uint32_t source, uint32_t coming, mr_task *producer) {
    if (link->params.policy != MR_POLICY_BLOCK)
        return true;
    MR_LOCKED(&link->lock);
    lane_queue *lane = lane_of(link, source);
    bool has_room = (int64_t)lane->frames + coming < link->params.capacity;
    if (!has_room)
        add_waiter(lane, producer);
    return has_room;
}

bool mr_link_head(mr_link *link, uint32_t source, mr_item *item) {
    if (!mr_link_has_source(link, source))
        return false;
    MR_LOCKED(&link->lock);
    lane_queue *lane = lane_of(link, source);
    bool some = lane->count > 0;
    if (some)
        *item = *item_at(lane, 0);
    return some;
}

void mr_link_take(mr_link *link, uint32_t source, mr_item *item) {
    mr_task *tasks[WAKE_AT_ONCE];
    pthread_mutex_lock(&link->lock);
    lane_queue *lane = lane_of(link, source);
    take_first(link, lane, item);
    if (link->tracing.trace)
        trace_lane(link, lane);
    uint32_t task_count = lane->waiter_count ? take_waiters(link, lane, tasks, WAKE_AT_ONCE) : 0;
    pthread_mutex_unlock(&link->lock);
    for (uint32_t i = 0; i < task_count; i++)
        mr_task_wake(tasks[i]);
}

uint64_t mr_link_frames(mr_link *link, int *most) {
    uint32_t largest = 0;
    uint64_t frames = 0;
    MR_LOCKED(&link->lock);
    for (size_t i = 0; i < link->params.lane_count; i++) {
        largest = link->lanes[i].most_frames > largest ? link->lanes[i].most_frames : largest;
        frames += link->lanes[i].frames;
    }
    *most = (int)largest;
    return frames;
}

bool mr_link_ended(mr_link *link) {
    MR_LOCKED(&link->lock);
    return link->open == link->to_begin;
}
