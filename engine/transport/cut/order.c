#include "engine/transport/cut/order.h"

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/data/gap.h"
#include "millrace/status.h"

enum { AWAY_PART = 3 };

typedef struct held {
    struct held *next;
    mr_ordered thing;
} held;

/* `sub`: of an object, or of the mark after the last one (gap.h). It is 1 if the next item may be a whole frame or a
 * first object. */
typedef struct place {
    uint32_t epoch;
    uint64_t seq;
    uint32_t sub;
} place;

/* One source. */
typedef struct lane {
    held *first, *last;  /* by position; for one position in order of arrival */
    place next;          /* the next place */
    bool ended;
    int64_t since_ns;    /* the first one waits since then */
} lane;

/* The last place that a process passed on; `known` if there was any. */
typedef struct mark {
    place at;
    bool known;
} mark;

typedef struct peer {
    bool seen, gave;              /* it has connected once, or passed something on */
    bool away;
    int64_t left_ns;              /* `away`: since then */
} peer;

struct mr_order {
    size_t sources, producers, count;
    int64_t patience_ns, calm_ns; /* before calm_ns positions prove nothing */
    int64_t away_ns;              /* how long a process that was there is waited for */
    int64_t begun_ns;             /* the first item came; INT64_MAX: none has */
    lane *lanes;
    mark *marks;                  /* sources x producers */
    mr_order_cuts cuts;
    peer *peers;                  /* by producer */
    held *free;
};

static bool is_before(place a, place b) {
    if (a.epoch != b.epoch)
        return a.epoch < b.epoch;
    return a.seq != b.seq ? a.seq < b.seq : a.sub < b.sub;
}

static place place_of(const mr_ordered *thing) {
    const mr_identity *identity = mr_item_identity(&thing->item);
    return (place){identity->epoch, identity->seq, identity->sub};
}

/* The place in a row without the numbers that only marks have: the end of n objects is like object n + 1, and other
 * marks are like whole frames. */
static place row_of(place at) {
    const mr_identity identity = {.sub = at.sub};
    if (mr_identity_ends_objects(&identity))
        at.sub = mr_identity_objects(&identity) + 1;
    else if (at.sub >= MR_SUB_OBJECTS)
        at.sub = 0;
    return at;
}

/* What follows it directly. */
static place after(place at, bool rest) {
    if (rest)
        return (place){at.epoch + 1, 0, 1};
    return at.sub && at.sub < MR_SUB_OBJECTS ? (place){at.epoch, at.seq, at.sub + 1} : (place){at.epoch, at.seq + 1, 1};
}

static bool is_rest(const mr_ordered *thing) {
    return thing->item.kind == MR_ITEM_GAP && thing->item.identity.sub == MR_SUB_REST;
}

int mr_order_create(mr_order **order, size_t sources, size_t producers, int64_t patience_ns, mr_order_cuts cuts) {
    mr_order *made = mr_calloc(1, sizeof *made);
    if (!made)
        goto fail;
    made->sources = sources;
    made->producers = producers;
    made->patience_ns = patience_ns;
    made->away_ns = cuts == MR_ORDER_ALL_LIVE ? patience_ns / AWAY_PART : patience_ns;
    made->cuts = cuts;
    made->begun_ns = INT64_MAX;
    made->lanes = mr_calloc(sources, sizeof *made->lanes);
    for (size_t s = 0; made->lanes && s < sources; s++)
        made->lanes[s].next.sub = 1;
    made->marks = mr_calloc(sources * producers, sizeof *made->marks);
    made->peers = mr_calloc(producers, sizeof *made->peers);
    if (!made->lanes || !made->marks || !made->peers)
        goto fail;
    *order = made;
    return MR_OK;
fail:
    mr_order_destroy(&made);
    return mr_fail(MR_ERROR_MEMORY, "no memory to put frames in order");
}

void mr_order_destroy(mr_order **order) {
    mr_order *gone = *order;
    *order = NULL;
    if (!gone)
        return;
    while (gone->free) {
        held *next = gone->free->next;
        mr_free(gone->free);
        gone->free = next;
    }
    mr_free(gone->lanes);
    mr_free(gone->marks);
    mr_free(gone->peers);
    mr_free(gone);
}

static held *new_held(mr_order *order) {
    held *made = order->free;
    if (!made)
        return mr_alloc(sizeof *made);
    order->free = made->next;
    return made;
}

static void insert(lane *of, held *new) {
    const place at = place_of(&new->thing);
    held **end = &of->first;
    if (of->last && !is_before(at, place_of(&of->last->thing)))
        end = &of->last->next;
    while (*end && !is_before(at, place_of(&(*end)->thing)))
        end = &(*end)->next;
    new->next = *end;
    *end = new;
    if (!new->next)
        of->last = new;
}

int mr_order_put(mr_order *order, size_t producer, const mr_ordered *thing, int64_t now_ns) {
    lane *of = &order->lanes[thing->item.source];
    mark *given = &order->marks[thing->item.source * order->producers + producer];
    held *new = new_held(order), *first = of->first;
    if (!new)
        return mr_fail(MR_ERROR_MEMORY, "no memory to put frames in order");
    new->thing = *thing;
    insert(of, new);
    if (of->first != first)
        of->since_ns = now_ns;
    if (!given->known || is_before(given->at, place_of(thing)))
        *given = (mark){place_of(thing), true};
    order->peers[producer].gave = true;
    order->begun_ns = mr_earlier_ns(order->begun_ns, now_ns);
    order->count++;
    return MR_OK;
}

static bool is_waited_for(const mr_order *order, size_t producer, int64_t now_ns) {
    const peer *of = &order->peers[producer];
    const bool came = of->seen || of->gave;
    return came ? !of->away || now_ns - of->left_ns < order->away_ns : now_ns - order->begun_ns < order->patience_ns;
}

/* Whether all that are waited for have passed on that place or later ones. */
static bool is_passed(const mr_order *order, uint32_t source, place at, int64_t now_ns) {
    const mark *given = &order->marks[source * order->producers];
    for (size_t g = 0; g < order->producers; g++)
        if (is_waited_for(order, g, now_ns) && (!given[g].known || is_before(given[g].at, at)))
            return false;
    return true;
}

static bool has_turn(const mr_order *order, uint32_t source, place at, int64_t now_ns) {
    const lane *of = &order->lanes[source];
    return of->ended || !is_before(of->next, row_of(at)) || now_ns - of->since_ns >= order->patience_ns ||
           (now_ns >= order->calm_ns && is_passed(order, source, at, now_ns));
}

bool mr_order_next(mr_order *order, uint32_t source, int64_t now_ns, mr_ordered *thing) {
    lane *of = &order->lanes[source];
    held *first = of->first;
    if (!first || !has_turn(order, source, place_of(&first->thing), now_ns))
        return false;
    const place at = place_of(&first->thing);
    *thing = first->thing;
    of->first = first->next;
    if (!of->first)
        of->last = NULL;
    if (!is_before(after(at, is_rest(thing)), of->next))
        of->next = after(at, is_rest(thing));
    of->since_ns = now_ns;
    first->next = order->free;
    order->free = first;
    order->count--;
    return true;
}

void mr_order_end(mr_order *order, uint32_t source) {
    order->lanes[source].ended = true;
}

void mr_order_disturb(mr_order *order, size_t producer, bool connected, int64_t now_ns) {
    peer *of = &order->peers[producer];
    /* Where a first connection comes late, nobody could take frames; where all cuts are live, none is sent again. */
    if (order->cuts == MR_ORDER_NONE_LIVE || (order->cuts == MR_ORDER_SOME_LIVE && of->seen))
        order->calm_ns = now_ns + order->patience_ns;
    if (!of->away && !connected)
        of->left_ns = now_ns;
    of->away = !connected;
    of->seen = true;
    for (size_t s = 0; s < order->sources; s++)
        order->marks[s * order->producers + producer].known = false;
}

int64_t mr_order_wake_ns(const mr_order *order, int64_t now_ns) {
    int64_t wake_ns = INT64_MAX;
    for (size_t g = 0; order->count && g < order->producers; g++) {
        const peer *of = &order->peers[g];
        if (of->away && of->left_ns + order->away_ns > now_ns)
            wake_ns = mr_earlier_ns(wake_ns, of->left_ns + order->away_ns);
    }
    for (size_t s = 0; order->count && s < order->sources; s++) {
        const lane *of = &order->lanes[s];
        if (of->first && of->since_ns + order->patience_ns < wake_ns)
            wake_ns = of->since_ns + order->patience_ns;
    }
    return wake_ns;
}
