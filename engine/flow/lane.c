#include "engine/flow/lane.h"

#include "engine/base/memory.h"
#include "engine/data/receipt.h"
#include "engine/flow/ledger/ledger.h"

static bool grow(mr_lane *lane) {
    uint32_t room = lane->room ? lane->room * 2 : 8;
    mr_item *ring = mr_alloc(room * sizeof *ring);
    if (!ring)
        return false;
    for (uint32_t i = 0; i < lane->count; i++)
        ring[i] = *mr_lane_at(lane, i);
    mr_free(lane->ring);
    lane->ring = ring;
    lane->room = room;
    lane->first = 0;
    return true;
}

static void discard_gone_marks(mr_lane *lane) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < lane->count; i++)
        if (mr_lane_at(lane, i)->kind != MR_ITEM_GONE)
            *mr_lane_at(lane, kept++) = *mr_lane_at(lane, i);
    lane->count = kept;
}

void mr_lane_make_room(mr_lane *lane) {
    if (!grow(lane))
        discard_gone_marks(lane);
}

/* ---- dropping -------------------------------------------------------------------------------------------------- */

static void turn_into_gone(mr_item *item, const char *stage, const char *reason) {
    mr_receipt_note(item->frame->receipt, MR_NOTE_DROPPED, stage, reason);
    mr_frame_unref(&item->frame);
    item->kind = MR_ITEM_GONE;
}

static void drop_at(mr_lane *lane, uint32_t index, const char *stage, const char *reason) {
    turn_into_gone(mr_lane_at(lane, index), stage, reason);
    lane->frames--;
}

static bool is_packet(const mr_item *item) {
    return item->kind == MR_ITEM_FRAME && item->frame->format.payload == MR_PAYLOAD_PACKET;
}

static bool is_key(const mr_item *item) {
    return item->frame->flags & MR_FRAME_KEY;
}

bool mr_lane_skips(mr_lane *lane, const char *stage, mr_item *incoming) {
    if (!lane->waits_for_key || !is_packet(incoming))
        return false;
    if (is_key(incoming)) {
        lane->waits_for_key = false;
        return false;
    }
    turn_into_gone(incoming, stage, "gop");
    return true;
}

/* Drops the oldest packet that no other refers to; false where there is none. */
static bool drop_disposable(mr_lane *lane, const char *stage) {
    for (uint32_t i = 0; i < lane->count; i++)
        if (is_packet(mr_lane_at(lane, i)) && mr_lane_at(lane, i)->frame->flags & MR_FRAME_DISPOSABLE) {
            drop_at(lane, i, stage, "queue full");
            return true;
        }
    return false;
}

/* Drops queued packets up to the next key frame behind the first one. */
static void drop_gop(mr_lane *lane, const char *stage) {
    bool first = true;
    for (uint32_t i = 0; i < lane->count; i++) {
        mr_item *item = mr_lane_at(lane, i);
        if (!is_packet(item))
            continue;
        if (!first && is_key(item))
            return;
        drop_at(lane, i, stage, first ? "queue full" : "gop");
        first = false;
    }
    lane->waits_for_key = true;
}

static void drop_oldest(mr_lane *lane, const char *stage) {
    for (uint32_t i = 0; i < lane->count; i++)
        if (mr_lane_at(lane, i)->kind == MR_ITEM_FRAME) {
            drop_at(lane, i, stage, "queue full");
            return;
        }
}

bool mr_lane_shed(mr_lane *lane, mr_policy policy, const char *stage, mr_item *incoming) {
    bool packet = is_packet(incoming);
    if (policy == MR_POLICY_DROP_NEWEST) {
        lane->waits_for_key = packet && !(incoming->frame->flags & MR_FRAME_DISPOSABLE);
        turn_into_gone(incoming, stage, "queue full");
        return false;
    }
    if (!packet)
        drop_oldest(lane, stage);
    else if (!drop_disposable(lane, stage))
        drop_gop(lane, stage);
    return !mr_lane_skips(lane, stage, incoming);
}
