#include "stages/decode/decode_early.h"

#include <stdatomic.h>
#include <stdio.h>

#include "engine/base/memory.h"
#include "stages/media/media_input.h"

int mr_early_create(mr_early **result, int count) {
    mr_early *early = mr_calloc((size_t)count, sizeof *early);
    bool whole = early;
    for (int i = 0; early && i < count; i++) {
        early[i].packet = av_packet_alloc();
        early[i].picture = av_frame_alloc();
        whole = whole && early[i].packet && early[i].picture;
    }
    *result = early;
    return whole ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
}

static void close_codecs(mr_early *early) {
    av_frame_unref(early->picture);
    for (int scale = 0; scale <= MR_REDUCED_MOST; scale++)
        avcodec_free_context(&early->codec[scale]);
}

void mr_early_close(mr_early *early, int count) {
    for (int i = 0; early && i < count; i++) {
        close_codecs(&early[i]);
        mr_jpeg_decoder_destroy(&early[i].jpeg);
    }
}

void mr_early_destroy(mr_early **early, int count) {
    mr_early_close(*early, count);
    for (int i = 0; *early && i < count; i++) {
        av_frame_free(&(*early)[i].picture);
        av_packet_free(&(*early)[i].packet);
    }
    mr_free(*early);
    *early = NULL;
}

/* The decoder for a packet; NULL if there is none, or none that gives a packet's picture at once. */
static AVCodecContext *decoder_for(mr_early *early, const mr_decoder_params *params, const mr_frame *frame) {
    const mr_media *media = frame->media;
    const AVCodecParameters *parameters = media->codec;
    if (parameters->codec_id != early->id || mr_decoder_is_used_up(frame))
        close_codecs(early);
    early->id = parameters->codec_id;
    AVCodecContext **codec = &early->codec[params->scale];
    if (!*codec && mr_decoder_open(codec, params, media))
        return NULL;
    return (*codec)->codec->capabilities & AV_CODEC_CAP_DELAY ? NULL : *codec;
}

/* Names a packet to its decoder, since its number is not known yet. Numbers are positive, and -1 is not one. */
static int64_t draw_ticket(void) {
    static _Atomic int64_t last = INT64_MIN;
    return atomic_fetch_add(&last, 1);
}

void mr_early_decode(mr_early *early, mr_decoder_params *params, const mr_stage *stage, const mr_frame *frame,
                     bool reduces) {
    params->scale = reduces ? mr_reduced_scale(&early->reduced, stage, frame, params->max_pixels) : 0;
    AVCodecContext *codec = decoder_for(early, params, frame);
    if (!codec)
        return;
    int64_t ticket = draw_ticket();
    early->scale = params->scale;
    early->received = 0;
    early->sent = mr_decoder_decode(codec, &early->jpeg, early->packet, frame, ticket, early->picture);
    if (!early->picture->buf[0])
        early->received = avcodec_receive_frame(codec, early->picture);
    early->patched = mr_heard_of(mr_picture_pool_heard(params->pool), ticket);
    snprintf(early->complaint, sizeof early->complaint, "%s", mr_av_complaint());
    early->done = true;
}

int mr_early_begin(mr_early *early, int64_t number) {
    early->taken = true;
    early->number = number;
    mr_av_recall(early->complaint);
    return early->sent < 0 ? early->sent : 0;
}

int mr_early_take(mr_early *early, AVFrame *picture) {
    int received = early->received;
    early->received = AVERROR(EAGAIN);
    if (received < 0)
        return received;
    av_frame_move_ref(picture, early->picture);
    picture->reordered_opaque = early->number;
    return received;
}

void mr_early_end(mr_early *early) {
    early->done = early->taken = false;
    av_frame_unref(early->picture);
}
