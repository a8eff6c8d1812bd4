#include "stages/decode/decode_early.h"

#include <stdatomic.h>
#include <stdio.h>

#include "engine/base/memory.h"
#include "stages/decode/decode_reduced.h"
#include "stages/media/media_input.h"

typedef struct entry {
    AVCodecContext *codec[MR_REDUCED_MOST + 1]; /* by scale, opened for `id` */
    enum AVCodecID id;
    AVPacket *packet;
    AVFrame *picture;
    mr_reduced reduced;
    mr_jpeg_decoder *jpeg; /* NULL until a picture must be reduced */
    bool done;             /* a packet was decoded; all below is about it */
    bool sent;             /* mr_early_send was called */
    int scale;
    int refused, received; /* what the decoder returned: 0 or an AVERROR */
    bool patched;
    int64_t number;
    char complaint[256];   /* the decoder's first error message */
} entry;

struct mr_early {
    entry *turn; /* NULL: the call in turn has decoded nothing */
    int count;
    entry entries[];
};

int mr_early_create(mr_early **result, int count) {
    mr_early *early = mr_calloc(1, sizeof *early + (size_t)count * sizeof *early->entries);
    bool whole = early;
    for (int i = 0; early && i < count; i++) {
        entry *one = &early->entries[early->count++];
        one->packet = av_packet_alloc();
        one->picture = av_frame_alloc();
        whole = whole && one->packet && one->picture;
    }
    *result = early;
    return whole ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
}

static void close_codecs(entry *one) {
    av_frame_unref(one->picture);
    for (int scale = 0; scale <= MR_REDUCED_MOST; scale++)
        avcodec_free_context(&one->codec[scale]);
}

void mr_early_close(mr_early *early) {
    for (int i = 0; early && i < early->count; i++) {
        close_codecs(&early->entries[i]);
        mr_jpeg_decoder_destroy(&early->entries[i].jpeg);
    }
}

void mr_early_destroy(mr_early **early) {
    mr_early_close(*early);
    for (int i = 0; *early && i < (*early)->count; i++) {
        av_frame_free(&(*early)->entries[i].picture);
        av_packet_free(&(*early)->entries[i].packet);
    }
    mr_free(*early);
    *early = NULL;
}

/* ---- before the turn --------------------------------------------------------------------------------------------- */

/* The decoder for a packet; NULL if there is none that gives a picture immediately. */
static AVCodecContext *decoder_for(entry *one, const mr_codec_params *params, const mr_frame *frame) {
    const mr_media *media = frame->media;
    const AVCodecParameters *parameters = media->codec;
    if (parameters->codec_id != one->id || mr_codec_is_used_up(frame))
        close_codecs(one);
    one->id = parameters->codec_id;
    AVCodecContext **codec = &one->codec[params->scale];
    if (!*codec && mr_codec_open(codec, params, media))
        return NULL;
    return (*codec)->codec->capabilities & AV_CODEC_CAP_DELAY ? NULL : *codec;
}

/* Identifies a packet whose number is not known yet. Packet numbers are positive, and -1 is reserved. */
static int64_t draw_ticket(void) {
    static _Atomic int64_t last = INT64_MIN;
    return atomic_fetch_add(&last, 1);
}

int mr_early_decode(mr_early *early, mr_codec_params *params, const mr_stage *stage, const mr_frame *frame,
                    bool reduces) {
    entry *one = &early->entries[mr_io_entry(params->io)];
    if (one->done)
        return MR_OK;
    mr_pool *full = mr_decode_target_full(params->target);
    if (full)
        return mr_io_await_pool(params->io, full, 1);
    params->scale = reduces ? mr_reduced_scale(&one->reduced, stage, frame, params->max_pixels) : 0;
    AVCodecContext *codec = decoder_for(one, params, frame);
    if (!codec)
        return MR_OK;
    const int64_t ticket = draw_ticket();
    one->scale = params->scale;
    one->received = 0;
    one->refused = mr_codec_decode(codec, &one->jpeg, one->packet, frame, ticket, one->picture);
    if (!one->picture->buf[0])
        one->received = avcodec_receive_frame(codec, one->picture);
    one->patched = mr_heard_of(mr_decode_target_heard(params->target), ticket);
    snprintf(one->complaint, sizeof one->complaint, "%s", mr_av_complaint());
    one->done = true;
    return MR_OK;
}

/* ---- in turn ----------------------------------------------------------------------------------------------------- */

void mr_early_begin_turn(mr_early *early, int number) {
    entry *one = &early->entries[number];
    early->turn = one->done ? one : NULL;
}

void mr_early_end_turn(mr_early *early, bool done) {
    if (done && early->turn) {
        early->turn->done = early->turn->sent = false;
        av_frame_unref(early->turn->picture);
    }
    early->turn = NULL;
}

bool mr_early_is_present(const mr_early *early) {
    return early && early->turn;
}

const AVCodecContext *mr_early_codec(const mr_early *early) {
    const entry *one = early && early->turn && early->turn->sent ? early->turn : NULL;
    return one ? one->codec[one->scale] : NULL;
}

bool mr_early_patched(const mr_early *early) {
    return early->turn->patched;
}

int mr_early_send(mr_early *early, int64_t number, int *scale) {
    entry *one = early->turn;
    one->sent = true;
    one->number = number;
    *scale = one->scale;
    mr_av_recall(one->complaint);
    return one->refused < 0 ? one->refused : 0;
}

int mr_early_receive(mr_early *early, AVFrame *picture) {
    entry *one = early->turn;
    const int received = one->received;
    one->received = AVERROR(EAGAIN);
    if (received < 0)
        return received;
    av_frame_move_ref(picture, one->picture);
    picture->reordered_opaque = one->number;
    return received;
}
