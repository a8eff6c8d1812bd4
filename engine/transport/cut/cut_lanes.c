#include "engine/transport/cut/cut_lanes.h"

#include "engine/base/memory.h"
#include "engine/flow/link/link.h"
#include "engine/transport/cut/cut_end.h"

/* A frame that a process had when it died is sent to another once that process was silent for a while; later frames
 * wait for it for a multiple of that time. */
enum { PATIENT_SILENCES = 3 };

/* Frames that wait for room in the inlet. */
typedef struct waiting {
    struct waiting *next;
    mr_item item;
    uint64_t ticket;
    bool counted; /* credit must come back */
} waiting;

/* One source. */
typedef struct lane {
    bool comes;
    bool ended;         /* the end is in the inlet, or on the way there, */
    bool cut_short;     /* and its source was stopped */
    bool away;          /* so is the mark away, as the last item */
    int64_t entered_ns; /* when something last was */
    waiting *first, **last;
} lane;

struct mr_cut_lanes {
    mr_instance *instance;
    mr_receiver *receiver;
    mr_task *room;
    mr_order *order;    /* NULL: frames come in order */
    waiting *free;
    uint64_t progress;
    int64_t patience_ns; /* how long nothing may come while a process is missing; 0: without end */
    int64_t missing_ns; /* one is since then; 0: all are there */
    bool news;          /* consumers are to be woken for the pushed frames */
    size_t ends;        /* sources that are in the inlet, or on the way there */
    size_t count;
    lane lane[];        /* by source */
};

/* ---- into the inlet ---------------------------------------------------------------------------------------------- */

static bool push(mr_cut_lanes *lanes, mr_item *item, uint64_t ticket, bool counted) {
    if (!mr_link_put(mr_inlets_link(&lanes->instance->inlets, 0), item, lanes->room, &lanes->news))
        return false;
    if (counted)
        mr_receiver_take(lanes->receiver, ticket);
    lanes->progress++;
    return true;
}

void mr_cut_lanes_report(mr_cut_lanes *lanes) {
    if (lanes->news)
        mr_link_tell(mr_inlets_link(&lanes->instance->inlets, 0));
    lanes->news = false;
}

static waiting *new_waiting(mr_cut_lanes *lanes) {
    waiting *made = lanes->free;
    if (made)
        lanes->free = made->next;
    else
        made = mr_alloc(sizeof *made);
    return made;
}

/* Pushes waiting frames, as far as there is room. */
static void push_waiting(mr_cut_lanes *lanes, lane *of) {
    while (of->first && push(lanes, &of->first->item, of->first->ticket, of->first->counted)) {
        waiting *gone = of->first;
        of->first = gone->next;
        if (!of->first)
            of->last = &of->first;
        gone->next = lanes->free;
        lanes->free = gone;
    }
}

/* Pushes the item, or queues it. False: no memory. */
static bool enter(mr_cut_lanes *lanes, mr_item *item, uint64_t ticket, bool counted, int64_t now_ns) {
    lane *of = &lanes->lane[item->source];
    of->entered_ns = item->entered_ns = now_ns;
    of->away = item->kind == MR_ITEM_GAP && mr_identity_is_away(&item->identity);
    if (!of->first && push(lanes, item, ticket, counted))
        return true;
    waiting *made = new_waiting(lanes);
    if (!made)
        return false;
    *made = (waiting){.item = *item, .ticket = ticket, .counted = counted};
    *of->last = made;
    of->last = &made->next;
    return true;
}

static void enter_or_drop(mr_cut_lanes *lanes, mr_ordered *thing, int64_t now_ns) {
    mr_frame *frame = thing->item.frame;
    if (enter(lanes, &thing->item, thing->ticket, thing->counted, now_ns) || !frame)
        return;
    mr_receipt_note(frame->receipt, MR_NOTE_DROPPED, lanes->instance->vertex->id, "out of memory");
    mr_receiver_take(lanes->receiver, thing->ticket);
    mr_frame_unref(&frame);
}

static void enter_ordered(mr_cut_lanes *lanes, uint32_t source, int64_t now_ns) {
    mr_ordered thing;
    while (lanes->order && mr_order_next(lanes->order, source, now_ns, &thing))
        enter_or_drop(lanes, &thing, now_ns);
}

/* ---- what comes -------------------------------------------------------------------------------------------------- */

bool mr_cut_lanes_take(const mr_cut_lanes *lanes, uint32_t source) {
    return lanes->lane[source].comes;
}

bool mr_cut_lanes_open(const mr_cut_lanes *lanes, uint32_t source) {
    return !lanes->lane[source].ended;
}

bool mr_cut_lanes_cut_short(const mr_cut_lanes *lanes, uint32_t source) {
    return lanes->lane[source].cut_short;
}

void mr_cut_lanes_put(mr_cut_lanes *lanes, size_t producer, mr_ordered *thing, int64_t now_ns) {
    /* That one of several processes receives nothing does not mean that the others receive nothing. */
    if (lanes->order && thing->item.kind == MR_ITEM_GAP && mr_identity_is_away(&thing->item.identity))
        return;
    if (lanes->order && !mr_order_put(lanes->order, producer, thing, now_ns))
        enter_ordered(lanes, thing->item.source, now_ns);
    else
        enter_or_drop(lanes, thing, now_ns);
}

void mr_cut_lanes_end(mr_cut_lanes *lanes, uint32_t source, bool cut_short, int64_t now_ns) {
    if (lanes->order)
        mr_order_end(lanes->order, source);
    enter_ordered(lanes, source, now_ns);
    mr_item end = {.kind = MR_ITEM_END, .source = source, .cut_short = cut_short};
    if (!lanes->lane[source].ended && !enter(lanes, &end, 0, false, now_ns))
        /* An end needs no room: it only comes too early. */
        mr_link_push(mr_inlets_link(&lanes->instance->inlets, 0), &end, NULL);
    lanes->ends += !lanes->lane[source].ended;
    lanes->lane[source].ended = true;
    lanes->lane[source].cut_short |= cut_short;
}

void mr_cut_lanes_end_all(mr_cut_lanes *lanes, bool cut_short, int64_t now_ns) {
    for (uint32_t s = 0; s < lanes->count; s++)
        if (lanes->lane[s].comes)
            mr_cut_lanes_end(lanes, s, cut_short, now_ns);
    mr_cut_lanes_report(lanes);
}

static void look_at_absence(mr_cut_lanes *lanes, int64_t now_ns, int64_t *wake_ns) {
    if (!lanes->patience_ns || !mr_receiver_lacks(lanes->receiver)) {
        lanes->missing_ns = 0;
        return;
    }
    lanes->missing_ns = lanes->missing_ns ? lanes->missing_ns : now_ns;
    for (uint32_t s = 0; s < lanes->count; s++) {
        lane *of = &lanes->lane[s];
        int64_t since_ns = of->entered_ns > lanes->missing_ns ? of->entered_ns : lanes->missing_ns;
        mr_item away = {.kind = MR_ITEM_GAP, .source = s, .identity = mr_identity_away(s)};
        if (!of->comes || of->ended || of->away)
            continue;
        if (now_ns - since_ns >= lanes->patience_ns)
            of->away = enter(lanes, &away, 0, false, now_ns);
        else
            *wake_ns = mr_earlier_ns(*wake_ns, since_ns + lanes->patience_ns);
    }
}

void mr_cut_lanes_work(mr_cut_lanes *lanes, int64_t now_ns, int64_t *wake_ns) {
    for (uint32_t s = 0; s < lanes->count; s++) {
        if (lanes->lane[s].first)
            push_waiting(lanes, &lanes->lane[s]);
        enter_ordered(lanes, s, now_ns);
    }
    look_at_absence(lanes, now_ns, wake_ns);
    mr_cut_lanes_report(lanes);
    if (lanes->order)
        *wake_ns = mr_earlier_ns(*wake_ns, mr_order_wake_ns(lanes->order, now_ns));
}

void mr_cut_lanes_disturb(mr_cut_lanes *lanes, size_t producer, bool connected, int64_t now_ns) {
    if (lanes->order)
        mr_order_disturb(lanes->order, producer, connected, now_ns);
}

static void drop_lane(mr_cut_lanes *lanes, lane *of) {
    while (of->first) {
        waiting *gone = of->first;
        of->first = gone->next;
        if (gone->item.kind == MR_ITEM_FRAME)
            mr_receipt_note(gone->item.frame->receipt, MR_NOTE_DROPPED, lanes->instance->vertex->id,
                            MR_REASON_STOPPED);
        mr_frame_unref(&gone->item.frame);
        if (gone->item.kind == MR_ITEM_END)
            mr_link_push(mr_inlets_link(&lanes->instance->inlets, 0), &gone->item, NULL);
        mr_free(gone);
    }
    of->last = &of->first;
}

void mr_cut_lanes_drop(mr_cut_lanes *lanes, int64_t now_ns) {
    for (uint32_t s = 0; s < lanes->count; s++) {
        if (lanes->order)
            mr_order_end(lanes->order, s);
        enter_ordered(lanes, s, now_ns);
        drop_lane(lanes, &lanes->lane[s]);
    }
    mr_cut_lanes_report(lanes);
}

uint64_t mr_cut_lanes_progress(const mr_cut_lanes *lanes) {
    return lanes->progress;
}

bool mr_cut_lanes_ended(const mr_cut_lanes *lanes) {
    return lanes->ends == lanes->instance->vertex->source_count;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static int create_order(mr_cut_lanes *lanes, const mr_cut *cut, int64_t patience_ns) {
    if (!mr_cut_restores_order(cut))
        return MR_OK;
    return mr_order_create(&lanes->order, cut->source_count, cut->connect_count, patience_ns,
                           mr_cut_live_ones(lanes->instance->run->plan));
}

int mr_cut_lanes_create(mr_cut_lanes **lanes, mr_instance *instance, const mr_cut *cut, mr_receiver *receiver,
                        mr_task *room) {
    const mr_plan_vertex *vertex = instance->vertex;
    mr_cut_lanes *made = mr_calloc(1, sizeof *made + cut->source_count * sizeof *made->lane);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %s", vertex->id);
    made->instance = instance;
    made->receiver = receiver;
    made->room = room;
    made->count = cut->source_count;
    for (size_t s = 0; s < made->count; s++)
        made->lane[s].last = &made->lane[s].first;
    for (size_t i = 0; i < vertex->source_count; i++)
        made->lane[vertex->sources[i]].comes = true;
    int64_t silence_ns = mr_cut_times_of(cut).session.silence_ns;
    int64_t patience_ns = mr_cut_restores_order(cut) ? PATIENT_SILENCES * silence_ns : silence_ns;
    made->patience_ns = cut->mode == MR_CUT_LIVE && mr_outlets_mark_gaps(&instance->outlets) ? patience_ns : 0;
    int status = create_order(made, cut, patience_ns);
    if (status)
        mr_cut_lanes_destroy(&made);
    else
        *lanes = made;
    return status;
}

void mr_cut_lanes_destroy(mr_cut_lanes **lanes) {
    mr_cut_lanes *gone = *lanes;
    *lanes = NULL;
    if (!gone)
        return;
    mr_cut_lanes_drop(gone, 0);
    while (gone->free) {
        waiting *next = gone->free->next;
        mr_free(gone->free);
        gone->free = next;
    }
    mr_order_destroy(&gone->order);
    mr_free(gone);
}
