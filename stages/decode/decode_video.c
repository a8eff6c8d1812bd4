#include "stages/decode/decode_video.h"

#include "stages/decode/decode_options.h"
#include "stages/media/media_input.h"

static const mr_decode_choices *options_of(const mr_decode_video *video) {
    return video->output->self->options;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

int mr_decode_video_open(mr_decode_video *video, mr_decode_output *output) {
    *video = (mr_decode_video){.output = output, .last_dts_ns = MR_NO_TIME, .again = INT64_MAX,
                               .picture = av_frame_alloc(), .following = av_frame_alloc()};
    if (!video->picture || !video->following)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    mr_pending_init(&video->pending);
    mr_needed_init(&video->needed, options_of(video)->skip != MR_SKIP_NONE);
    mr_decoder_init(&video->decoder, output->self, &output->target, &video->pending);
    mr_damage_init(&video->damage, mr_decode_target_log(&output->target), &video->pending);
    return MR_OK;
}

void mr_decode_video_close(mr_decode_video *video) {
    mr_needed_fini(&video->needed);
    mr_decoder_close(&video->decoder, false);
    mr_media_unref(&video->media);
    av_frame_unref(video->picture);
    av_frame_unref(video->following);
}

void mr_decode_video_fini(mr_decode_video *video) {
    if (!video->picture)
        return;
    mr_decode_video_close(video);
    mr_pending_fini(&video->pending);
    av_frame_free(&video->picture);
    av_frame_free(&video->following);
}

/* ---- packets without a picture --------------------------------------------------------------------------------- */

static void drop_damaged(mr_decode_video *video, mr_io *io, const mr_frame *packet) {
    mr_io_drop(io, packet, mr_decode_report_damaged(&video->output->report, packet));
}

/* Settles a packet, taken from `pending`, that gave no picture; releases the reference. */
static void settle_without(mr_decode_video *video, mr_io *io, mr_frame *packet, int64_t number) {
    const mr_damage_cause cause = mr_damage_explain(&video->damage, packet, number);
    const bool known = cause == MR_DAMAGE_KNOWN;
    if (!known && packet->flags & MR_FRAME_HIDDEN)
        mr_io_absorb(io, packet, "not shown");
    else if (!known && mr_pending_may_be_field(&video->pending, number))
        mr_io_absorb(io, packet, "second field");
    else if (!known && packet->media && packet->pts_ns != MR_NO_TIME && packet->pts_ns < packet->media->start_ns)
        mr_io_absorb(io, packet, "not selected");
    else if (cause)
        drop_damaged(video, io, packet);
    else if (options_of(video)->skip != MR_SKIP_NONE)
        mr_io_absorb(io, packet, "skip");
    else if (mr_decode_report_is_empty(&video->output->report))
        mr_io_drop(io, packet, "no key frame");
    else
        mr_io_absorb(io, packet, "no picture");
    mr_frame_unref(&packet);
}

/* The decoder may have refused a packet. */
static void note_error(mr_decode_video *video, mr_io *io, mr_decoder_error error) {
    if (!error.code)
        return;
    mr_decode_report_error(&video->output->report, error.code);
    if (!mr_damage_refuse(&video->damage, error.number, error.sure))
        return;
    mr_frame *packet = mr_pending_take(&video->pending, error.number);
    drop_damaged(video, io, packet);
    mr_frame_unref(&packet);
}

static void skip_number(mr_decode_video *video, mr_io *io) {
    const mr_identity left_out = mr_decode_stream_skip(&video->output->stream);
    mr_io_skip(io, left_out.epoch, left_out.seq, false);
}

/* Skips the numbers of omitted pictures. */
static void skip_left_out(mr_decode_video *video, mr_io *io) {
    for (; video->left_out > 0; video->left_out--)
        skip_number(video, io);
}

/* No more pictures come: skips the numbers of all that were omitted. */
static void skip_rest(mr_decode_video *video, mr_io *io) {
    video->left_out += mr_needed_reach(&video->needed, INT64_MAX);
    skip_left_out(video, io);
}

static void drop_undecoded(mr_io *io, mr_frame *packet) {
    mr_io_drop(io, packet, "no decoder");
    mr_frame_unref(&packet);
}

/* Call when the decoder cannot be opened. */
static void give_up(mr_decode_video *video, mr_io *io, uint32_t source, int status) {
    mr_io_fail_source(io, source, status);
    mr_needed_end(&video->needed, true);
    for (mr_needed_answer next; (next = mr_needed_next(&video->needed, 0)) != MR_NEEDED_WAIT;)
        drop_undecoded(io, mr_needed_take(&video->needed, next));
    int64_t number;
    for (mr_frame *packet; (packet = mr_pending_take_oldest(&video->pending, INT64_MAX, &number));)
        drop_undecoded(io, packet);
    skip_rest(video, io);
    mr_needed_fini(&video->needed);
    mr_media_unref(&video->media);
    video->again = INT64_MAX;
    video->sent = false;
}

/* ---- pictures -------------------------------------------------------------------------------------------------- */

static bool is_selected(mr_decode_video *video, const mr_frame *packet, int64_t number) {
    if (packet->pts_ns != MR_NO_TIME)
        video->left_out += mr_needed_reach(&video->needed, packet->pts_ns);
    const int64_t time_ns = mr_decode_stream_place(&video->output->stream, &video->pending, packet, number);
    return mr_needed_wants(&video->needed, packet, time_ns);
}

/* Another decoder gives the pictures from this packet on. */
static int64_t decoded_again_from(const mr_decode_video *video) {
    return video->replacing || video->ending ? video->again : mr_decoder_ends_at(&video->decoder, NULL);
}

/* Whether the packet's picture might come before unread ones: missing packets would be decoded after the last one, and
 * shown no earlier than that. Once true, it stays true until the end. */
static bool is_ahead(mr_decode_video *video, const mr_frame *packet) {
    const bool counted = packet->pts_ns != MR_NO_TIME && video->last_dts_ns != MR_NO_TIME &&
                         packet->pts_ns <= video->last_dts_ns;
    video->ahead |= video->cut_short && !counted && mr_decoder_codec(&video->decoder)->has_b_frames > 0;
    return video->ahead;
}

static mr_decode_verdict judge(mr_decode_video *video, AVFrame *picture) {
    mr_decode_report *report = &video->output->report;
    const int64_t number = picture->reordered_opaque;
    const mr_frame *packet = mr_pending_find(&video->pending, number);
    if (!packet)
        return MR_VERDICT_NOT_SELECTED;
    if (number >= decoded_again_from(video))
        return MR_VERDICT_AGAIN;
    if (is_ahead(video, packet)) {
        mr_decode_report_note(report, MR_DECODE_PICTURE);
        return MR_VERDICT_AHEAD;
    }
    const bool damaged = mr_damage_judge(&video->damage, packet, picture);
    const bool dropped = damaged && options_of(video)->damaged == MR_DAMAGED_DROP;
    if (damaged)
        picture->flags |= AV_FRAME_FLAG_CORRUPT;
    if (picture->interlaced_frame)
        mr_pending_note_interlaced(&video->pending, number);
    mr_decode_report_note(report, dropped ? MR_DECODE_DAMAGED : MR_DECODE_PICTURE);
    const bool selected = is_selected(video, packet, number);
    return dropped ? MR_VERDICT_DAMAGED : selected ? MR_VERDICT_WANTED : MR_VERDICT_NOT_SELECTED;
}

/* Settles a packet that gave no frame. `status`: the result for the last picture. */
static void settle_unwanted(mr_decode_video *video, mr_io *io, const mr_frame *packet, int status) {
    switch (video->verdict) {
    case MR_VERDICT_NOT_SELECTED:
        mr_io_absorb(io, packet, "not selected");
        break;
    case MR_VERDICT_DAMAGED:
        drop_damaged(video, io, packet);
        break;
    case MR_VERDICT_AHEAD:
        mr_io_drop(io, packet, MR_REASON_STOPPED);
        break;
    default:
        mr_io_drop(io, packet, status == MR_ERROR_DEVICE ? "device error" : "cannot be carried");
    }
}

/* Settles video->picture and sets *emitted. After MR_ERROR_AGAIN, call again. A packet with several pictures stays in
 * `pending` until the last one. */
static int settle(mr_decode_video *video, mr_io *io, bool *emitted) {
    const int64_t number = video->picture->reordered_opaque;
    const bool ahead = video->verdict == MR_VERDICT_AHEAD;
    mr_frame *packet = mr_pending_find(&video->pending, number);
    int status = MR_OK;
    *emitted = false;
    skip_left_out(video, io);
    if (!packet || video->verdict == MR_VERDICT_AGAIN)
        return MR_OK; /* without one: it was counted as damaged before */
    if (video->verdict == MR_VERDICT_WANTED)
        status = mr_decode_output_emit(video->output, io, video->picture, mr_decoder_codec(&video->decoder), packet,
                                       NULL);
    if (status == MR_ERROR_AGAIN)
        return status;
    *emitted = video->verdict == MR_VERDICT_WANTED && !status;
    if (*emitted)
        video->last_given = number;
    if (!ahead && mr_decode_stream_settle(&video->output->stream, *emitted))
        skip_number(video, io);
    if (!ahead && video->following->buf[0] && video->following->reordered_opaque == number)
        return MR_OK;
    if (video->last_given != number)
        settle_unwanted(video, io, packet, status);
    mr_pending_take(&video->pending, number);
    mr_frame_unref(&packet);
    return MR_OK;
}

/* Receives the decoder's next picture; false: none now, or none at all. */
static bool receive(mr_decode_video *video, mr_io *io, AVFrame *picture) {
    mr_decoder_error error;
    while (!mr_decoder_receive(&video->decoder, picture, &error)) {
        if (!error.code)
            return false;
        note_error(video, io, error);
    }
    return true;
}

/* Emits one picture. MR_MORE: another waits; MR_DONE: none is left. */
static int give_pictures(mr_decode_video *video, mr_io *io) {
    for (bool emitted = false;;) {
        if (!video->picture->buf[0]) {
            if (emitted || !receive(video, io, video->picture))
                return MR_DONE;
            video->verdict = judge(video, video->picture);
        }
        if (emitted)
            return MR_MORE;
        if (!video->following->buf[0])
            receive(video, io, video->following);
        int status = settle(video, io, &emitted);
        if (status)
            return status;
        av_frame_unref(video->picture);
        av_frame_move_ref(video->picture, video->following);
        if (video->picture->buf[0])
            video->verdict = judge(video, video->picture);
    }
}

/* ---- the end of a decoder --------------------------------------------------------------------------------------- */

/* `again`: the first packet that another decoder gets; INT64_MAX: this one keeps all. */
static void begin_draining(mr_decode_video *video, mr_io *io, int64_t again) {
    video->again = again;
    video->ending = again == INT64_MAX;
    video->replacing = !video->ending;
    mr_decoder_error error;
    mr_decoder_drain(&video->decoder, &error);
    note_error(video, io, error);
}

/* Receives the decoder's last pictures. After MR_MORE or MR_ERROR_AGAIN, call again. */
static int drain_decoder(mr_decode_video *video, mr_io *io) {
    int answer = give_pictures(video, io);
    if (answer)
        return answer;
    int64_t number;
    for (mr_frame *packet; (packet = mr_pending_take_oldest(&video->pending, video->again, &number));)
        settle_without(video, io, packet, number);
    video->replacing = video->ending = false;
    return MR_DONE;
}

/* Like drain_decoder, then closes the decoder: the next packet opens another. */
static int replace_decoder(mr_decode_video *video, mr_io *io) {
    int answer = drain_decoder(video, io);
    if (answer)
        return answer;
    if (video->again >= mr_pending_next(&video->pending))
        video->again = INT64_MAX;
    video->sent = false;
    mr_damage_replace(&video->damage, video->again);
    mr_decode_report_note(&video->output->report, MR_DECODE_DECODER);
    mr_decoder_close(&video->decoder, true);
    return MR_DONE;
}

/* ---- stretches: packets of one epoch and one decoder ----------------------------------------------------------- */

/* Sends a packet that is in `pending` under this number. */
static void send_packet(mr_decode_video *video, mr_io *io, const mr_frame *packet, int64_t number) {
    mr_decoder_error error;
    video->sent = true;
    const int status = mr_decoder_send(&video->decoder, packet, number, &error);
    if (status) {
        give_up(video, io, packet->identity.source, status);
        return;
    }
    mr_decode_report_scale(&video->output->report, mr_decoder_codec(&video->decoder)->lowres);
    note_error(video, io, error);
}

/* Sends a packet that the previous decoder already had. */
static void send_again(mr_decode_video *video, mr_io *io) {
    const int64_t number = video->again++;
    const mr_frame *packet = mr_pending_find(&video->pending, number);
    if (video->again == mr_pending_next(&video->pending))
        video->again = INT64_MAX;
    if (!packet)
        return;
    mr_damage_send(&video->damage, packet, number, true);
    send_packet(video, io, packet, number);
}

/* Sends the chosen packet once there is room for the picture. An unsuitable decoder is drained first. */
static int send_chosen(mr_decode_video *video, mr_io *io) {
    const int64_t again = mr_decoder_ends_at(&video->decoder, mr_needed_chosen(&video->needed));
    if (again < INT64_MAX) {
        begin_draining(video, io, again);
        return MR_OK;
    }
    mr_pool *full = mr_decode_target_full(&video->output->target);
    if (full)
        return mr_io_await_pool(io, full, 1);
    int64_t number;
    mr_frame *expired = mr_pending_expired(&video->pending, &number);
    if (expired)
        settle_without(video, io, expired, number);
    mr_frame *packet = mr_needed_take(&video->needed, MR_NEEDED_SEND);
    mr_decode_report_note(&video->output->report, MR_DECODE_PACKET);
    number = mr_pending_add(&video->pending, packet);
    mr_damage_send(&video->damage, packet, number, false);
    send_packet(video, io, packet, number);
    mr_frame_unref(&packet);
    return MR_OK;
}

static void leave_out(mr_decode_video *video, mr_io *io) {
    mr_frame *packet = mr_needed_take(&video->needed, MR_NEEDED_LEAVE);
    mr_decode_report_note(&video->output->report, MR_DECODE_LEFT);
    mr_io_absorb(io, packet, "not selected");
    mr_frame_unref(&packet);
}

/* Sends or omits one packet. MR_END: the rest must wait for further packets. */
static int send_next(mr_decode_video *video, mr_io *io, size_t room) {
    if (video->again < mr_pending_next(&video->pending)) {
        send_again(video, io);
        return MR_OK;
    }
    const mr_needed_answer next = mr_needed_next(&video->needed, room);
    if (next == MR_NEEDED_SEND)
        return send_chosen(video, io);
    if (next == MR_NEEDED_LEAVE)
        leave_out(video, io);
    return next == MR_NEEDED_WAIT ? MR_END : MR_OK;
}

/* Decodes packets that are known to be needed, or must be decoded now. MR_DONE: the rest must wait for further
 * packets. */
static int decode_needed(mr_decode_video *video, mr_io *io, size_t room) {
    while (video->media) {
        const int64_t again = video->replacing ? INT64_MAX : mr_decoder_ends_at(&video->decoder, NULL);
        if (again < INT64_MAX)
            begin_draining(video, io, again);
        int answer = video->replacing ? replace_decoder(video, io) : video->sent ? MR_OK : send_next(video, io, room);
        if (!answer && video->sent) {
            answer = give_pictures(video, io);
            video->sent = answer != MR_DONE;
        }
        if (answer)
            return answer == MR_END ? MR_DONE : answer;
    }
    return MR_DONE;
}

/* Decodes what waits, then receives the decoder's last pictures: the stretch ends. After MR_MORE or MR_ERROR_AGAIN,
 * call again. */
static int drain(mr_decode_video *video, mr_io *io, bool cut_short) {
    if (!video->ending) {
        mr_needed_end(&video->needed, cut_short);
        int answer = decode_needed(video, io, 0);
        if (!answer && !mr_decoder_can_end(&video->decoder))
            answer = decode_needed(video, io, 0);
        if (answer || !video->media)
            return answer;
        begin_draining(video, io, INT64_MAX);
    }
    int answer = drain_decoder(video, io);
    if (answer)
        return answer;
    skip_rest(video, io);
    mr_needed_fini(&video->needed);
    return MR_DONE;
}

int mr_decode_video_end(mr_decode_video *video, mr_io *io, bool cut_short) {
    video->cut_short = cut_short;
    const int answer = video->media ? drain(video, io, cut_short) : MR_DONE;
    if (answer)
        return answer;
    mr_decoder_close(&video->decoder, false);
    mr_media_unref(&video->media);
    mr_damage_begin(&video->damage, false);
    return MR_DONE;
}

static void begin_epoch(mr_decode_video *video, mr_io *io, uint32_t epoch) {
    const mr_identity rest = mr_decode_stream_begin(&video->output->stream, epoch);
    mr_io_skip(io, rest.epoch, rest.seq, true);
    mr_needed_begin_epoch(&video->needed);
    mr_damage_begin(&video->damage, true);
}

/* Makes the decoder ready for a packet. All remaining pictures must be received first. */
static int prepare(mr_decode_video *video, mr_io *io, const mr_frame *frame) {
    const bool open = video->media, renewed = open && frame->media->codec != video->media->codec;
    const bool follows = mr_decode_stream_is_at(&video->output->stream, frame->identity.epoch);
    int status = renewed ? mr_decode_video_end(video, io, false) : open && !follows ? drain(video, io, false) : MR_OK;
    if (status)
        return status;
    if (!follows)
        begin_epoch(video, io, frame->identity.epoch);
    if (!video->media) {
        mr_decode_report_note(&video->output->report, MR_DECODE_DECODER);
        video->media = mr_media_ref(frame->media);
        mr_decoder_begin(&video->decoder, video->media, mr_io_stream(io), frame->deadline_ns);
    }
    return MR_OK;
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

/* Settles a packet that is not for the decoder. */
static mr_damage_arrival admit(mr_decode_video *video, mr_io *io, const mr_frame *frame) {
    const mr_decode_admission found = mr_decode_output_admit(video->output, frame);
    const char *reason = found.unusable ? mr_decode_report_damaged(&video->output->report, frame) : found.reason;
    if (reason)
        mr_io_drop(io, frame, reason);
    else if (found.skipped)
        mr_io_absorb(io, frame, "skip");
    else
        return MR_DAMAGE_TAKEN;
    if (!found.skipped)
        return MR_DAMAGE_DROPPED;
    return options_of(video)->skip == MR_SKIP_NONREF ? MR_DAMAGE_SPARED : MR_DAMAGE_MISSED;
}

/* A picture with a deadline cannot wait for later packets. A decoder that reorders pictures gives one only after
 * several others: omitting some would delay the following ones. */
static void take(mr_decode_video *video, mr_frame *frame) {
    const AVCodecContext *codec = mr_decoder_codec(&video->decoder);
    const AVCodecParameters *announced = video->media->codec;
    const bool all = frame->deadline_ns && (codec ? codec->has_b_frames : announced->video_delay) > 0;
    mr_needed_add(&video->needed, frame, all, &video->pending);
    video->last_dts_ns = frame->dts_ns;
    video->taken = true;
}

/* How many packets may wait before the decoder. */
static size_t room_of(const mr_decode_video *video, const mr_frame *frame) {
    const size_t inside = mr_pending_count(&video->pending);
    return frame->deadline_ns || inside > MR_NEEDED_MOST ? 0 : MR_NEEDED_MOST - inside;
}

int mr_decode_video_process(mr_decode_video *video, mr_io *io) {
    mr_frame *frame = mr_io_input(io);
    if (!video->taken) {
        const mr_damage_arrival arrival = admit(video, io, frame);
        const int answer = arrival == MR_DAMAGE_TAKEN ? prepare(video, io, frame) : MR_OK;
        if (answer)
            return answer;
        mr_damage_note(&video->damage, frame, arrival);
        if (arrival != MR_DAMAGE_TAKEN)
            return MR_DONE;
        take(video, frame);
    }
    int answer = decode_needed(video, io, room_of(video, frame));
    video->taken = answer != MR_DONE;
    return answer;
}
