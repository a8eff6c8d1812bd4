/* The entry of the giving side of a cut: puts frames and marks into a list, as long as there is room, and parks where
 * there is none, or until the end may pass. */
#include "engine/transport/cut/cut_out.h"

/* Frames of a live cut that wait for credit outside the queue, which cannot drop them: as few as keep it moving. */
enum { LIVE_FRAMES = 2 };

static bool has_room(const cut_out *out, const mr_cut_item *item) {
    const mr_cut *cut = out->cut;
    if (cut->mode == MR_CUT_LIVE)
        return out->offered.count < LIVE_FRAMES;
    if (out->frames >= (uint64_t)cut->window ||
        (out->of_source && out->of_source[item->identity.source] >= (uint32_t)cut->share))
        return false;
    return !cut->window_bytes || out->frames == 0 || out->bytes + item->bytes <= cut->window_bytes;
}

static bool is_deserted(cut_out *out) {
    pthread_mutex_lock(&out->lock);
    bool deserted = out->deserted;
    pthread_mutex_unlock(&out->lock);
    return deserted;
}

/* Puts the item into the list: MR_OK, MR_ERROR_AGAIN (the entry is woken when there may be room), MR_ERROR_MEMORY. */
static int give(cut_out *out, const mr_cut_item *item) {
    bool frame = item->kind == MR_CUT_FRAME;
    int status = MR_ERROR_AGAIN;
    pthread_mutex_lock(&out->lock);
    if (!frame || has_room(out, item))
        status = mr_cut_items_append(&out->offered, item);
    if (!status && frame) {
        out->frames++;
        out->bytes += item->bytes;
        if (out->of_source)
            out->of_source[item->identity.source]++;
    }
    out->parked |= status == MR_ERROR_AGAIN;
    out->finished = out->finished && status;
    pthread_mutex_unlock(&out->lock);
    out->gathered |= !status;
    return status;
}

/* Where ways meet again in a join, a source of a live cut that has its share of the window does not keep others
 * waiting, which the join may need before it lets go of any of that. */
static bool exceeds_share(cut_out *out, uint32_t source) {
    if (out->cut->mode != MR_CUT_LIVE || !out->of_source)
        return false;
    pthread_mutex_lock(&out->lock);
    bool exceeds = out->of_source[source] >= (uint32_t)out->cut->share;
    pthread_mutex_unlock(&out->lock);
    return exceeds;
}

int cut_out_process(mr_stage *self, mr_io *io) {
    cut_out *out = self->state;
    mr_frame *frame = mr_io_input(io);
    bool packet = frame->format.payload == MR_PAYLOAD_PACKET;
    if (mr_stage_cancelled(self)) {
        mr_io_drop(io, frame, MR_REASON_STOPPED);
        return MR_DONE;
    }
    if (exceeds_share(out, frame->identity.source)) {
        mr_io_drop(io, frame, "queue full");
        return MR_DONE;
    }
    const mr_cut_item item = {
        .kind = MR_CUT_FRAME,
        .identity = frame->identity,
        .frame = frame,
        .bytes = mr_wire_frame_bytes(frame),
        .packet = packet,
        .key = packet && frame->flags & MR_FRAME_KEY,
    };
    int status = give(out, &item);
    if (!status)
        mr_io_take(io, 0); /* The reference is the list's now, or gone already. */
    if (status != MR_ERROR_AGAIN || !is_deserted(out))
        return status;
    mr_io_drop(io, frame, CUT_NO_TAKER);
    return MR_DONE;
}

/* What is to be compressed is left to the carrier's thread, which keeps nobody waiting. */
void mr_cut_out_rest(mr_stage *self) {
    cut_out *out = self->state;
    if (!out->gathered)
        return;
    out->gathered = false;
    if (out->cut->compression != MR_CUT_PLAIN)
        mr_carrier_wake(out->carrier);
    else
        mr_carrier_take_turn(out->carrier);
}

/* Whether the other side knows all; else the entry is woken once it does. */
static bool has_finished(cut_out *out) {
    pthread_mutex_lock(&out->lock);
    bool finished = out->finished;
    out->ending = true;
    out->parked |= !finished;
    pthread_mutex_unlock(&out->lock);
    return finished;
}

int mr_cut_out_mark(mr_stage *self, const mr_item *mark) {
    cut_out *out = self->state;
    if (!out->carrier)
        return MR_DONE;
    const mr_cut_item item = {.kind = mark->kind == MR_ITEM_END ? MR_CUT_END : MR_CUT_GONE,
                              .identity = {.source = mark->source},
                              .reason = mark->kind == MR_ITEM_END && mark->cut_short ? MR_REASON_STOPPED : NULL};
    if (mark->kind == MR_ITEM_GONE) {
        mr_cut_item gone = item;
        gone.identity = mark->identity;
        give(out, &gone); /* Without memory for it: it is only a hint. */
        return MR_DONE;
    }
    if (out->ends_left) {
        int status = give(out, &item);
        if (status)
            return status;
        out->ends_left--;
    }
    return out->ends_left || has_finished(out) ? MR_DONE : MR_ERROR_AGAIN;
}

void cut_out_stop(mr_stage *self) {
    cut_out *out = self->state;
    if (!out->carrier)
        return;
    pthread_mutex_lock(&out->lock);
    out->stopping = true;
    pthread_mutex_unlock(&out->lock);
    mr_carrier_wake(out->carrier);
}
