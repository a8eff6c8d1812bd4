/* decode: compressed packets -> pictures, by libavcodec, straight into pool buffers if the decoder can.
 *
 * Every packet's receipt ends here in one of these ways: its picture is emitted; it is absorbed ("skip", "not
 * selected", whether it was decoded or not needed, "not shown": an edit list, "second field" of a picture, "no
 * picture"); it is dropped ("corrupt", "no key frame": sent before the first picture could be decoded; "stopped": the
 * number of its picture is unknown, since packets of pictures that are shown before it were not read any more). Packets
 * and pictures are matched by a number that goes through the decoder. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine/device/device.h"
#include "stages/decode/decode_state.h"
#include "stages/list.h"
#include "stages/media/media_input.h"
#include "stages/media/picture_format.h"

static const mr_format_set packets[] = {{.payload = MR_PAYLOAD_PACKET}, {.payload = MR_PAYLOAD_ANY}};
static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {
    {.name = "packets", .help = "compressed packets in decode order", .accepts = packets}, {.name = NULL}};
static const mr_port outputs[] = {
    {.name = "pictures", .help = "pictures in presentation order", .accepts = pictures}, {.name = NULL}};

/* ---- opening and closing ------------------------------------------------------------------------------------- */

static int open_decode(mr_stage *self) {
    const mr_decode_choices *from = self->options;
    mr_decode_state *state = self->state;
    mr_av_log_capture();
    mr_pending_init(&state->pending);
    mr_selection_begin(&state->selection);
    state->again = INT64_MAX;
    state->latest_pts_ns = INT64_MIN;
    state->time_ns = MR_NO_TIME;
    state->packet = av_packet_alloc();
    state->picture = av_frame_alloc();
    state->following = av_frame_alloc();
    state->reduced_picture = av_frame_alloc();
    if (!state->packet || !state->picture || !state->following || !state->reduced_picture)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (self->entries > 1 && mr_early_create(&state->early, self->entries))
        return MR_ERROR_MEMORY;
    return self->device->type->kind == MR_DEVICE_CPU
               ? mr_picture_pool_create(&state->pool, self, from->damaged != MR_DAMAGED_DROP)
               : mr_decode_device_create(&state->device, self, (mr_hardware)from->hardware);
}

/* At the end of a source, while others go on: its buffers are given back, but for those of frames under way. */
static void close_source(const mr_stage *self) {
    mr_decode_state *state = self->state;
    mr_needed_fini(&state->needed);
    mr_decode_close(state);
    state->x264_build = 0;
    mr_early_close(state->early, self->entries);
    mr_jpeg_decoder_destroy(&state->jpeg);
    av_frame_unref(state->picture);
    av_frame_unref(state->following);
    av_frame_unref(state->reduced_picture);
    mr_picture_pool_destroy(&state->pool);
}

static void close_decode(mr_stage *self) {
    mr_decode_state *state = self->state;
    close_source(self);
    av_frame_free(&state->picture);
    av_frame_free(&state->following);
    av_frame_free(&state->reduced_picture);
    av_packet_free(&state->packet);
    mr_early_destroy(&state->early, self->entries);
    mr_media_unref(&state->lost);
    sws_freeContext(state->scaler);
    mr_decode_device_destroy(&state->device);
    mr_pending_fini(&state->pending);
}

/* ---- pictures -------------------------------------------------------------------------------------------------- */

static int64_t interval_of(const mr_frame *packet) {
    return packet->duration_ns > 0 ? packet->duration_ns : mr_media_interval_ns(packet->media);
}

/* The first picture of a packet behind that number that is shown later than that time, if it is decoded and shown at
 * once; MR_NO_TIME: none is known. */
static int64_t shown_next(const mr_decode_state *state, int64_t number, int64_t time_ns) {
    int64_t first_ns = MR_NO_TIME;
    for (int64_t next = number + 1; next < state->pending.next; next++) {
        const mr_frame *packet = mr_pending_find(&state->pending, next);
        if (packet && (packet->pts_ns == MR_NO_TIME || packet->pts_ns > packet->dts_ns))
            break;
        if (packet && (time_ns == MR_NO_TIME || packet->pts_ns > time_ns) &&
            (first_ns == MR_NO_TIME || packet->pts_ns < first_ns))
            first_ns = packet->pts_ns;
    }
    return first_ns;
}

/* The latest picture that is known to be shown before that of a packet without a time: one that was given, or one that
 * is decoded after it and shown at once, whether it was given or not. Where one is missing is the picture's place. */
static int64_t shown_before(const mr_decode_state *state, int64_t number, int64_t interval_ns) {
    int64_t latest_ns = state->time_ns, next_ns;
    while ((next_ns = shown_next(state, number, latest_ns)) != MR_NO_TIME &&
           (latest_ns == MR_NO_TIME || !interval_ns || next_ns - latest_ns < interval_ns + interval_ns / 2))
        latest_ns = next_ns;
    return latest_ns;
}

/* Presentation time of a picture whose packet has none; MR_NO_TIME: its stream has neither times nor a rate. */
static int64_t invent_time(const mr_decode_state *state, const mr_frame *packet, int64_t number) {
    const int64_t interval_ns = interval_of(packet), before_ns = shown_before(state, number, interval_ns);
    if (before_ns != MR_NO_TIME)
        return interval_ns ? before_ns + interval_ns : MR_NO_TIME;
    if (packet->dts_ns != MR_NO_TIME)
        return packet->dts_ns;
    return interval_ns ? (int64_t)state->seq * interval_ns : MR_NO_TIME;
}

/* Presentation times rise: those of packets do (stages/media/coded/picture_times.h), unless their order was not known
 * there, or damage has confused it. */
static int64_t time_of(const mr_decode_state *state, const mr_frame *packet, int64_t number) {
    static const int64_t tick_ns = 11112; /* of the clock of MPEG */
    const int64_t pts_ns = packet->pts_ns != MR_NO_TIME ? packet->pts_ns : invent_time(state, packet, number);
    const bool rises = pts_ns == MR_NO_TIME || state->time_ns == MR_NO_TIME || pts_ns > state->time_ns;
    return rises ? pts_ns : state->time_ns + tick_ns;
}

/* Gives numbers to the pictures that were left out before one of that time; INT64_MAX: all. */
static mr_needed_reached reach(mr_decode_state *state, mr_io *io, int64_t pts_ns) {
    mr_needed_reached reached = mr_needed_reach(&state->needed, pts_ns, &state->selection);
    for (uint64_t i = 0; i < reached.numbers; i++)
        mr_io_skip(io, state->epoch, state->seq++, false);
    return reached;
}

static bool is_selected(mr_decode_state *state, mr_io *io, const mr_frame *packet, int64_t number) {
    mr_needed_reached reached = {0};
    if (packet->pts_ns != MR_NO_TIME)
        reached = reach(state, io, packet->pts_ns);
    const int64_t time_ns = time_of(state, packet, number);
    state->time_ns = time_ns;
    state->numbered = mr_selection_has_begun(packet->media, time_ns);
    state->shown_pts_ns = time_ns == packet->pts_ns ? time_ns : MR_NO_TIME;
    return reached.counted ? reached.wanted : mr_selection_wants(&state->selection, packet->media, time_ns);
}

static bool is_patched(const mr_decode_state *state, const AVFrame *picture) {
    if (mr_decode_is_early(state))
        return state->present->patched;
    return mr_heard_of(mr_decode_heard(state), picture->reordered_opaque);
}

/* Whether it comes behind pictures that are shown after it. Without the key between them, which was refused, a decoder
 * takes those of one sequence and of the next for one, and gives times of others to them. */
static bool is_out_of_order(mr_decode_state *state, const mr_frame *packet) {
    if (packet->pts_ns == MR_NO_TIME)
        return false;
    const bool behind = packet->pts_ns < state->latest_pts_ns;
    state->latest_pts_ns = behind ? state->latest_pts_ns : packet->pts_ns;
    return behind && state->wrong_to;
}

/* A key that comes out well ends the damage: from then on times that run back are the stream's own. */
static void note_recovery(mr_decode_state *state, const mr_frame *packet, int64_t number) {
    if (packet->flags & MR_FRAME_KEY && number > state->wrong_to) {
        state->wrong_to = 0;
        state->latest_pts_ns = packet->pts_ns;
    }
}

/* The number of the first packet whose picture comes from another decoder. */
static int64_t decoded_again_from(const mr_decode_state *state) {
    if (state->draining)
        return state->again;
    return mr_decode_is_spoilt_late(state) ? state->entry : INT64_MAX;
}

static mr_decode_verdict judge(mr_stage *self, mr_io *io, const AVFrame *picture) {
    mr_decode_state *state = self->state;
    const mr_decode_choices *from = self->options;
    const mr_frame *packet = mr_pending_find(&state->pending, picture->reordered_opaque);
    mr_decode_learn(state);
    if (!packet)
        return MR_VERDICT_NOT_SELECTED;
    if (picture->reordered_opaque >= decoded_again_from(state))
        return MR_VERDICT_AGAIN;
    state->ahead |= state->cut_short && state->codec->has_b_frames > 0 &&
                    !mr_selection_can_count(packet, state->last_dts_ns);
    if (state->ahead) {
        state->pictures++;
        return MR_VERDICT_AHEAD;
    }
    const bool heard = is_patched(state, picture), patched = heard || picture->decode_error_flags;
    bool damaged = patched || picture->flags & AV_FRAME_FLAG_CORRUPT ||
                   mr_pending_is_wrong(&state->pending, packet, picture->reordered_opaque);
    if (!damaged)
        note_recovery(state, packet, picture->reordered_opaque);
    damaged |= is_out_of_order(state, packet);
    if (patched)
        mr_decode_spoil(state, picture->reordered_opaque);
    if (patched && !heard)
        mr_decode_taint(state, picture->reordered_opaque);
    state->marked = damaged && from->damaged == MR_DAMAGED_MARK;
    state->outsized = false;
    if (picture->interlaced_frame)
        mr_pending_note_interlaced(&state->pending, picture->reordered_opaque);
    bool selected = is_selected(state, io, packet, picture->reordered_opaque);
    if (damaged && from->damaged == MR_DAMAGED_DROP)
        return MR_VERDICT_DAMAGED;
    state->pictures++;
    return selected ? MR_VERDICT_WANTED : MR_VERDICT_NOT_SELECTED;
}

static bool is_upside_down(const AVFrame *picture) {
    return picture->linesize[0] < 0 || picture->linesize[1] < 0 || picture->linesize[2] < 0;
}

/* A frame with the picture's planes, derived from its packet. */
static int make_frame(mr_stage *self, mr_io *io, const mr_frame *packet, mr_frame **frame) {
    mr_decode_state *state = self->state;
    const AVFrame *picture = state->picture;
    const mr_decode_choices *from = self->options;
    const mr_untagged untagged = {(mr_matrix)from->untagged.matrix, (mr_range)from->untagged.range};
    const enum AVPixelFormat layout = mr_decode_device_layout(picture);
    enum AVPixelFormat converted = layout;
    mr_pixel pixel = mr_pixel_from_av(layout);
    bool convert = !pixel || is_upside_down(picture);
    if (!pixel)
        pixel = mr_pixel_nearest(layout, &converted);
    if (!pixel)
        return mr_fail(MR_ERROR_DATA, "pictures of pixel format %d cannot be carried", layout);
    mr_format format;
    mr_format_describe(&format, picture, pixel, mr_decode_context(state), packet->media, untagged);
    mr_still_turn(&format, packet, picture->metadata);
    if (state->device)
        return mr_decode_device_give(state->device, io, picture, converted, &format, packet, frame);
    int status = convert ? mr_io_acquire(io, 0, &format, packet, frame) : mr_io_derive(io, packet, frame);
    if (status)
        return status;
    (*frame)->format = format;
    status = convert ? mr_picture_convert(&state->scaler, picture, converted, *frame)
                     : mr_picture_pool_give(state->pool, picture, *frame);
    if (status)
        mr_frame_unref(frame);
    return status;
}

/* If the plan has no room for a picture it gets a new pool, which is logged once. */
static void note_size(mr_stage *self, const AVFrame *picture) {
    mr_decode_state *state = self->state;
    mr_bounds width = self->inputs[0].set.width, height = self->inputs[0].set.height;
    if (state->outgrown || !width.max || (picture->width <= width.max && picture->height <= height.max))
        return;
    state->outgrown = true;
    mr_stage_warn(self, "%s: pictures are %dx%d, larger than the %dx%d that were announced: memory may exceed the plan",
                  self->source_id, picture->width, picture->height, (int)width.max, (int)height.max);
}

static int emit_picture(mr_stage *self, mr_io *io, const mr_frame *packet) {
    mr_decode_state *state = self->state;
    const AVFrame *picture = state->picture;
    mr_frame *frame;
    note_size(self, picture);
    int status = make_frame(self, io, packet, &frame);
    if (status)
        return status;
    frame->identity.seq = state->seq;
    frame->pts_ns = state->time_ns;
    frame->dts_ns = MR_NO_TIME;
    frame->flags = (picture->key_frame ? MR_FRAME_KEY : 0) | (state->marked ? MR_FRAME_CORRUPT : 0) |
                   (packet->flags & MR_FRAME_AWAY);
    return mr_io_emit(io, 0, frame);
}

/* Settles state->picture: *emitted: whether it was emitted. MR_ERROR_AGAIN leaves it to be settled later. A packet with
 * several pictures keeps its place until the last of them. */
static int settle(mr_stage *self, mr_io *io, bool *emitted) {
    mr_decode_state *state = self->state;
    int64_t number = state->picture->reordered_opaque;
    mr_frame *packet = mr_pending_find(&state->pending, number);
    *emitted = false;
    if (!packet || state->verdict == MR_VERDICT_AGAIN)
        return MR_OK; /* without one: it was counted as damaged before */
    int status = MR_OK;
    if (state->verdict == MR_VERDICT_WANTED) {
        status = emit_picture(self, io, packet);
        if (status == MR_ERROR_AGAIN)
            return status;
        *emitted = status == MR_OK;
    }
    if (state->verdict == MR_VERDICT_AHEAD) {
        mr_io_drop(io, packet, MR_REASON_STOPPED);
        packet = mr_pending_take(&state->pending, number);
        mr_frame_unref(&packet);
        return MR_OK;
    }
    if (*emitted)
        state->last_given = number;
    else if (state->numbered)
        mr_io_skip(io, state->epoch, state->seq, false);
    bool shared = state->has_following && state->following->reordered_opaque == number;
    if (!shared && state->last_given != number) {
        if (state->verdict == MR_VERDICT_NOT_SELECTED)
            mr_io_absorb(io, packet, "not selected");
        else if (state->verdict == MR_VERDICT_DAMAGED)
            mr_decode_drop_corrupt(self, io, packet);
        else
            mr_io_drop(io, packet, status == MR_ERROR_DEVICE ? "device error" : "cannot be carried");
    }
    if (!shared) {
        mr_pending_take(&state->pending, number);
        mr_frame_unref(&packet);
    }
    state->seq += state->numbered;
    return MR_OK;
}

/* Gives pictures until one was emitted. MR_MORE: another waits; MR_DONE: none. */
static int give_pictures(mr_stage *self, mr_io *io) {
    mr_decode_state *state = self->state;
    for (bool emitted = false;;) {
        if (!state->has_picture) {
            if (emitted || !mr_decode_receive(self, io, state->picture))
                return MR_DONE;
            state->has_picture = true;
            state->verdict = judge(self, io, state->picture);
        }
        if (emitted)
            return MR_MORE;
        if (!state->has_following)
            state->has_following = mr_decode_receive(self, io, state->following);
        int status = settle(self, io, &emitted);
        if (status)
            return status;
        av_frame_unref(state->picture);
        AVFrame *next = state->following;
        state->following = state->picture;
        state->picture = next;
        state->has_picture = state->has_following;
        state->has_following = false;
        if (state->has_picture)
            state->verdict = judge(self, io, state->picture);
    }
}

/* ---- the end of a decoder --------------------------------------------------------------------------------------- */

/* `again`: of the first packet that another decoder gets; INT64_MAX: all are this one's. */
static void begin_draining(mr_stage *self, mr_io *io, int64_t again) {
    mr_decode_state *state = self->state;
    state->draining = true;
    state->again = again;
    state->drain_errors = 0;
    mr_decode_send_end(self, io);
}

/* Receives the decoder's last pictures. MR_MORE or MR_ERROR_AGAIN: to be called again. */
static int drain_decoder(mr_stage *self, mr_io *io) {
    mr_decode_state *state = self->state;
    int answer = give_pictures(self, io);
    if (answer)
        return answer;
    int64_t number;
    for (mr_frame *packet; (packet = mr_pending_take_oldest(&state->pending, state->again, &number));)
        mr_decode_close_receipt(self, io, packet, number);
    state->errors = 0;
    state->draining = false;
    return MR_DONE;
}

/* There is no decoder any more. */
static int give_up(mr_decode_state *state, mr_io *io) {
    mr_needed_end(&state->needed, true);
    for (mr_needed_answer next; (next = mr_needed_next(&state->needed, 0)) != MR_NEEDED_WAIT;) {
        mr_frame *packet = mr_needed_take(&state->needed, next);
        mr_io_drop(io, packet, "no decoder");
        mr_frame_unref(&packet);
    }
    int64_t number;
    for (mr_frame *packet; (packet = mr_pending_take_oldest(&state->pending, INT64_MAX, &number));) {
        mr_io_drop(io, packet, "no decoder");
        mr_frame_unref(&packet);
    }
    reach(state, io, INT64_MAX);
    state->again = INT64_MAX;
    state->sent = state->stretch = false;
    return MR_DONE;
}

/* As drain_decoder, and opens another decoder. */
static int replace_decoder(mr_stage *self, mr_io *io) {
    mr_decode_state *state = self->state;
    int answer = drain_decoder(self, io);
    if (answer)
        return answer;
    bool sent = state->again < state->pending.next;
    const mr_frame *packet = sent ? mr_pending_find(&state->pending, state->again) : mr_needed_chosen(&state->needed);
    state->again = sent ? state->again : INT64_MAX;
    state->sent = false;
    int status = mr_decode_replace(self, io, packet);
    if (!status)
        return MR_DONE;
    mr_io_fail_source(io, packet->identity.source, status);
    return give_up(state, io);
}

/* ---- stretches: packets of one epoch and one decoder ----------------------------------------------------------- */

static void leave_out(mr_decode_state *state, mr_io *io, mr_frame *packet) {
    state->left++;
    mr_io_absorb(io, packet, "not selected");
    mr_frame_unref(&packet);
}

/* Decodes packets that are known to be needed, or have to be decoded now. MR_DONE: the rest waits for packets to come.
 */
static int decode_needed(mr_stage *self, mr_io *io, size_t room) {
    mr_decode_state *state = self->state;
    for (;;) {
        if (!state->draining && mr_decode_is_spoilt_late(state))
            begin_draining(self, io, state->entry);
        int answer = state->draining ? replace_decoder(self, io) : MR_DONE;
        if (answer || !state->codec)
            return answer;
        if (!state->sent && state->again < state->pending.next) {
            mr_decode_send_again(self, io);
            state->sent = true;
        }
        if (!state->sent) {
            mr_needed_answer next = mr_needed_next(&state->needed, room);
            if (next == MR_NEEDED_WAIT)
                return MR_DONE;
            if (next == MR_NEEDED_SEND && mr_decode_is_spoilt_for(state, mr_needed_chosen(&state->needed))) {
                begin_draining(self, io, state->pending.next);
                continue;
            }
            bool sends = next == MR_NEEDED_SEND && !state->present;
            mr_pool *full = sends && state->pool ? mr_picture_pool_full(state->pool) : NULL;
            if (full)
                return mr_io_await_pool(io, full, 1);
            mr_frame *packet = mr_needed_take(&state->needed, next);
            if (next == MR_NEEDED_LEAVE) {
                leave_out(state, io, packet);
                continue;
            }
            int status = mr_decode_send(self, io, packet);
            mr_frame_unref(&packet);
            if (status)
                return give_up(state, io);
            state->sent = true;
        }
        answer = give_pictures(self, io);
        if (answer != MR_DONE)
            return answer;
        state->sent = false;
    }
}

/* Receives the decoder's last pictures and closes it. MR_MORE or MR_ERROR_AGAIN: to be called again. */
static int drain(mr_stage *self, mr_io *io) {
    mr_decode_state *state = self->state;
    if (!state->ending) {
        mr_needed_end(&state->needed, state->cut_short);
        int answer = decode_needed(self, io, 0);
        if (answer || !state->codec)
            return answer;
        begin_draining(self, io, INT64_MAX);
        state->ending = true;
    }
    int answer = drain_decoder(self, io);
    if (answer)
        return answer;
    reach(state, io, INT64_MAX);
    state->ending = state->ahead = state->stretch = false;
    avcodec_flush_buffers(state->codec);
    return MR_DONE;
}

static void begin_epoch(mr_decode_state *state, mr_io *io, uint32_t epoch) {
    mr_io_skip(io, state->epoch, state->seq, true);
    state->epoch = epoch;
    state->seq = 0;
    mr_selection_begin(&state->selection);
    state->gaps = (mr_gaps){0};
    state->alone = (mr_alone){0};
    state->latest_pts_ns = INT64_MIN;
    state->time_ns = MR_NO_TIME;
}

/* Makes the decoder ready for a packet; its remaining pictures are received first. */
static int prepare(mr_stage *self, mr_io *io, const mr_frame *frame) {
    mr_decode_state *state = self->state;
    bool renewed = state->codec && (frame->media->codec != state->media->codec || mr_decoder_is_used_up(frame));
    if (state->codec && (renewed || frame->identity.epoch != state->epoch)) {
        int answer = drain(self, io);
        if (answer)
            return answer;
    }
    if (frame->identity.epoch != state->epoch)
        begin_epoch(state, io, frame->identity.epoch);
    if (renewed) {
        mr_decode_close(state);
        state->x264_build = 0;
        state->alone = (mr_alone){0};
    }
    int status = state->codec ? MR_OK : mr_decode_open(self, io, frame, 0);
    if (!status && !state->stretch) {
        const mr_decode_choices *from = self->options;
        mr_needed_begin(&state->needed, frame, from->skip != MR_SKIP_NONE);
        state->shown_pts_ns = MR_NO_TIME;
        state->stretch = true;
    }
    return status;
}

static bool is_skipped(const mr_decode_choices *from, const mr_frame *frame) {
    return (from->skip == MR_SKIP_NONREF && frame->flags & MR_FRAME_DISPOSABLE) ||
           (from->skip == MR_SKIP_NONKEY && !(frame->flags & MR_FRAME_KEY));
}

static bool is_corrupt(const mr_frame *frame) {
    return frame->plane[0].bytes == 0 || frame->plane[0].bytes > INT32_MAX - AV_INPUT_BUFFER_PADDING_SIZE ||
           mr_still_would_be_wrong(frame);
}

/* True if the packet is settled without the decoder. */
static bool settle_undecoded(mr_stage *self, mr_io *io, const mr_frame *frame) {
    mr_decode_state *state = self->state;
    const mr_decode_choices *from = self->options;
    bool skipped = is_skipped(from, frame), corrupt = is_corrupt(frame);
    const AVCodecParameters *codec = frame->media ? frame->media->codec : NULL;
    if (codec && mr_decode_is_outsized(self, frame->media, codec->width, codec->height)) {
        state->packets++;
        mr_io_drop(io, frame, "too large");
        return true;
    }
    const char *damage = !frame->media || !frame->media->codec ? "no media" : state->refused ? "no decoder" : NULL;
    if (!damage && !corrupt && !skipped)
        return false;
    if (damage || corrupt)
        state->packets++;
    if (damage)
        mr_io_drop(io, frame, damage);
    else if (corrupt && frame->flags & MR_FRAME_CORRUPT)
        mr_io_drop(io, frame, "corrupt"); /* its source has logged the reason */
    else if (corrupt)
        mr_decode_drop_corrupt(self, io, frame);
    else
        mr_io_absorb(io, frame, "skip");
    if (skipped && from->skip == MR_SKIP_NONREF) /* nothing depends on it */
        mr_gaps_note(&state->gaps, frame);
    if (skipped && frame->flags & MR_FRAME_SEAM)
        mr_gaps_taint(&state->gaps);
    return true;
}

/* A picture that must not be late does not wait for packets behind it. If a decoder reorders pictures, it gives one
 * only after a number of others: leaving some out would make those behind them late. */
static void take(mr_stage *self, mr_frame *frame) {
    mr_decode_state *state = self->state;
    mr_gaps_note(&state->gaps, frame);
    if (state->shown_pts_ns != MR_NO_TIME)
        mr_needed_count_from(&state->needed, state->shown_pts_ns, &state->selection, &state->pending);
    mr_needed_add(&state->needed, frame, frame->deadline_ns && state->codec->has_b_frames > 0);
    state->last_dts_ns = frame->dts_ns;
    state->taken = true;
}

/* How many packets may wait before the decoder. */
static size_t room_of(const mr_decode_state *state, const mr_frame *frame) {
    size_t inside = mr_pending_count(&state->pending);
    return frame->deadline_ns || inside > MR_NEEDED_MOST ? 0 : MR_NEEDED_MOST - inside;
}

static int process_in_turn(mr_stage *self, mr_io *io) {
    mr_decode_state *state = self->state;
    mr_frame *frame = mr_io_input(io);
    if (!state->taken) {
        if (settle_undecoded(self, io, frame))
            return MR_DONE;
        int answer = prepare(self, io, frame);
        if (answer == MR_ERROR_DATA || answer == MR_ERROR_UNAVAILABLE) {
            state->packets++;
            mr_io_fail_source(io, frame->identity.source, answer);
            mr_io_drop(io, frame, "no decoder");
            return MR_DONE;
        }
        if (answer)
            return answer;
        take(self, frame);
    }
    int answer = decode_needed(self, io, room_of(state, frame));
    if (answer == MR_DONE)
        state->taken = false;
    if (!state->refused && mr_decode_device_refused(state->device)) {
        state->refused = true;
        mr_io_fail_source(io, frame->identity.source, MR_ERROR_UNAVAILABLE);
    }
    return answer;
}

/* Decodes a still picture beside other calls, unless that was done before. MR_ERROR_AGAIN: there is no room for it. */
static int decode_early(mr_stage *self, mr_io *io, const mr_frame *frame) {
    mr_decode_state *state = self->state;
    const mr_decode_choices *from = self->options;
    mr_early *early = &state->early[mr_io_entry(io)];
    const mr_media *media = frame->media;
    if (early->done || !media || !media->codec || !media->still || is_skipped(from, frame) || is_corrupt(frame))
        return MR_OK;
    mr_pool *full = mr_picture_pool_full(state->pool);
    if (full)
        return mr_io_await_pool(io, full, 1);
    mr_decoder_params params = mr_decode_params(self, io, frame, 0);
    mr_early_decode(early, &params, self, frame, from->reduced != MR_REDUCED_OFF);
    return MR_OK;
}

static int process(mr_stage *self, mr_io *io) {
    mr_decode_state *state = self->state;
    if (!state->early)
        return process_in_turn(self, io);
    mr_early *early = &state->early[mr_io_entry(io)];
    int answer = decode_early(self, io, mr_io_input(io));
    if (!answer)
        answer = mr_io_await_turn(io);
    if (answer)
        return answer;
    state->present = early->done ? early : NULL;
    answer = process_in_turn(self, io);
    state->present = NULL;
    if (answer != MR_MORE && answer != MR_ERROR_AGAIN)
        mr_early_end(early);
    return answer;
}

/* A folder has many files: one of them is named. */
static int fail_undecoded(const mr_decode_state *state) {
    const char *why = state->outsized     ? "its pictures are larger than planned for"
                      : state->last_error ? mr_av_words(state->last_error)
                                          : "no picture was complete";
    if (!state->lost)
        return mr_fail(MR_ERROR_DATA, "nothing could be decoded: %s", why);
    if (state->packets == 1 && *state->trouble)
        return mr_fail(MR_ERROR_DATA, "%s %s", state->lost->path, state->trouble);
    if (state->packets == 1)
        return mr_fail(MR_ERROR_DATA, "nothing could be decoded of %s: %s", state->lost->path, why);
    return mr_fail(MR_ERROR_DATA, "nothing could be decoded of %" PRIu64 " files, such as %s: %s", state->packets,
                   state->lost->path, why);
}

static int flush(mr_stage *self, mr_io *io, uint32_t source) {
    mr_decode_state *state = self->state;
    int answer = mr_io_await_turn(io);
    if (answer)
        return answer;
    state->cut_short = mr_io_cut_short(io);
    answer = state->codec ? drain(self, io) : MR_DONE;
    if (answer)
        return answer;
    mr_still_sum_up(&state->stills, self);
    if (state->left > 0)
        mr_stage_info(self, "%s: %" PRIu64 " pictures were not decoded, since neither they nor what depends on them is "
                      "wanted", self->source_id, state->left);
    if (state->scaled[2] + state->scaled[3] > 0)
        mr_stage_info(self, "%s: %" PRIu64 " pictures were decoded at 1/8 of their size, %" PRIu64 " at 1/4, %" PRIu64
                      " whole", self->source_id, state->scaled[3], state->scaled[2], state->scaled[0]);
    close_source(self);
    /* A source that was asked to end may have had whole pictures still to come. */
    if (state->packets > 0 && state->pictures == 0 && !state->refused && !state->cut_short)
        mr_io_fail_source(io, source, fail_undecoded(state));
    return MR_DONE;
}

const mr_stage_type mr_decode_stage = {
    .name = "decode",
    .summary = "decodes packets into pictures",
    .help = "Decodes with libavcodec whatever media reads. Pictures come in presentation order, numbered from 0 in "
            "each epoch, those that duration, every or fps leave out included; 0 is the first picture that start "
            "lets through, whatever the container. A picture keeps the stream's matrix, range, chroma siting, sample "
            "aspect ratio and rotation, which a still picture has in EXIF (JPEG, PNG, WebP) or XMP (PNG, WebP), in "
            "TIFF's tag or in HEIF's properties; interlaced pictures are given as they are, "
            "and the values of HDR are not mapped. Of H.264, HEVC, VP9 and MPEG video, pictures that are not wanted "
            "and that no wanted one depends on are not decoded, and counted as \"not selected\" all the same; that "
            "they are damaged is not noticed. Pictures that are coded as fields, raw streams without times, and "
            "sources with a deadline whose pictures come out of order are decoded whole. A plan's sizes and memory "
            "are those that the container announces: if a stream changes to larger pictures, they get new buffers, "
            "which is logged once; those of a live source are dropped as \"too large\" then.",
    .inputs = inputs,
    .outputs = outputs,
    .options = mr_decode_options,
    .options_bytes = sizeof(mr_decode_choices),
    .state_bytes = sizeof(mr_decode_state),
    .entry = MR_ENTRY_PER_SOURCE,
    .converts = true,
    .streams = true,
    .cuda = true,
    .negotiate = mr_decode_negotiate,
    .check_device = mr_decode_check,
    .check_input = mr_decode_check_input,
    .open = open_decode,
    .process = process,
    .flush = flush,
    .close = close_decode,
};
