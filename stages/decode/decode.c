/* decode: compressed packets -> pictures, by libavcodec, straight into pool buffers if the decoder can.
 *
 * A packet's receipt ends here in one of three ways. Emitted: the picture is a frame. Absorbed: "skip", "not selected"
 * (decoded or not), "not shown" (edit list), "second field", "no picture". Dropped: "corrupt", "no key frame" (nothing
 * could be decoded yet), "stopped" (the picture's number is unknown, because earlier pictures were no longer read). A
 * number passes through the decoder and matches packets with pictures. */
#include "stages/decode/damage.h"
#include "stages/decode/decode_needed.h"
#include "stages/decode/decode_options.h"
#include "stages/decode/decoder.h"
#include "stages/decode/report.h"
#include "stages/decode/stream.h"
#include "stages/list.h"
#include "stages/media/media_input.h"
#include "stages/media/picture_format.h"
#include "stages/media/still/orientation.h"

/* What happens to a picture. AHEAD: the source was asked to end, and earlier pictures may not have been read. AGAIN:
 * another decoder decodes it again. */
typedef enum verdict {
    VERDICT_WANTED,
    VERDICT_NOT_SELECTED,
    VERDICT_DAMAGED,
    VERDICT_AHEAD,
    VERDICT_AGAIN
} verdict;

/* One source's state. Calls that overlap may use only `target` and `early`. */
typedef struct decode_state {
    mr_decode_target target;
    mr_early *early;         /* NULL: calls do not overlap */
    mr_needed needed;        /* packets not yet in the decoder, */
    mr_pending pending;      /* and packets in it */
    mr_decoder decoder;
    mr_damage damage;
    mr_decode_stream stream;
    mr_decode_report report;
    AVFrame *picture;        /* the next one to settle and the one after it; empty: not known yet */
    AVFrame *following;
    verdict verdict;         /* on picture */
    int64_t last_given;      /* the packet whose picture was emitted last */
    bool taken;              /* this call's input is in `needed`, or was sent */
    bool sent;               /* some pictures from the last sent packet have not been received */
    bool replacing, ending;  /* draining, because another decoder replaces this one; because all packets were sent */
    int64_t again;           /* the first packet that the other decoder gets; INT64_MAX: none that was sent */
    bool refused;            /* the device's decoder can neither continue nor be replaced */
} decode_state;

static const mr_format_set packets[] = {{.payload = MR_PAYLOAD_PACKET}, {.payload = MR_PAYLOAD_ANY}};
static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {
    {.name = "packets", .help = "compressed packets in decode order", .accepts = packets}, {.name = NULL}};
static const mr_port outputs[] = {
    {.name = "pictures", .help = "pictures in presentation order", .accepts = pictures}, {.name = NULL}};

/* ---- opening and closing ------------------------------------------------------------------------------------- */

static int open_decode(mr_stage *self) {
    const mr_decode_choices *from = self->options;
    decode_state *state = self->state;
    mr_av_log_capture();
    mr_pending_init(&state->pending);
    mr_needed_begin_epoch(&state->needed);
    mr_decode_stream_begin(&state->stream, 0);
    state->again = INT64_MAX;
    state->picture = av_frame_alloc();
    state->following = av_frame_alloc();
    if (!state->picture || !state->following)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (self->entries > 1 && mr_early_create(&state->early, self->entries))
        return MR_ERROR_MEMORY;
    if (mr_decoder_init(&state->decoder, self, &state->target, state->early))
        return MR_ERROR_MEMORY;
    int status = mr_decode_target_open(&state->target, self, (mr_hardware)from->hardware,
                                       from->damaged != MR_DAMAGED_DROP);
    if (!status)
        mr_damage_init(&state->damage, mr_decode_target_heard(&state->target), &state->pending);
    return status;
}

/* Call when a source ends while others continue: returns all buffers that no frame uses. */
static void close_source(decode_state *state) {
    mr_needed_fini(&state->needed);
    mr_decoder_close(&state->decoder, true);
    mr_early_close(state->early);
    av_frame_unref(state->picture);
    av_frame_unref(state->following);
    mr_decode_target_close(&state->target);
}

static void close_decode(mr_stage *self) {
    decode_state *state = self->state;
    close_source(state);
    mr_decoder_fini(&state->decoder);
    mr_early_destroy(&state->early);
    mr_decode_target_fini(&state->target);
    mr_pending_fini(&state->pending);
    mr_decode_report_fini(&state->report);
    av_frame_free(&state->picture);
    av_frame_free(&state->following);
}

/* ---- packets without a picture --------------------------------------------------------------------------------- */

static void drop_damaged(mr_stage *self, mr_io *io, const mr_frame *packet) {
    decode_state *state = self->state;
    mr_io_drop(io, packet, mr_decode_report_damaged(&state->report, self, packet));
}

/* Settles a packet, taken from `pending`, that gave no picture; releases the reference. */
static void settle_without(mr_stage *self, mr_io *io, mr_frame *packet, int64_t number) {
    decode_state *state = self->state;
    const mr_decode_choices *from = self->options;
    const mr_damage_cause cause = mr_damage_explain(&state->damage, packet, number);
    const bool known = cause == MR_DAMAGE_KNOWN;
    if (!known && packet->flags & MR_FRAME_HIDDEN)
        mr_io_absorb(io, packet, "not shown");
    else if (!known && mr_pending_may_be_field(&state->pending, number))
        mr_io_absorb(io, packet, "second field");
    else if (!known && packet->media && packet->pts_ns != MR_NO_TIME && packet->pts_ns < packet->media->start_ns)
        mr_io_absorb(io, packet, "not selected");
    else if (cause)
        drop_damaged(self, io, packet);
    else if (from->skip != MR_SKIP_NONE)
        mr_io_absorb(io, packet, "skip");
    else if (mr_decode_stream_is_empty(&state->stream) && !mr_decode_report_has_pictures(&state->report))
        mr_io_drop(io, packet, "no key frame");
    else
        mr_io_absorb(io, packet, "no picture");
    mr_frame_unref(&packet);
}

/* The decoder has refused a packet. */
static void note_error(mr_stage *self, mr_io *io, int error) {
    decode_state *state = self->state;
    bool sure;
    const int64_t number = mr_decoder_refused(&state->decoder, &state->pending, &sure);
    mr_decode_report_error(&state->report, error);
    if (!mr_damage_refuse(&state->damage, number, sure))
        return;
    mr_frame *packet = mr_pending_take(&state->pending, number);
    drop_damaged(self, io, packet);
    mr_frame_unref(&packet);
}

/* Reports that no frame has the next number; `last`: nor any later one in this epoch. */
static void skip_number(decode_state *state, mr_io *io, bool last) {
    const mr_identity next = mr_decode_stream_take(&state->stream);
    mr_io_skip(io, next.epoch, next.seq, last);
}

/* Skips the numbers that omitted pictures have before `pts_ns`; INT64_MAX: all. */
static void skip_left_out(decode_state *state, mr_io *io, int64_t pts_ns) {
    for (uint64_t left = mr_needed_reach(&state->needed, pts_ns); left > 0; left--)
        skip_number(state, io, false);
}

static void drop_undecoded(mr_io *io, mr_frame *packet) {
    mr_io_drop(io, packet, "no decoder");
    mr_frame_unref(&packet);
}

/* Call when no decoder is left. */
static int give_up(decode_state *state, mr_io *io, uint32_t source, int status) {
    mr_io_fail_source(io, source, status);
    mr_needed_end(&state->needed, true);
    for (mr_needed_answer next; (next = mr_needed_next(&state->needed, 0)) != MR_NEEDED_WAIT;)
        drop_undecoded(io, mr_needed_take(&state->needed, next));
    int64_t number;
    for (mr_frame *packet; (packet = mr_pending_take_oldest(&state->pending, INT64_MAX, &number));)
        drop_undecoded(io, packet);
    skip_left_out(state, io, INT64_MAX);
    mr_needed_fini(&state->needed);
    state->again = INT64_MAX;
    state->sent = false;
    return MR_DONE;
}

/* ---- pictures -------------------------------------------------------------------------------------------------- */

static bool is_selected(decode_state *state, mr_io *io, const mr_frame *packet, int64_t number) {
    if (packet->pts_ns != MR_NO_TIME)
        skip_left_out(state, io, packet->pts_ns);
    const int64_t time_ns = mr_decode_stream_place(&state->stream, &state->pending, packet, number);
    return mr_needed_wants(&state->needed, packet, time_ns);
}

/* Another decoder gives the pictures from this packet on. */
static int64_t decoded_again_from(const decode_state *state) {
    if (state->replacing || state->ending)
        return state->again;
    return mr_damage_spoils(&state->damage, mr_decoder_codec(&state->decoder), NULL);
}

static verdict judge(mr_stage *self, mr_io *io, AVFrame *picture) {
    decode_state *state = self->state;
    const int64_t number = picture->reordered_opaque;
    const mr_frame *packet = mr_pending_find(&state->pending, number);
    mr_damage_learn(&state->damage);
    if (!packet)
        return VERDICT_NOT_SELECTED;
    if (number >= decoded_again_from(state))
        return VERDICT_AGAIN;
    if (mr_decode_stream_is_ahead(&state->stream, packet, mr_decoder_codec(&state->decoder)->has_b_frames > 0)) {
        mr_decode_report_note(&state->report, MR_DECODE_PICTURE);
        return VERDICT_AHEAD;
    }
    const bool patched = mr_decoder_patched(&state->decoder, picture);
    const bool damaged = mr_damage_judge(&state->damage, packet, picture, patched);
    const bool dropped = damaged && ((const mr_decode_choices *)self->options)->damaged == MR_DAMAGED_DROP;
    if (damaged)
        picture->flags |= AV_FRAME_FLAG_CORRUPT;
    if (picture->interlaced_frame)
        mr_pending_note_interlaced(&state->pending, number);
    mr_decode_report_note(&state->report, dropped ? MR_DECODE_DAMAGED : MR_DECODE_PICTURE);
    const bool selected = is_selected(state, io, packet, number);
    return dropped ? VERDICT_DAMAGED : selected ? VERDICT_WANTED : VERDICT_NOT_SELECTED;
}

/* Sets a still picture's orientation from the packet, or from texts that the decoder found. */
static void turn(mr_format *picture, const mr_frame *packet, const AVDictionary *texts) {
    const AVCodecParameters *codec = packet->media->codec;
    const AVDictionaryEntry *profile = av_dict_get(texts, "Raw profile type exif", NULL, AV_DICT_MATCH_CASE);
    if (!packet->media->still)
        return;
    mr_upright found = mr_still_upright(codec->codec_id, packet->plane[0].data, packet->plane[0].bytes);
    if (profile && !found.rotation && !found.flip)
        found = mr_upright_of_profile(profile->value);
    if (found.rotation || found.flip) {
        picture->rotation = found.rotation;
        picture->flip = found.flip;
    }
}

/* Makes a frame from the picture; the packet's receipt passes to it. */
static int make_frame(mr_stage *self, mr_io *io, const mr_frame *packet, mr_frame **frame) {
    decode_state *state = self->state;
    const AVFrame *picture = state->picture;
    const mr_decode_choices *from = self->options;
    const mr_untagged untagged = {(mr_matrix)from->untagged.matrix, (mr_range)from->untagged.range};
    const enum AVPixelFormat layout = mr_decode_device_layout(picture);
    enum AVPixelFormat converted = layout;
    mr_pixel pixel = mr_pixel_from_av(layout);
    if (!pixel)
        pixel = mr_pixel_nearest(layout, &converted);
    if (!pixel)
        return mr_fail(MR_ERROR_DATA, "pictures of pixel format %d cannot be carried", layout);
    mr_format format;
    mr_format_describe(&format, picture, pixel, mr_decoder_codec(&state->decoder), packet->media, untagged);
    turn(&format, packet, picture->metadata);
    return mr_decode_target_give(&state->target, io, picture, converted, &format, packet, frame);
}

static int emit_picture(mr_stage *self, mr_io *io, const mr_frame *packet) {
    decode_state *state = self->state;
    const AVFrame *picture = state->picture;
    const bool marks = ((const mr_decode_choices *)self->options)->damaged == MR_DAMAGED_MARK;
    mr_frame *frame;
    mr_decode_report_emitted(&state->report, self, picture);
    int status = make_frame(self, io, packet, &frame);
    if (status)
        return status;
    frame->geometry = mr_geometry_of(&frame->format);
    if (packet->geometry.width) /* a picture that this pipeline has encoded */
        frame->geometry = mr_geometry_chain(&frame->geometry, &packet->geometry);
    mr_decode_stream_stamp(&state->stream, frame);
    frame->flags = (picture->key_frame ? MR_FRAME_KEY : 0) | (packet->flags & MR_FRAME_AWAY) |
                   (marks && picture->flags & AV_FRAME_FLAG_CORRUPT ? MR_FRAME_CORRUPT : 0);
    return mr_io_emit(io, 0, frame);
}

/* Settles a packet that gave no frame. `status`: the result for the last picture. */
static void settle_unwanted(mr_stage *self, mr_io *io, const mr_frame *packet, int status) {
    switch (((const decode_state *)self->state)->verdict) {
    case VERDICT_NOT_SELECTED:
        mr_io_absorb(io, packet, "not selected");
        break;
    case VERDICT_DAMAGED:
        drop_damaged(self, io, packet);
        break;
    case VERDICT_AHEAD:
        mr_io_drop(io, packet, MR_REASON_STOPPED);
        break;
    default:
        mr_io_drop(io, packet, status == MR_ERROR_DEVICE ? "device error" : "cannot be carried");
    }
}

/* Settles state->picture and sets *emitted. After MR_ERROR_AGAIN, call again. A packet with several pictures stays in
 * `pending` until the last one. */
static int settle(mr_stage *self, mr_io *io, bool *emitted) {
    decode_state *state = self->state;
    const int64_t number = state->picture->reordered_opaque;
    const bool ahead = state->verdict == VERDICT_AHEAD;
    mr_frame *packet = mr_pending_find(&state->pending, number);
    int status = MR_OK;
    *emitted = false;
    if (!packet || state->verdict == VERDICT_AGAIN)
        return MR_OK; /* without one: it was counted as damaged before */
    if (state->verdict == VERDICT_WANTED)
        status = emit_picture(self, io, packet);
    if (status == MR_ERROR_AGAIN)
        return status;
    *emitted = state->verdict == VERDICT_WANTED && !status;
    if (*emitted)
        state->last_given = number;
    if (!ahead && mr_decode_stream_is_numbered(&state->stream)) {
        if (*emitted)
            mr_decode_stream_take(&state->stream);
        else
            skip_number(state, io, false);
    }
    if (!ahead && state->following->buf[0] && state->following->reordered_opaque == number)
        return MR_OK;
    if (state->last_given != number)
        settle_unwanted(self, io, packet, status);
    mr_pending_take(&state->pending, number);
    mr_frame_unref(&packet);
    return MR_OK;
}

/* Receives the decoder's next picture; false: none now, or none at all. */
static bool receive(mr_stage *self, mr_io *io, AVFrame *picture) {
    decode_state *state = self->state;
    int error;
    while ((error = mr_decoder_receive(&state->decoder, &state->pending, picture)) < 0) {
        if (error == AVERROR(EAGAIN) || error == AVERROR_EOF)
            return false;
        note_error(self, io, error);
    }
    return true;
}

/* Emits one picture. MR_MORE: another waits; MR_DONE: none is left. */
static int give_pictures(mr_stage *self, mr_io *io) {
    decode_state *state = self->state;
    for (bool emitted = false;;) {
        if (!state->picture->buf[0]) {
            if (emitted || !receive(self, io, state->picture))
                return MR_DONE;
            state->verdict = judge(self, io, state->picture);
        }
        if (emitted)
            return MR_MORE;
        if (!state->following->buf[0])
            receive(self, io, state->following);
        int status = settle(self, io, &emitted);
        if (status)
            return status;
        av_frame_unref(state->picture);
        av_frame_move_ref(state->picture, state->following);
        if (state->picture->buf[0])
            state->verdict = judge(self, io, state->picture);
    }
}

/* ---- the end of a decoder --------------------------------------------------------------------------------------- */

/* `again`: the first packet that another decoder gets; INT64_MAX: this one keeps all. */
static void begin_draining(mr_stage *self, mr_io *io, int64_t again) {
    decode_state *state = self->state;
    state->again = again;
    state->ending = again == INT64_MAX;
    state->replacing = !state->ending;
    const int error = mr_decoder_drain(&state->decoder);
    if (error < 0)
        note_error(self, io, error);
}

/* Receives the decoder's last pictures. After MR_MORE or MR_ERROR_AGAIN, call again. */
static int drain_decoder(mr_stage *self, mr_io *io) {
    decode_state *state = self->state;
    int answer = give_pictures(self, io);
    if (answer)
        return answer;
    int64_t number;
    for (mr_frame *packet; (packet = mr_pending_take_oldest(&state->pending, state->again, &number));)
        settle_without(self, io, packet, number);
    mr_damage_end(&state->damage);
    mr_decoder_restart(&state->decoder);
    state->replacing = state->ending = false;
    return MR_DONE;
}

/* Like drain_decoder, then opens another decoder. */
static int replace_decoder(mr_stage *self, mr_io *io) {
    decode_state *state = self->state;
    int answer = drain_decoder(self, io);
    if (answer)
        return answer;
    const bool sent = state->again < mr_pending_next(&state->pending);
    const mr_frame *packet = sent ? mr_pending_find(&state->pending, state->again) : mr_needed_chosen(&state->needed);
    state->again = sent ? state->again : INT64_MAX;
    state->sent = false;
    mr_damage_replace(&state->damage, state->again);
    mr_decode_report_note(&state->report, MR_DECODE_DECODER);
    int status = mr_decoder_replace(&state->decoder, io, packet);
    return status ? give_up(state, io, packet->identity.source, status) : MR_DONE;
}

/* ---- stretches: packets of one epoch and one decoder ----------------------------------------------------------- */

/* Sends a packet that is in `pending` under this number. */
static void send_packet(mr_stage *self, mr_io *io, const mr_frame *packet, int64_t number) {
    decode_state *state = self->state;
    int error;
    state->sent = true;
    const int status = mr_decoder_send(&state->decoder, io, packet, number, &error);
    if (status)
        give_up(state, io, packet->identity.source, status);
    else if (error < 0)
        note_error(self, io, error);
}

/* Sends a packet that the previous decoder already had. */
static void send_again(mr_stage *self, mr_io *io) {
    decode_state *state = self->state;
    const int64_t number = state->again++;
    const mr_frame *packet = mr_pending_find(&state->pending, number);
    if (state->again == mr_pending_next(&state->pending))
        state->again = INT64_MAX;
    if (!packet)
        return;
    mr_damage_send(&state->damage, packet, number, true);
    send_packet(self, io, packet, number);
}

/* Sends the chosen packet once there is room for the picture. An unsuitable decoder is drained first. */
static int send_chosen(mr_stage *self, mr_io *io) {
    decode_state *state = self->state;
    const int64_t again = mr_damage_spoils(&state->damage, mr_decoder_codec(&state->decoder),
                                           mr_needed_chosen(&state->needed));
    if (again < INT64_MAX) {
        begin_draining(self, io, again);
        return MR_OK;
    }
    mr_pool *full = mr_early_is_present(state->early) ? NULL : mr_decode_target_full(&state->target);
    if (full)
        return mr_io_await_pool(io, full, 1);
    int64_t number;
    mr_frame *expired = mr_pending_expired(&state->pending, &number);
    if (expired)
        settle_without(self, io, expired, number);
    mr_frame *packet = mr_needed_take(&state->needed, MR_NEEDED_SEND);
    mr_decode_report_sent(&state->report, self, packet);
    number = mr_pending_add(&state->pending, packet);
    mr_damage_send(&state->damage, packet, number, false);
    send_packet(self, io, packet, number);
    mr_frame_unref(&packet);
    return MR_OK;
}

static void leave_out(decode_state *state, mr_io *io) {
    mr_frame *packet = mr_needed_take(&state->needed, MR_NEEDED_LEAVE);
    mr_decode_report_note(&state->report, MR_DECODE_LEFT);
    mr_io_absorb(io, packet, "not selected");
    mr_frame_unref(&packet);
}

/* Sends or omits one packet. MR_END: the rest must wait for further packets. */
static int send_next(mr_stage *self, mr_io *io, size_t room) {
    decode_state *state = self->state;
    if (state->again < mr_pending_next(&state->pending)) {
        send_again(self, io);
        return MR_OK;
    }
    const mr_needed_answer next = mr_needed_next(&state->needed, room);
    if (next == MR_NEEDED_SEND)
        return send_chosen(self, io);
    if (next == MR_NEEDED_LEAVE)
        leave_out(state, io);
    return next == MR_NEEDED_WAIT ? MR_END : MR_OK;
}

/* Decodes packets that are known to be needed, or must be decoded now. MR_DONE: the rest must wait for further
 * packets. */
static int decode_needed(mr_stage *self, mr_io *io, size_t room) {
    decode_state *state = self->state;
    for (const AVCodecContext *codec; (codec = mr_decoder_codec(&state->decoder));) {
        const int64_t again = state->replacing ? INT64_MAX : mr_damage_spoils(&state->damage, codec, NULL);
        if (again < INT64_MAX)
            begin_draining(self, io, again);
        int answer = state->replacing ? replace_decoder(self, io) : state->sent ? MR_OK : send_next(self, io, room);
        if (!answer && state->sent) {
            answer = give_pictures(self, io);
            state->sent = answer != MR_DONE;
        }
        if (answer)
            return answer == MR_END ? MR_DONE : answer;
    }
    return MR_DONE;
}

/* Decodes what waits, then receives the decoder's last pictures: the stretch ends. After MR_MORE or MR_ERROR_AGAIN,
 * call again. */
static int drain(mr_stage *self, mr_io *io, bool cut_short) {
    decode_state *state = self->state;
    if (!state->ending) {
        mr_needed_end(&state->needed, cut_short);
        int answer = decode_needed(self, io, 0);
        if (answer || !mr_decoder_codec(&state->decoder))
            return answer;
        begin_draining(self, io, INT64_MAX);
    }
    int answer = drain_decoder(self, io);
    if (answer)
        return answer;
    skip_left_out(state, io, INT64_MAX);
    mr_needed_fini(&state->needed);
    return MR_DONE;
}

static void begin_epoch(decode_state *state, mr_io *io, uint32_t epoch) {
    skip_number(state, io, true);
    mr_decode_stream_begin(&state->stream, epoch);
    mr_needed_begin_epoch(&state->needed);
    mr_damage_begin(&state->damage, true);
}

/* Makes the decoder ready for a packet. All remaining pictures must be received first. */
static int prepare(mr_stage *self, mr_io *io, const mr_frame *frame) {
    decode_state *state = self->state;
    const bool open = mr_decoder_codec(&state->decoder), renewed = open && !mr_decoder_suits(&state->decoder, frame);
    const bool follows = mr_decode_stream_is_at(&state->stream, frame->identity.epoch);
    int status = open && (renewed || !follows) ? drain(self, io, false) : MR_OK;
    if (status)
        return status;
    if (!follows)
        begin_epoch(state, io, frame->identity.epoch);
    if (renewed) {
        mr_decoder_close(&state->decoder, true);
        mr_damage_begin(&state->damage, false);
    }
    if (!mr_decoder_codec(&state->decoder)) {
        mr_decode_report_note(&state->report, MR_DECODE_DECODER);
        status = mr_decoder_open(&state->decoder, io, frame);
    }
    if (!status)
        mr_needed_begin(&state->needed, frame, ((const mr_decode_choices *)self->options)->skip != MR_SKIP_NONE);
    return status;
}

/* ---- the stage ------------------------------------------------------------------------------------------------- */

static bool is_skipped(const mr_decode_choices *from, const mr_frame *frame) {
    return (from->skip == MR_SKIP_NONREF && frame->flags & MR_FRAME_DISPOSABLE) ||
           (from->skip == MR_SKIP_NONKEY && !(frame->flags & MR_FRAME_KEY));
}

static bool is_corrupt(const mr_frame *frame) {
    return frame->plane[0].bytes == 0 || frame->plane[0].bytes > INT32_MAX - AV_INPUT_BUFFER_PADDING_SIZE;
}

/* Why a packet is dropped before decoding; NULL: it is not. */
static const char *reason_to_drop(mr_stage *self, const mr_frame *frame) {
    decode_state *state = self->state;
    const AVCodecParameters *codec = frame->media ? frame->media->codec : NULL;
    const bool corrupt = is_corrupt(frame);
    if (!codec || state->refused)
        return codec ? "no decoder" : "no media";
    if (mr_decode_report_outsized(&state->report, self, frame->media, codec->width, codec->height))
        return "too large";
    if (corrupt && frame->flags & MR_FRAME_CORRUPT)
        return "corrupt"; /* the source logs why it marked the packet */
    return corrupt ? mr_decode_report_damaged(&state->report, self, frame) : NULL;
}

/* True if the packet is settled without the decoder. */
static bool settle_undecoded(mr_stage *self, mr_io *io, const mr_frame *frame) {
    decode_state *state = self->state;
    const mr_decode_choices *from = self->options;
    const bool skipped = is_skipped(from, frame);
    const char *reason = reason_to_drop(self, frame);
    if (!reason && !skipped)
        return false;
    if (reason) {
        mr_decode_report_note(&state->report, MR_DECODE_PACKET);
        mr_io_drop(io, frame, reason);
    } else {
        mr_io_absorb(io, frame, "skip");
    }
    if (skipped)
        mr_damage_skip(&state->damage, frame, from->skip == MR_SKIP_NONREF);
    return true;
}

/* A picture with a deadline cannot wait for later packets. A decoder that reorders pictures gives one only after
 * several others: omitting some would delay the following ones. */
static void take(decode_state *state, mr_frame *frame) {
    const bool all = frame->deadline_ns && mr_decoder_codec(&state->decoder)->has_b_frames > 0;
    mr_damage_note(&state->damage, frame);
    mr_needed_add(&state->needed, frame, all, &state->pending);
    mr_decode_stream_note(&state->stream, frame);
    state->taken = true;
}

/* How many packets may wait before the decoder. */
static size_t room_of(const decode_state *state, const mr_frame *frame) {
    const size_t inside = mr_pending_count(&state->pending);
    return frame->deadline_ns || inside > MR_NEEDED_MOST ? 0 : MR_NEEDED_MOST - inside;
}

static int process_in_turn(mr_stage *self, mr_io *io) {
    decode_state *state = self->state;
    mr_frame *frame = mr_io_input(io);
    if (!state->taken) {
        if (settle_undecoded(self, io, frame))
            return MR_DONE;
        int answer = prepare(self, io, frame);
        if (answer == MR_ERROR_DATA || answer == MR_ERROR_UNAVAILABLE) {
            mr_decode_report_note(&state->report, MR_DECODE_PACKET);
            mr_io_fail_source(io, frame->identity.source, answer);
            mr_io_drop(io, frame, "no decoder");
            return MR_DONE;
        }
        if (answer)
            return answer;
        take(state, frame);
    }
    int answer = decode_needed(self, io, room_of(state, frame));
    state->taken = answer != MR_DONE;
    if (!state->refused && mr_decode_device_refused(mr_decode_target_device(&state->target))) {
        state->refused = true;
        mr_io_fail_source(io, frame->identity.source, MR_ERROR_UNAVAILABLE);
    }
    return answer;
}

/* Decodes a still picture in parallel with other calls. MR_ERROR_AGAIN: no room. */
static int decode_early(mr_stage *self, mr_io *io, const mr_frame *frame) {
    const decode_state *state = self->state;
    const mr_decode_choices *from = self->options;
    const mr_media *media = frame->media;
    if (!media || !media->codec || !media->still || is_skipped(from, frame) || is_corrupt(frame))
        return MR_OK;
    mr_codec_params params = mr_decoder_params(self, io, &state->target, frame);
    return mr_early_decode(state->early, &params, self, frame, from->reduced != MR_REDUCED_OFF);
}

static int process(mr_stage *self, mr_io *io) {
    const decode_state *state = self->state;
    if (!state->early)
        return process_in_turn(self, io);
    int answer = decode_early(self, io, mr_io_input(io));
    if (!answer)
        answer = mr_io_await_turn(io);
    if (answer)
        return answer;
    mr_early_begin_turn(state->early, mr_io_entry(io));
    answer = process_in_turn(self, io);
    mr_early_end_turn(state->early, answer != MR_MORE && answer != MR_ERROR_AGAIN);
    return answer;
}

static int flush(mr_stage *self, mr_io *io, uint32_t source) {
    decode_state *state = self->state;
    int answer = mr_io_await_turn(io);
    if (answer)
        return answer;
    const bool cut_short = mr_io_cut_short(io);
    mr_decode_stream_end(&state->stream, cut_short);
    answer = mr_decoder_codec(&state->decoder) ? drain(self, io, cut_short) : MR_DONE;
    if (answer)
        return answer;
    const int failure = mr_decode_report_end(&state->report, self);
    mr_decoder_sum_up(&state->decoder);
    close_source(state);
    /* If the source was asked to end, undamaged pictures may have been left. */
    if (failure && !state->refused && !cut_short)
        mr_io_fail_source(io, source, failure);
    return MR_DONE;
}

const mr_stage_type mr_decode_stage = {
    .name = "decode",
    .summary = "decodes packets into pictures",
    .help = "Decodes with libavcodec what media reads. Pictures come in presentation order. They are numbered from 0 "
            "in each epoch; number 0 is the first picture after `start`, and pictures that duration, every or fps "
            "skip have numbers too. A picture keeps the stream's matrix, range, chroma siting, sample aspect ratio "
            "and rotation. A still picture has its rotation in EXIF (JPEG, PNG, WebP), XMP (PNG, WebP), TIFF's tag or "
            "HEIF's properties. Interlaced pictures are not deinterlaced, and HDR values are not mapped. In H.264, "
            "HEVC, VP9 and MPEG video, pictures that are not wanted, and on which no wanted picture depends, are not "
            "decoded. They count as \"not selected\", even if they are damaged. Pictures coded as fields, raw streams "
            "without times, and sources with a deadline whose pictures are reordered are all decoded. A plan takes "
            "sizes and memory from the container. If a stream changes to larger pictures, they get new buffers, which "
            "is logged once; a live source's larger pictures are dropped as \"too large\".",
    .inputs = inputs,
    .outputs = outputs,
    .options = mr_decode_options,
    .options_bytes = sizeof(mr_decode_choices),
    .state_bytes = sizeof(decode_state),
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
