#include "stages/decode/decode_state.h"

#include <stdio.h>
#include <string.h>

#include "stages/media/media_input.h"
#include "stages/media/coded/x264_build.h"

enum { MOST_DRAIN_ERRORS = 256 };

void mr_decode_close(mr_decode_state *state) {
    avcodec_free_context(&state->codec);
    for (int scale = 0; scale <= MR_REDUCED_MOST; scale++)
        avcodec_free_context(&state->other[scale]);
    mr_media_unref(&state->media);
}

/* No more than is planned for, of a live source: nobody has seen its pictures before. */
static int64_t most_pixels(const mr_stage *self, const mr_media *media) {
    const mr_decode_choices *from = self->options;
    const mr_format_set *planned = &self->inputs[0].set;
    int64_t most = (int64_t)planned->width.max * planned->height.max;
    return media->live && most > 0 && most < from->max_pixels ? most : from->max_pixels;
}

mr_decoder_params mr_decode_params(const mr_stage *self, mr_io *io, const mr_frame *packet, int scale) {
    const mr_decode_state *state = self->state;
    const mr_decode_choices *from = self->options;
    return (mr_decoder_params){.threads = self->threads > 1 ? self->threads : 1,
                               .max_pixels = most_pixels(self, packet->media),
                               .skip = from->skip == MR_SKIP_NONREF ? AVDISCARD_NONREF : AVDISCARD_DEFAULT,
                               .scale = scale,
                               .x264_build = packet->media->x264_build,
                               .strict = from->damaged == MR_DAMAGED_DROP,
                               .prompt = (packet->deadline_ns || packet->media->live) &&
                                         strcmp(from->threads, "auto") == 0,
                               .pool = state->pool, .device = state->device, .io = io};
}

int mr_decode_open(mr_stage *self, mr_io *io, const mr_frame *packet, int scale) {
    mr_decode_state *state = self->state;
    mr_decoder_params params = mr_decode_params(self, io, packet, scale);
    params.x264_build = state->x264_build ? state->x264_build : params.x264_build;
    state->outsized = false;
    state->spoilt_at = INT64_MAX;
    state->entry = 0;
    int status = mr_decoder_open(&state->codec, &params, packet->media);
    if (!status && !state->media)
        state->media = mr_media_ref(packet->media);
    return status;
}

/* Makes the decoder for the packet's scale the present one. A decoder of JPEG keeps no picture back, so that the one
 * before it is empty. */
static int choose_scale(mr_stage *self, mr_io *io, const mr_frame *packet) {
    mr_decode_state *state = self->state;
    const mr_decode_choices *from = self->options;
    if (from->reduced == MR_REDUCED_OFF || state->device)
        return MR_OK;
    if (state->present) {
        state->scaled[state->present->scale]++;
        return MR_OK;
    }
    int scale = mr_reduced_scale(&state->reduced, self, packet, from->max_pixels), present = state->codec->lowres;
    state->scaled[scale]++;
    if (scale == present)
        return MR_OK;
    state->other[present] = state->codec;
    state->codec = state->other[scale];
    state->other[scale] = NULL;
    return state->codec ? MR_OK : mr_decode_open(self, io, packet, scale);
}

bool mr_decode_is_outsized(mr_stage *self, const mr_media *media, int width, int height) {
    mr_decode_state *state = self->state;
    int64_t most = most_pixels(self, media);
    bool limited = media->live && most < ((const mr_decode_choices *)self->options)->max_pixels;
    if (!limited || (int64_t)width * height <= most)
        return false;
    if (!state->outsized)
        mr_stage_warn(self, "%s: pictures are %dx%d, larger than planned for, and are dropped: raise size of %s",
                      self->source_id, width, height, self->source_id);
    state->outsized = true;
    return true;
}

/* Once a decoder has refused one, packets that depend on it give no picture either. */
static bool was_outsized(mr_stage *self, const mr_frame *packet) {
    const mr_decode_state *state = self->state;
    int width, height;
    bool refused = packet->media && sscanf(mr_av_complaint(), "Picture size %dx%d exceeds", &width, &height) == 2;
    return (refused && mr_decode_is_outsized(self, packet->media, width, height)) || state->outsized;
}

static bool is_still_file(const mr_frame *packet) {
    return packet->media && packet->media->still && mr_frame_file(packet);
}

/* A damaged picture of a video may cost all of them up to the next key frame. */
static const char *consequence(const mr_stage *self) {
    return ((const mr_decode_choices *)self->options)->damaged == MR_DAMAGED_DROP
               ? "; those that depend on it are dropped, too (damaged: mark would pass them on)"
               : "";
}

void mr_decode_drop_corrupt(mr_stage *self, mr_io *io, const mr_frame *packet) {
    mr_decode_state *state = self->state;
    void (*say)(const mr_stage *, const char *, ...) = state->reported ? mr_stage_info : mr_stage_warn;
    int width, height;
    if (was_outsized(self, packet)) {
        mr_io_drop(io, packet, "too large");
        return;
    }
    const bool foreign = mr_still_is_foreign(packet, state->trouble, sizeof state->trouble);
    /* A picture that FFmpeg refuses for its size is not damaged: a larger max_pixels admits it. */
    if (sscanf(mr_av_complaint(), "Picture size %dx%d exceeds", &width, &height) == 2)
        say(self, "%s: %s is %dx%d, larger than max_pixels (%lld) allows: raise max_pixels of %s", self->source_id,
            is_still_file(packet) ? mr_frame_file(packet) : "a picture", width, height,
            (long long)((const mr_decode_choices *)self->options)->max_pixels, self->id);
    else if (is_still_file(packet))
        say(self, "%s: %s %s", self->source_id, mr_frame_file(packet), foreign ? state->trouble : "is damaged");
    else if (packet->pts_ns != MR_NO_TIME)
        say(self, "%s: the picture at %.3f s is damaged%s", self->source_id, (double)packet->pts_ns / 1e9,
            consequence(self));
    else
        say(self, "%s: a picture is damaged%s", self->source_id, consequence(self));
    if (is_still_file(packet)) {
        mr_media_unref(&state->lost);
        state->lost = mr_media_ref(packet->media);
    }
    state->reported = true;
    mr_io_drop(io, packet, foreign ? "not a picture that is read" : "corrupt");
}

void mr_decode_close_receipt(mr_stage *self, mr_io *io, mr_frame *packet, int64_t number) {
    mr_decode_state *state = self->state;
    const mr_decode_choices *from = self->options;
    bool reported = state->errors > 0 || mr_pending_is_wrong(&state->pending, packet, number);
    if (reported)
        mr_decode_drop_corrupt(self, io, packet);
    else if (packet->flags & MR_FRAME_HIDDEN)
        mr_io_absorb(io, packet, "not shown");
    else if (mr_pending_may_be_field(&state->pending, number))
        mr_io_absorb(io, packet, "second field");
    else if (packet->media && packet->pts_ns != MR_NO_TIME && packet->pts_ns < packet->media->start_ns)
        mr_io_absorb(io, packet, "not selected");
    else if (state->wrong_to)
        mr_decode_drop_corrupt(self, io, packet);
    else if (from->skip != MR_SKIP_NONE)
        mr_io_absorb(io, packet, "skip");
    else if (state->seq == 0 && state->pictures == 0)
        mr_io_drop(io, packet, "no key frame");
    else
        mr_io_absorb(io, packet, "no picture");
    if (reported && state->errors > 0)
        state->errors--;
    mr_frame_unref(&packet);
}

/* Of a library: it gives pictures in the order of packets, and an error in the place of a picture, unless it is about
 * the packet that it was just given, which it logs. */
static bool has_own_threads(const AVCodecContext *codec) {
    return codec->codec->wrapper_name && codec->codec->capabilities & AV_CODEC_CAP_DELAY;
}

/* The number of the first packet whose picture may come next. */
static int64_t next_to_come(const mr_decode_state *state) {
    int64_t number = state->received + 1;
    while (number < state->current && !mr_pending_find(&state->pending, number))
        number++;
    return number;
}

/* The number of the packet that an error is about. Of frame threads, at the end, it is that of the first of which the
 * decoder has logged an error. */
static int64_t refused_number(mr_decode_state *state) {
    if (has_own_threads(state->codec) && !mr_heard_take_refused(mr_decode_heard(state), state->current))
        return next_to_come(state);
    if (!(state->codec->active_thread_type & FF_THREAD_FRAME))
        return state->current;
    const int64_t oldest = state->current + 1 - state->codec->thread_count;
    const int64_t logged = state->draining ? mr_heard_take_refused(mr_decode_heard(state), oldest + 1) : 0;
    return logged ? logged : oldest + state->draining;
}

static void note_wrong(mr_decode_state *state, int64_t number) {
    state->wrong_to = number > state->wrong_to ? number : state->wrong_to;
}

/* A packet that the decoder refused. Frame threads report late: at the packet that is sent last of as many as they
 * are, or when they are drained. So the packet is only sure once it turns out to have no picture. */
static void count_error(mr_stage *self, mr_io *io, int error) {
    mr_decode_state *state = self->state;
    state->last_error = error;
    bool threads = state->codec->active_thread_type & FF_THREAD_FRAME, late = state->draining || threads;
    const int64_t number = refused_number(state);
    note_wrong(state, number);
    mr_decode_spoil(state, number);
    mr_decode_taint(state, number);
    mr_frame *packet = late ? NULL : mr_pending_take(&state->pending, number);
    if (!packet) {
        state->errors++;
        return;
    }
    mr_decode_drop_corrupt(self, io, packet);
    mr_frame_unref(&packet);
}

bool mr_decode_is_early(const mr_decode_state *state) {
    return state->present && state->present->taken;
}

const AVCodecContext *mr_decode_context(const mr_decode_state *state) {
    return mr_decode_is_early(state) ? state->present->codec[state->present->scale] : state->codec;
}

/* As avcodec_receive_frame. */
static int take_picture(mr_decode_state *state, AVFrame *picture) {
    if (mr_decode_is_early(state))
        return mr_early_take(state->present, picture);
    if (!state->reduced_picture->buf[0])
        return mr_decoder_receive(state->codec, &state->pending, picture);
    av_frame_move_ref(picture, state->reduced_picture);
    return 0;
}

bool mr_decode_receive(mr_stage *self, mr_io *io, AVFrame *picture) {
    mr_decode_state *state = self->state;
    for (;;) {
        int error = take_picture(state, picture);
        if (error >= 0) {
            mr_decode_device_crop(picture);
            if (picture->reordered_opaque > state->received)
                state->received = picture->reordered_opaque;
            return true;
        }
        if (error == AVERROR(EAGAIN) || error == AVERROR_EOF)
            return false;
        count_error(self, io, error);
        if (state->draining && ++state->drain_errors > MOST_DRAIN_ERRORS)
            return false;
    }
}

static int lose_decoder(mr_stage *self, mr_io *io, const mr_frame *frame, int status) {
    mr_decode_close(self->state);
    mr_io_fail_source(io, frame->identity.source, status);
    mr_io_drop(io, frame, "no decoder");
    return status;
}

/* To a decoder that is opened anew, because the one before did not start. */
static int start_again(mr_stage *self, mr_io *io, mr_frame *frame, int64_t number, int *error) {
    mr_decode_state *state = self->state;
    mr_decode_close(state);
    /* The lines that were logged of the packet are of a decoder that did not start. */
    mr_heard_forget(mr_decode_heard(state), number);
    int status = mr_decode_open(self, io, frame, 0);
    if (!status) {
        *error = mr_decoder_decode(state->codec, &state->jpeg, state->packet, frame, number, state->reduced_picture);
        return MR_OK;
    }
    mr_frame *packet = mr_pending_take(&state->pending, number);
    mr_frame_unref(&packet);
    return lose_decoder(self, io, frame, status);
}

/* What a decoder knows of the stream another one is told when it takes its place. */
static void note_build(mr_decode_state *state, const mr_frame *packet) {
    const mr_plane *data = &packet->plane[0];
    const int32_t build =
        packet->flags & MR_FRAME_KEY ? mr_x264_build(packet->media->codec, data->data, data->bytes) : 0;
    state->x264_build = build ? build : state->x264_build;
}

/* As mr_decoder_decode. */
static int decode(mr_decode_state *state, const mr_frame *frame, int64_t number) {
    state->current = number;
    if (frame->flags & MR_FRAME_KEY)
        state->entry = number;
    if (state->present)
        return mr_early_begin(state->present, number);
    return mr_decoder_decode(state->codec, &state->jpeg, state->packet, frame, number, state->reduced_picture);
}

/* Whether the next packet's picture will be wrong. */
static bool pass(mr_decode_state *state, const mr_frame *packet, int64_t number) {
    const bool lacks = packet->flags & (MR_FRAME_SEAM | MR_FRAME_CORRUPT);
    const bool wrong = mr_gaps_pass(&state->gaps, packet, lacks && mr_alone_spares(&state->alone, packet, number));
    if (wrong)
        note_wrong(state, number);
    return wrong;
}

int mr_decode_send(mr_stage *self, mr_io *io, mr_frame *frame) {
    mr_decode_state *state = self->state;
    int64_t number;
    mr_frame *expired = mr_pending_expired(&state->pending, &number);
    if (expired)
        mr_decode_close_receipt(self, io, expired, number);
    mr_still_note(&state->stills, self, frame);
    note_build(state, frame);
    int status = choose_scale(self, io, frame);
    if (status)
        return lose_decoder(self, io, frame, status);
    if (!mr_alone_note(&state->alone, frame, state->pending.next))
        mr_gaps_taint(&state->gaps);
    number = mr_pending_add(&state->pending, frame, pass(state, frame, state->pending.next));
    state->packets++;
    int error = decode(state, frame, number);
    while (!status && error < 0 && mr_decode_device_again(state->device))
        status = start_again(self, io, frame, number, &error);
    if (!status && error < 0)
        count_error(self, io, error);
    return status;
}

/* libavcodec decodes the next picture at once, and says what comes of it. */
void mr_decode_send_end(mr_stage *self, mr_io *io) {
    mr_decode_state *state = self->state;
    int error = avcodec_send_packet(state->codec, NULL);
    if (error < 0 && error != AVERROR_EOF)
        count_error(self, io, error);
}

void mr_decode_send_again(mr_stage *self, mr_io *io) {
    mr_decode_state *state = self->state;
    const int64_t number = state->again++;
    const mr_frame *packet = mr_pending_find(&state->pending, number);
    if (state->again == state->pending.next)
        state->again = INT64_MAX;
    if (packet)
        mr_pending_note_wrong(&state->pending, number, pass(state, packet, number));
    int error = packet ? decode(state, packet, number) : 0;
    if (error < 0)
        count_error(self, io, error);
}

/* ---- behind damage ----------------------------------------------------------------------------------------------- */

/* A macroblock that libavcodec's decoder of H.264 gives up leaves its coefficients behind: they show in pictures to
 * come that are whole, after a flush, too, and without a word. So a new decoder begins where it can. */
static bool keeps_leavings(const AVCodecContext *codec) {
    return codec->codec_id == AV_CODEC_ID_H264 && !codec->hw_device_ctx;
}

static bool can_begin(const mr_frame *packet) {
    const mr_packet begun = {.media = packet->media, .data = packet->plane[0].data, .bytes = packet->plane[0].bytes};
    return (packet->flags & (MR_FRAME_KEY | MR_FRAME_CORRUPT)) == MR_FRAME_KEY && mr_recovery_begins(&begun);
}

void mr_decode_spoil(mr_decode_state *state, int64_t number) {
    state->spoilt_at = number < state->spoilt_at ? number : state->spoilt_at;
}

/* What the decoder says of pictures that have not come out yet counts, too. */
static int64_t spoilt_at(const mr_decode_state *state) {
    const int64_t heard = mr_heard_first(mr_decode_heard(state));
    return heard < state->spoilt_at ? heard : state->spoilt_at;
}

bool mr_decode_is_spoilt_for(const mr_decode_state *state, const mr_frame *packet) {
    return keeps_leavings(state->codec) && spoilt_at(state) < INT64_MAX && can_begin(packet);
}

/* Each frame thread has a decoder of its own, and what it has met is known before it gets its next packet. By then
 * other threads may have the next key. */
bool mr_decode_is_spoilt_late(const mr_decode_state *state) {
    const mr_frame *entry = mr_pending_find(&state->pending, state->entry);
    return entry && keeps_leavings(state->codec) && spoilt_at(state) < state->entry && can_begin(entry);
}

/* ---- pictures that are made of damaged ones ---------------------------------------------------------------------- */

mr_heard *mr_decode_heard(const mr_decode_state *state) {
    return state->pool ? mr_picture_pool_heard(state->pool) : mr_decode_device_heard(state->device);
}

/* Passes again the packets that the decoder has got from `first` on, and takes note of those behind `number`. */
static void pass_again(mr_decode_state *state, int64_t first, int64_t number) {
    for (int64_t i = first; i <= state->current; i++) {
        const mr_frame *packet = mr_pending_find(&state->pending, i);
        if (packet && mr_gaps_pass_again(&state->gaps, packet) && i > number) {
            mr_pending_note_wrong(&state->pending, i, true);
            note_wrong(state, i);
        }
    }
}

/* The last key before that packet, if it is shown behind it; 0: none is. */
static int64_t leads_to(const mr_decode_state *state, const mr_frame *packet, int64_t number) {
    for (int64_t i = number - 1; i > 0 && i + MR_PENDING_WINDOW >= state->pending.next; i--) {
        const mr_frame *key = mr_pending_find(&state->pending, i);
        if (key && key->flags & MR_FRAME_KEY)
            return packet->pts_ns < key->pts_ns && packet->pts_ns != MR_NO_TIME ? i : 0;
    }
    return 0;
}

/* Whether the packet's picture is one of those that are shown before a key and decoded behind it: what is shown behind
 * the key does not depend on it. */
static bool taint_leading(mr_decode_state *state, const mr_frame *packet, int64_t number) {
    const int64_t key = leads_to(state, packet, number);
    if (!key)
        return false;
    mr_gaps_taint(&state->gaps);
    mr_gaps_pass_again(&state->gaps, mr_pending_find(&state->pending, key));
    if (state->gaps.recovery.tainted)
        return false;
    pass_again(state, key + 1, number);
    return true;
}

void mr_decode_taint(mr_decode_state *state, int64_t number) {
    const mr_frame *packet = mr_pending_find(&state->pending, number);
    if (packet && !mr_heard_spilt(mr_decode_heard(state), number) &&
        (mr_alone_is_sure(&state->alone, packet, number) || taint_leading(state, packet, number)))
        return;
    mr_gaps_taint(&state->gaps);
    note_wrong(state, number);
    pass_again(state, number + 1, number);
}

void mr_decode_learn(mr_decode_state *state) {
    for (int64_t number; (number = mr_heard_take(mr_decode_heard(state)));)
        mr_decode_taint(state, number);
}

int mr_decode_replace(mr_stage *self, mr_io *io, const mr_frame *packet) {
    mr_decode_state *state = self->state;
    const mr_decode_choices *from = self->options;
    mr_decode_close(state);
    note_wrong(state, state->current);
    mr_heard_forget(mr_decode_heard(state), state->again);
    mr_gaps_restart(&state->gaps);
    int status = mr_decode_open(self, io, packet, 0);
    /* Pictures that are shown before that packet's, and made of others, are not given unless it is told to. */
    if (!status && from->damaged != MR_DAMAGED_DROP)
        state->codec->flags |= AV_CODEC_FLAG_OUTPUT_CORRUPT;
    return status;
}
