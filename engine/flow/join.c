#include "engine/flow/join.h"

#include "engine/data/gap.h"
#include "engine/flow/input.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/copy.h"
#include "engine/flow/run/control.h"
#include "engine/flow/settle.h"

/* Joins: a stage with several input ports gets one frame from each, matched by identity.
 *
 * Within a source, every port delivers frames in identity order, so a join compares only the first item in each lane.
 * If all are equal, they go together; otherwise the smallest can have no partner. A gap says so before a later frame
 * arrives; an end says it for all later frames. If a port's lane is `away` (gap.h), no frame has a partner while that
 * mark is there. Frames on other ports are passed over at once, and the mark stays until another item replaces it. */
typedef enum verdict { WAITS, TAKEN, PASSED } verdict;

/* Each port's state for one source. */
typedef struct heads {
    mr_item item[MR_MAX_PORTS];
    size_t missing; /* ports with an empty lane */
    size_t ended;   /* ports at their end */
    size_t away;    /* ports whose last mark is away */
    const mr_identity *first; /* the smallest identity among frames and other gaps; NULL: none */
} heads;

static void look(mr_instance *instance, uint32_t source, heads *at) {
    *at = (heads){0};
    for (size_t port = 0; port < mr_inlets_count(&instance->inlets); port++) {
        mr_item *item = &at->item[port];
        item->kind = MR_ITEM_END;
        bool comes = mr_link_has_source(mr_inlets_link(&instance->inlets, port), source);
        if (comes && !mr_link_head(mr_inlets_link(&instance->inlets, port), source, item))
            at->missing++;
        else if (item->kind == MR_ITEM_END)
            at->ended++;
        else if (item->kind == MR_ITEM_GAP && mr_identity_is_away(&item->identity))
            at->away++;
        else if (!at->first || mr_identity_compare(mr_item_identity(item), at->first) < 0)
            at->first = mr_item_identity(item);
    }
}

static bool stands_at(const mr_item *item, const mr_identity *identity) {
    return item->kind != MR_ITEM_END && mr_identity_compare(mr_item_identity(item), identity) == 0;
}

/* True if each port's first item is the frame `first`. */
static bool all_match(const mr_instance *instance, const heads *at) {
    for (size_t port = 0; port < mr_inlets_count(&instance->inlets); port++)
        if (at->item[port].kind != MR_ITEM_FRAME || !stands_at(&at->item[port], at->first))
            return false;
    return true;
}

/* Takes the items at `first`; they have no partner on the other ports. */
static void pass_over(mr_instance *instance, mr_slot *slot, uint32_t source, heads *at) {
    mr_identity first = *at->first;
    bool absorbed = true; /* wherever no frame came */
    for (size_t port = 0; port < mr_inlets_count(&instance->inlets); port++) {
        mr_item item;
        const bool stands = stands_at(&at->item[port], &first);
        absorbed &= stands && (at->item[port].kind == MR_ITEM_FRAME || at->item[port].absorbed);
        if (!stands)
            continue;
        mr_link_take(mr_inlets_link(&instance->inlets, port), source, &item);
        if (item.kind != MR_ITEM_FRAME)
            continue;
        mr_receipt_note(item.frame->receipt, MR_NOTE_ABSORBED, instance->self.id, "unmatched");
        mr_frame_unref(&item.frame);
    }
    mr_item gap = {.kind = MR_ITEM_GAP, .source = source, .identity = first, .absorbed = absorbed};
    if (mr_outlets_mark_gaps(&instance->outlets))
        mr_slot_add_mark(slot, &gap);
}

/* Whether all matching frames are ready: 1, or mr_input_ready's answer for the first that is not. */
static int all_ready(const mr_instance *instance, const mr_slot *slot, const heads *at, mr_entry_task *entry,
                     size_t place, const mr_frame **failed) {
    for (size_t port = 0; port < mr_inlets_count(&instance->inlets); port++) {
        int ready = mr_input_ready(slot, at->item[port].frame, entry, place);
        if (ready != 1) {
            *failed = at->item[port].frame;
            return ready;
        }
    }
    return 1;
}

/* A frame that came back from another node has a separate receipt, and the joined frame can hold only one. The others
 * get the outcome "joined"; so do all, if nothing graver follows. */
static void note_joined(const mr_instance *instance, mr_receipt *first, mr_receipt *other) {
    if (other == first)
        return;
    mr_receipt_note(first, MR_NOTE_ABSORBED, instance->self.id, "joined");
    mr_receipt_note(other, MR_NOTE_ABSORBED, instance->self.id, "joined");
}

/* With a reason, the frames are settled and go no further. */
static void take_all(mr_instance *instance, mr_slot *slot, uint32_t source, mr_note note, const char *stage,
                     const char *reason) {
    mr_receipt *first = NULL;
    for (size_t port = 0; port < mr_inlets_count(&instance->inlets); port++) {
        mr_item item;
        mr_link_take(mr_inlets_link(&instance->inlets, port), source, &item);
        if (!reason) {
            first = port == 0 ? item.frame->receipt : first;
            mr_again_note(&instance->again, item.frame);
            note_joined(instance, first, item.frame->receipt);
            mr_slot_add_frame(slot, &item);
            continue;
        }
        if (port == 0)
            mr_settle_frame(instance, slot, item.frame, note, stage, reason);
        else
            mr_receipt_note(item.frame->receipt, note, stage, reason);
        if (note == MR_NOTE_ABSORBED)
            mr_input_await_former(instance, item.frame);
        mr_frame_unref(&item.frame);
    }
}

static verdict take_match(mr_instance *instance, mr_slot *slot, size_t turn, const heads *at, mr_entry_task *entry) {
    uint32_t source = instance->vertex->sources[turn];
    size_t place = instance->self.source == MR_SOURCE_NONE ? turn : 0;
    const mr_frame *failed = NULL;
    if (mr_parts_count(&instance->parts) > 1)
        slot->device_number = mr_shares_choose(&instance->shares, mr_copy_device(at->item[0].frame));
    int ready = all_ready(instance, slot, at, entry, place, &failed);
    if (ready == 0)
        return WAITS;
    const char *stage = instance->self.id, *reason = NULL;
    if (mr_shedder_sheds(&instance->shedder))
        reason = mr_shedder_refusal(&instance->shedder, at->item[0].frame);
    if (mr_control_is_cancelled(instance->run)) {
        reason = MR_REASON_STOPPED;
    } else if (ready < 0) {
        stage = mr_event_stage(failed->ready)->id;
        reason = "device error";
    }
    mr_note note = MR_NOTE_DROPPED;
    if (!reason && mr_input_is_left_out(instance, at->item[0].frame)) {
        note = MR_NOTE_ABSORBED;
        reason = MR_REASON_DONE_BEFORE;
    }
    if (!reason && !mr_input_claim(entry, source))
        return WAITS;
    take_all(instance, slot, source, note, stage, reason);
    return reason ? PASSED : TAKEN;
}

static void take_ends(mr_instance *instance, mr_slot *slot, uint32_t source) {
    mr_item end;
    for (size_t port = 0; port < mr_inlets_count(&instance->inlets); port++)
        if (mr_link_has_source(mr_inlets_link(&instance->inlets, port), source))
            mr_link_take(mr_inlets_link(&instance->inlets, port), source, &end);
    mr_slot_add_mark(slot, &end);
}

/* There is no frame, and every port is away: later joins need not wait either. Reported once. */
static void pass_absence_on(mr_instance *instance, mr_slot *slot, uint32_t source, size_t turn) {
    mr_item away = {.kind = MR_ITEM_GAP, .source = source, .identity = mr_identity_away(source)};
    if (mr_inlets_note_away(&instance->inlets, turn, true) && mr_outlets_mark_gaps(&instance->outlets))
        mr_slot_add_mark(slot, &away);
}

/* Advances one source by one identity. */
static verdict advance(mr_instance *instance, mr_slot *slot, size_t turn, mr_entry_task *entry) {
    uint32_t source = instance->vertex->sources[turn];
    heads at;
    look(instance, source, &at);
    if (at.missing)
        return WAITS;
    if (at.away && !at.first) {
        pass_absence_on(instance, slot, source, turn);
        return WAITS;
    }
    mr_inlets_note_away(&instance->inlets, turn, false);
    if (at.ended == mr_inlets_count(&instance->inlets)) {
        take_ends(instance, slot, source);
        return TAKEN;
    }
    if (all_match(instance, &at))
        return take_match(instance, slot, turn, &at, entry);
    pass_over(instance, slot, source, &at);
    return PASSED;
}

/* ---- gathering: frames on the first port, the frames of their objects on the second ------------------------------ *
 *
 * A frame 5 has objects 5.1, 5.2 and so on (mr_identity.sub), and then a mark that ends them, also if there are none
 * (gap.h). Objects that are lost on the way leave gaps. Each port delivers in order, so the first items decide:
 *
 *   an object of the frame             goes into a call, alone
 *   the mark, or anything of a later   the frame is complete and goes into a call
 *   frame, an end, or `away`
 *   `renewed`                          another process makes the frame again, with all objects: absorbed
 *   an object of an earlier frame      has no frame: absorbed as "unmatched"
 *
 * So a frame never waits for an object that cannot come, and passes with those that came. A frame that was dropped on
 * the way to the split leaves a gap on the second port, and completes the frame as the mark does. The mark says how
 * many objects there were, and a gap whether a stage has absorbed the object: the stage can ask whether any was lost
 * (mr_io_lost_objects). */

enum { FRAMES, OBJECTS };

typedef enum standing { MISSING, ITEM, ENDED, AWAY } standing;

typedef struct head {
    standing is;
    mr_item item; /* ITEM */
} head;

static head look_at(mr_instance *instance, uint32_t source, size_t port) {
    mr_link *link = mr_inlets_link(&instance->inlets, port);
    head found = {.is = ENDED};
    if (!mr_link_has_source(link, source))
        return found;
    if (!mr_link_head(link, source, &found.item))
        found.is = MISSING;
    else if (found.item.kind == MR_ITEM_GAP && mr_identity_is_away(&found.item.identity))
        found.is = AWAY;
    else if (found.item.kind != MR_ITEM_END)
        found.is = ITEM;
    return found;
}

/* Whether the object belongs to an earlier frame (below 0), to this one (0), or to a later one. */
static int compare(const head *object, const head *frame) {
    mr_identity a = *mr_item_identity(&object->item), b = *mr_item_identity(&frame->item);
    a.sub = b.sub = 0;
    return mr_identity_compare(&a, &b);
}

static bool is_object(const head *at) {
    const uint32_t sub = mr_item_identity(&at->item)->sub;
    return sub > 0 && sub <= MR_MOST_OBJECTS;
}

/* Takes an item that belongs to no frame: an object, or a gap, whose frame is not there; more objects than a frame may
 * have; an object among the frames. Another node may send those. */
static verdict pass_unmatched(mr_instance *instance, uint32_t source, size_t port) {
    mr_item item;
    mr_link_take(mr_inlets_link(&instance->inlets, port), source, &item);
    if (item.kind == MR_ITEM_FRAME) {
        mr_receipt_note(item.frame->receipt, MR_NOTE_ABSORBED, instance->self.id, "unmatched");
        mr_frame_unref(&item.frame);
    }
    return PASSED;
}

/* Takes an item of a source that has objects here but no frames: a later join must not wait for these. */
static verdict pass_frameless(mr_instance *instance, mr_slot *slot, uint32_t source, const head *object) {
    mr_item gap = {.kind = MR_ITEM_GAP, .source = source, .identity = *mr_item_identity(&object->item),
                   .absorbed = true};
    const bool one = is_object(object);
    if (mr_identity_ends_objects(&gap.identity))
        gap.identity.sub = 0;
    pass_unmatched(instance, source, OBJECTS);
    if (!one && mr_outlets_mark_gaps(&instance->outlets))
        mr_slot_add_mark(slot, &gap);
    return PASSED;
}

/* `both`: the mark among the objects says the same. It must go too: if it says `renewed` (gap.h), it sorts after all
 * frames, and would part them from their objects. */
static verdict pass_gap(mr_instance *instance, mr_slot *slot, uint32_t source, bool both) {
    mr_item gap;
    if (both)
        pass_unmatched(instance, source, OBJECTS);
    mr_link_take(mr_inlets_link(&instance->inlets, FRAMES), source, &gap);
    if (mr_outlets_mark_gaps(&instance->outlets))
        mr_slot_add_mark(slot, &gap);
    return PASSED;
}

/* Why a frame or an object must not be processed; NULL if it may. */
static const char *refusal(mr_instance *instance, const mr_frame *frame, int ready, bool object) {
    if (mr_control_is_cancelled(instance->run))
        return MR_REASON_STOPPED;
    if (ready < 0)
        return "device error";
    if (!object && mr_shedder_sheds(&instance->shedder))
        return mr_shedder_refusal(&instance->shedder, frame);
    return NULL;
}

/* Takes the first item of a port for a call of its own. */
static verdict take(mr_instance *instance, mr_slot *slot, mr_entry_task *entry, size_t port,
                            const mr_item *first, mr_receipt *of) {
    if (mr_parts_count(&instance->parts) > 1)
        slot->device_number = mr_shares_choose(&instance->shares, mr_copy_device(first->frame));
    const int ready = mr_input_ready(slot, first->frame, entry, 0);
    if (ready == 0)
        return WAITS;
    const char *reason = refusal(instance, first->frame, ready, port == OBJECTS);
    const char *stage = ready < 0 ? mr_event_stage(first->frame->ready)->id : instance->self.id;
    const bool left_out = !reason && port == FRAMES && mr_input_is_left_out(instance, first->frame);
    mr_item item;
    mr_link_take(mr_inlets_link(&instance->inlets, port), first->source, &item);
    if (reason || left_out) {
        mr_settle_frame(instance, slot, item.frame, reason ? MR_NOTE_DROPPED : MR_NOTE_ABSORBED, stage,
                        reason ? reason : MR_REASON_DONE_BEFORE);
        mr_frame_unref(&item.frame);
        return PASSED;
    }
    if (port == OBJECTS)
        mr_receipt_gather(of, item.frame->receipt, (uint64_t)instance->vertex->handling.kept);
    mr_slot_add_frame(slot, &item);
    return TAKEN;
}

static verdict take_object(mr_instance *instance, mr_slot *slot, size_t turn, mr_entry_task *entry,
                           const mr_item *object, mr_receipt *of) {
    const mr_identity identity = object->frame->identity;
    verdict found = take(instance, slot, entry, OBJECTS, object, of);
    if (found == TAKEN)
        mr_inlets_note_object(&instance->inlets, turn, &identity);
    return found;
}

/* Whether not all objects of a frame came before this mark. A mark that does not end objects says that the frame was
 * lost before the split. */
static bool lacks_objects(const mr_instance *instance, size_t turn, const mr_identity *mark) {
    return !mr_identity_ends_objects(mark) ||
           mr_inlets_objects(&instance->inlets, turn, mark) < mr_identity_objects(mark);
}

/* The rest of the frame's objects was lost with the process that made them, and another one makes the frame again. */
static bool is_made_again(const head *object) {
    return object->is == ITEM && object->item.kind == MR_ITEM_GAP && mr_identity_is_renewed(&object->item.identity);
}

static verdict pass_former(mr_instance *instance, mr_slot *slot, uint32_t source) {
    mr_item item;
    mr_link_take(mr_inlets_link(&instance->inlets, FRAMES), source, &item);
    mr_settle_frame(instance, slot, item.frame, MR_NOTE_ABSORBED, instance->self.id, MR_REASON_MADE_AGAIN);
    mr_frame_unref(&item.frame);
    return PASSED;
}

/* Advances one source by one item. */
static verdict advance_objects(mr_instance *instance, mr_slot *slot, size_t turn, mr_entry_task *entry) {
    const uint32_t source = instance->vertex->sources[turn];
    const head frame = look_at(instance, source, FRAMES), object = look_at(instance, source, OBJECTS);
    if (frame.is == MISSING || object.is == MISSING)
        return WAITS;
    if (frame.is != ITEM && object.is != ITEM && (frame.is == AWAY || object.is == AWAY)) {
        pass_absence_on(instance, slot, source, turn);
        return WAITS;
    }
    mr_inlets_note_away(&instance->inlets, turn, false);
    if (frame.is != ITEM && object.is != ITEM) {
        take_ends(instance, slot, source);
        return TAKEN;
    }
    if (frame.is == ITEM && frame.item.kind == MR_ITEM_FRAME && frame.item.frame->identity.sub)
        return pass_unmatched(instance, source, FRAMES);
    if (!mr_link_has_source(mr_inlets_link(&instance->inlets, FRAMES), source))
        return pass_frameless(instance, slot, source, &object);
    const int order = frame.is != ITEM ? -1 : object.is != ITEM ? 1 : compare(&object, &frame);
    if (order < 0)
        return pass_unmatched(instance, source, OBJECTS);
    if (order == 0 && is_object(&object) && object.item.kind == MR_ITEM_GAP && object.item.absorbed)
        mr_inlets_note_object(&instance->inlets, turn, &object.item.identity);
    if (order == 0 && is_object(&object))
        return frame.item.kind == MR_ITEM_FRAME && object.item.kind == MR_ITEM_FRAME
                   ? take_object(instance, slot, turn, entry, &object.item, frame.item.frame->receipt)
                   : pass_unmatched(instance, source, OBJECTS);
    if (order == 0 && object.item.kind == MR_ITEM_FRAME)
        return pass_unmatched(instance, source, OBJECTS);
    if (frame.item.kind != MR_ITEM_FRAME)
        return pass_gap(instance, slot, source, order == 0);
    if (order > 0 && is_made_again(&object))
        return pass_former(instance, slot, source);
    slot->lost = order > 0 || lacks_objects(instance, turn, &object.item.identity);
    return take(instance, slot, entry, FRAMES, &frame.item, NULL);
}

/* ---- all sources ------------------------------------------------------------------------------------------------- */

/* A slot's marks follow its frames. A `lost` mark says what came before it, so no later frame may join it. */
static bool must_leave(const mr_slot *slot) {
    const mr_item *last = slot->mark_count ? &slot->marks[slot->mark_count - 1] : NULL;
    return last && last->kind == MR_ITEM_GAP && mr_identity_is_lost(&last->identity);
}

bool mr_instance_join(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    const bool gathers = instance->self.type->cascade == MR_CASCADE_GATHER;
    size_t count = instance->vertex->source_count;
    for (size_t i = 0; i < count; i++) {
        /* Sources take turns: start after the one served last. */
        size_t turn = mr_inlets_turn(&instance->inlets, i);
        uint32_t source = instance->vertex->sources[turn];
        if (instance->self.source != MR_SOURCE_NONE && source != instance->self.source)
            continue;
        verdict found;
        do
            found = gathers ? advance_objects(instance, slot, turn, entry) : advance(instance, slot, turn, entry);
        while (found == PASSED && !must_leave(slot));
        if (found == TAKEN || must_leave(slot)) {
            mr_inlets_end_turn(&instance->inlets, turn);
            return true;
        }
    }
    /* Gaps from dropped frames must not wait for the next match: a later join needs them now. */
    return slot->mark_count > 0 || slot->output_count > 0;
}
