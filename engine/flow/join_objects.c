/* Gathering: frames on the first port, the frames of their objects on the second.
 *
 * A frame 5 has objects 5.1, 5.2 and so on (mr_identity.sub), and then a mark that ends them, also if there are none
 * (gap.h). Objects that are lost on the way leave gaps. Each port delivers in order, so the first items decide:
 *
 *   an object of the frame             goes into a call, alone
 *   the mark, or anything of a later   the frame is complete and goes into a call
 *   frame, an end, or `away`
 *   an object of an earlier frame      has no frame: absorbed as "unmatched"
 *
 * So a frame never waits for an object that cannot come, and passes with what was found. A frame that was dropped on
 * the way to the split leaves a gap on the second port, which says the same as the mark. */
#include "engine/flow/join_objects.h"

#include "engine/data/gap.h"
#include "engine/flow/copy.h"
#include "engine/flow/input.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/run/control.h"
#include "engine/flow/settle.h"
#include "millrace/stage.h"

enum { FRAMES, OBJECTS };

typedef enum standing { MISSING, ITEM, ENDED, AWAY } standing;

typedef struct head {
    standing is;
    mr_item item; /* ITEM */
} head;

static head look(mr_instance *instance, uint32_t source, size_t port) {
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
    return sub > 0 && sub < MR_SUB_OBJECTS;
}

/* Takes an object, or a gap, whose frame is not there. */
static mr_join_verdict pass_object(mr_instance *instance, uint32_t source) {
    mr_item item;
    mr_link_take(mr_inlets_link(&instance->inlets, OBJECTS), source, &item);
    if (item.kind == MR_ITEM_FRAME) {
        mr_receipt_note(item.frame->receipt, MR_NOTE_ABSORBED, instance->self.id, "unmatched");
        mr_frame_unref(&item.frame);
    }
    return MR_JOIN_PASSED;
}

static mr_join_verdict pass_gap(mr_instance *instance, mr_slot *slot, uint32_t source) {
    mr_item gap;
    mr_link_take(mr_inlets_link(&instance->inlets, FRAMES), source, &gap);
    if (mr_outlets_mark_gaps(&instance->outlets))
        mr_slot_add_mark(slot, &gap);
    return MR_JOIN_PASSED;
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
static mr_join_verdict take(mr_instance *instance, mr_slot *slot, mr_entry_task *entry, size_t port,
                            const mr_item *first, mr_receipt *of) {
    if (mr_parts_count(&instance->parts) > 1)
        slot->device_number = mr_shares_choose(&instance->shares, mr_copy_device(first->frame));
    const int ready = mr_input_ready(slot, first->frame, entry, 0);
    if (ready == 0)
        return MR_JOIN_WAITS;
    const char *reason = refusal(instance, first->frame, ready, port == OBJECTS);
    const char *stage = ready < 0 ? mr_event_stage(first->frame->ready)->id : instance->self.id;
    const bool left_out = !reason && port == FRAMES && mr_input_is_left_out(instance, first->frame);
    mr_item item;
    mr_link_take(mr_inlets_link(&instance->inlets, port), first->source, &item);
    if (reason || left_out) {
        mr_settle_frame(instance, slot, item.frame, reason ? MR_NOTE_DROPPED : MR_NOTE_ABSORBED, stage,
                        reason ? reason : MR_REASON_DONE_BEFORE);
        mr_frame_unref(&item.frame);
        return MR_JOIN_PASSED;
    }
    if (port == OBJECTS)
        mr_receipt_gather(of, item.frame->receipt);
    mr_slot_add_frame(slot, &item);
    return MR_JOIN_TAKEN;
}

mr_join_verdict mr_join_objects(mr_instance *instance, mr_slot *slot, size_t turn, mr_entry_task *entry) {
    const uint32_t source = instance->vertex->sources[turn];
    const head frame = look(instance, source, FRAMES), object = look(instance, source, OBJECTS);
    if (frame.is == MISSING || object.is == MISSING)
        return MR_JOIN_WAITS;
    if (frame.is != ITEM && object.is != ITEM && (frame.is == AWAY || object.is == AWAY)) {
        mr_join_pass_absence_on(instance, slot, source, turn);
        return MR_JOIN_WAITS;
    }
    mr_inlets_note_away(&instance->inlets, turn, false);
    if (frame.is != ITEM && object.is != ITEM) {
        mr_join_take_ends(instance, slot, source);
        return MR_JOIN_TAKEN;
    }
    const int order = frame.is != ITEM ? -1 : object.is != ITEM ? 1 : compare(&object, &frame);
    if (order < 0)
        return pass_object(instance, source);
    if (order == 0 && is_object(&object))
        return frame.item.kind == MR_ITEM_FRAME && object.item.kind == MR_ITEM_FRAME
                   ? take(instance, slot, entry, OBJECTS, &object.item, frame.item.frame->receipt)
                   : pass_object(instance, source);
    if (order == 0 && object.item.kind == MR_ITEM_FRAME)
        return pass_object(instance, source);
    return frame.item.kind == MR_ITEM_FRAME ? take(instance, slot, entry, FRAMES, &frame.item, NULL)
                                            : pass_gap(instance, slot, source);
}
