#include "engine/flow/join.h"

#include "engine/flow/input.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/copy.h"
#include "engine/flow/join_objects.h"
#include "engine/flow/run/control.h"
#include "engine/flow/settle.h"

/* Joins: a stage with several input ports gets one frame from each, matched by identity.
 *
 * Within a source, every port delivers frames in identity order, so a join compares only the first item in each lane.
 * If all are equal, they go together; otherwise the smallest can have no partner. A gap says so before a later frame
 * arrives; an end says it for all later frames. If a port's lane is `away` (gap.h), no frame has a partner while that
 * mark is there. Frames on other ports are passed over at once, and the mark stays until another item replaces it. */
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
    for (size_t port = 0; port < mr_inlets_count(&instance->inlets); port++) {
        mr_item item;
        if (!stands_at(&at->item[port], &first))
            continue;
        mr_link_take(mr_inlets_link(&instance->inlets, port), source, &item);
        if (item.kind != MR_ITEM_FRAME)
            continue;
        mr_receipt_note(item.frame->receipt, MR_NOTE_ABSORBED, instance->self.id, "unmatched");
        mr_frame_unref(&item.frame);
    }
    mr_item gap = {.kind = MR_ITEM_GAP, .source = source, .identity = first};
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
            note_joined(instance, first, item.frame->receipt);
            mr_slot_add_frame(slot, &item);
            continue;
        }
        if (port == 0)
            mr_settle_frame(instance, slot, item.frame, note, stage, reason);
        else
            mr_receipt_note(item.frame->receipt, note, stage, reason);
        mr_frame_unref(&item.frame);
    }
}

static mr_join_verdict take_match(mr_instance *instance, mr_slot *slot, size_t turn, const heads *at, mr_entry_task *entry) {
    uint32_t source = instance->vertex->sources[turn];
    size_t place = instance->self.source == MR_SOURCE_NONE ? turn : 0;
    const mr_frame *failed = NULL;
    if (mr_parts_count(&instance->parts) > 1)
        slot->device_number = mr_shares_choose(&instance->shares, mr_copy_device(at->item[0].frame));
    int ready = all_ready(instance, slot, at, entry, place, &failed);
    if (ready == 0)
        return MR_JOIN_WAITS;
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
        return MR_JOIN_WAITS;
    take_all(instance, slot, source, note, stage, reason);
    return reason ? MR_JOIN_PASSED : MR_JOIN_TAKEN;
}

void mr_join_take_ends(mr_instance *instance, mr_slot *slot, uint32_t source) {
    mr_item end;
    for (size_t port = 0; port < mr_inlets_count(&instance->inlets); port++)
        if (mr_link_has_source(mr_inlets_link(&instance->inlets, port), source))
            mr_link_take(mr_inlets_link(&instance->inlets, port), source, &end);
    mr_slot_add_mark(slot, &end);
}

void mr_join_pass_absence_on(mr_instance *instance, mr_slot *slot, uint32_t source, size_t turn) {
    mr_item away = {.kind = MR_ITEM_GAP, .source = source, .identity = mr_identity_away(source)};
    if (mr_inlets_note_away(&instance->inlets, turn, true) && mr_outlets_mark_gaps(&instance->outlets))
        mr_slot_add_mark(slot, &away);
}

/* Advances one source by one identity. */
static mr_join_verdict advance(mr_instance *instance, mr_slot *slot, size_t turn, mr_entry_task *entry) {
    uint32_t source = instance->vertex->sources[turn];
    heads at;
    if (instance->self.type->cascade == MR_CASCADE_GATHER)
        return mr_join_objects(instance, slot, turn, entry);
    look(instance, source, &at);
    if (at.missing)
        return MR_JOIN_WAITS;
    if (at.away && !at.first) {
        mr_join_pass_absence_on(instance, slot, source, turn);
        return MR_JOIN_WAITS;
    }
    mr_inlets_note_away(&instance->inlets, turn, false);
    if (at.ended == mr_inlets_count(&instance->inlets)) {
        mr_join_take_ends(instance, slot, source);
        return MR_JOIN_TAKEN;
    }
    if (all_match(instance, &at))
        return take_match(instance, slot, turn, &at, entry);
    pass_over(instance, slot, source, &at);
    return MR_JOIN_PASSED;
}

bool mr_instance_join(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    size_t count = instance->vertex->source_count;
    for (size_t i = 0; i < count; i++) {
        /* Sources take turns: start after the one served last. */
        size_t turn = mr_inlets_turn(&instance->inlets, i);
        uint32_t source = instance->vertex->sources[turn];
        if (instance->self.source != MR_SOURCE_NONE && source != instance->self.source)
            continue;
        mr_join_verdict found;
        while ((found = advance(instance, slot, turn, entry)) == MR_JOIN_PASSED)
            ;
        if (found == MR_JOIN_TAKEN) {
            mr_inlets_end_turn(&instance->inlets, turn);
            return true;
        }
    }
    /* Gaps from dropped frames must not wait for the next match: a later join needs them now. */
    return slot->mark_count > 0 || slot->output_count > 0;
}
