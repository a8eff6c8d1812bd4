#include "stages/decode/decoder.h"

#include "stages/decode/decode_options.h"
#include "stages/media/coded/recovery.h"
#include "stages/media/coded/x264_build.h"

enum { MOST_DRAIN_ERRORS = 256 };

static const mr_decode_choices *options_of(const mr_decoder *decoder) {
    return decoder->opening.self->options;
}

static mr_decode_device *device_of(const mr_decoder *decoder) {
    return mr_decode_target_device(decoder->opening.target);
}

static mr_heard *heard_by(const mr_decoder *decoder) {
    return mr_decode_target_heard(decoder->opening.target);
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

void mr_decoder_init(mr_decoder *decoder, mr_stage *self, const mr_decode_target *target, const mr_pending *pending) {
    *decoder = (mr_decoder){.opening = {.self = self, .target = target}, .pending = pending};
}

void mr_decoder_begin(mr_decoder *decoder, const mr_media *media, mr_stream *stream, bool hurried) {
    decoder->opening.media = media;
    decoder->opening.stream = stream;
    decoder->opening.hurried = hurried;
}

void mr_decoder_close(mr_decoder *decoder, bool continues) {
    decoder->continues = continues && decoder->codec;
    avcodec_free_context(&decoder->codec);
    for (int scale = 0; scale <= MR_REDUCED_MOST; scale++)
        avcodec_free_context(&decoder->other[scale]);
    av_packet_free(&decoder->packet);
    decoder->draining = false;
    if (!continues)
        decoder->opening.x264_build = 0;
}

static int open_scaled(mr_decoder *decoder, int scale) {
    decoder->opening.scale = scale;
    if (!decoder->packet && !(decoder->packet = av_packet_alloc()))
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    return mr_codec_open(&decoder->codec, &decoder->opening);
}

static int open_decoder(mr_decoder *decoder) {
    mr_heard_begin(heard_by(decoder));
    const int status = open_scaled(decoder, 0);
    /* Otherwise it would omit pictures that are shown before this packet's and depend on others. */
    const bool keeps = options_of(decoder)->damaged != MR_DAMAGED_DROP;
    if (!status && decoder->continues && keeps)
        decoder->codec->flags |= AV_CODEC_FLAG_OUTPUT_CORRUPT;
    return status;
}

const AVCodecContext *mr_decoder_codec(const mr_decoder *decoder) {
    return decoder->codec;
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* Whether a library decodes. Such a decoder gives pictures in packet order, and an error in a picture's place. If the
 * error is about the packet just sent, it logs it. */
static bool has_own_threads(const AVCodecContext *codec) {
    return codec->codec->wrapper_name && codec->codec->capabilities & AV_CODEC_CAP_DELAY;
}

/* The first packet whose picture can come next. */
static int64_t next_to_come(const mr_decoder *decoder) {
    int64_t number = decoder->received + 1;
    while (number < decoder->sent && !mr_pending_find(decoder->pending, number))
        number++;
    return number;
}

/* Which packet an error is about. While draining, frame threads report the first packet with a logged error. Otherwise
 * they report when the last packet for a full set of threads is sent. */
static int64_t find_refused(const mr_decoder *decoder) {
    const AVCodecContext *codec = decoder->codec;
    mr_heard *heard = heard_by(decoder);
    if (has_own_threads(codec) && !mr_heard_take_refused(heard, decoder->sent))
        return next_to_come(decoder);
    if (!(codec->active_thread_type & FF_THREAD_FRAME))
        return decoder->sent;
    const int64_t oldest = decoder->sent + 1 - codec->thread_count;
    const int64_t logged = decoder->draining ? mr_heard_take_refused(heard, oldest + 1) : 0;
    return logged ? logged : oldest + decoder->draining;
}

static mr_decoder_error describe(const mr_decoder *decoder, int code) {
    if (code >= 0)
        return (mr_decoder_error){0};
    const bool sure = !decoder->draining && !(decoder->codec->active_thread_type & FF_THREAD_FRAME);
    return (mr_decoder_error){.code = code, .number = find_refused(decoder), .sure = sure};
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

/* Switches to the decoder for the packet's scale. JPEG decoders hold no pictures, so the previous one is empty. */
static int choose_scale(mr_decoder *decoder, const mr_frame *packet) {
    const mr_decode_choices *from = options_of(decoder);
    if (from->reduced == MR_REDUCED_OFF || device_of(decoder))
        return MR_OK;
    const int scale = mr_reduced_scale(&decoder->reduced, decoder->opening.self, packet, from->max_pixels),
              present = decoder->codec->lowres;
    if (scale == present)
        return MR_OK;
    decoder->other[present] = decoder->codec;
    decoder->codec = decoder->other[scale];
    decoder->other[scale] = NULL;
    return decoder->codec ? MR_OK : open_scaled(decoder, scale);
}

/* A replacement decoder must be opened with this build. */
static void note_build(mr_decoder *decoder, const mr_frame *packet) {
    const mr_plane *data = &packet->plane[0];
    const int32_t build =
        packet->flags & MR_FRAME_KEY ? mr_x264_build(packet->media->codec, data->data, data->bytes) : 0;
    decoder->opening.x264_build = build ? build : decoder->opening.x264_build;
}

/* libavcodec decodes the next picture immediately and can report an error about it. */
void mr_decoder_drain(mr_decoder *decoder, mr_decoder_error *error) {
    *error = (mr_decoder_error){0};
    if (!decoder->codec)
        return;
    decoder->draining = true;
    decoder->drain_errors = 0;
    const int code = avcodec_send_packet(decoder->codec, NULL);
    *error = describe(decoder, code == AVERROR_EOF ? 0 : code);
}

static void note_packet(mr_decoder *decoder, const mr_frame *packet, int64_t number) {
    if (decoder->draining)
        avcodec_flush_buffers(decoder->codec);
    decoder->draining = false;
    decoder->sent = number;
    decoder->entry = packet->flags & MR_FRAME_KEY ? number : decoder->entry;
    note_build(decoder, packet);
}

int mr_decoder_send(mr_decoder *decoder, const mr_frame *packet, int64_t number, mr_decoder_error *error) {
    note_packet(decoder, packet, number);
    int status = decoder->codec ? MR_OK : open_decoder(decoder);
    if (!status)
        status = choose_scale(decoder, packet);
    int code = status ? 0 : mr_codec_send(decoder->codec, decoder->packet, packet, number);
    while (!status && code < 0 && mr_decode_device_again(device_of(decoder))) {
        mr_decoder_close(decoder, true);
        decoder->continues = false;
        /* The decoder that logged these lines did not start. */
        mr_heard_forget(heard_by(decoder), number);
        status = open_decoder(decoder);
        code = status ? 0 : mr_codec_send(decoder->codec, decoder->packet, packet, number);
    }
    if (status)
        mr_decoder_close(decoder, true);
    *error = describe(decoder, code);
    return status;
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

bool mr_decoder_receive(mr_decoder *decoder, AVFrame *picture, mr_decoder_error *error) {
    const bool stuck = !decoder->codec || (decoder->draining && decoder->drain_errors > MOST_DRAIN_ERRORS);
    int code = stuck ? AVERROR_EOF : mr_codec_receive(decoder->codec, decoder->pending, picture);
    code = code == AVERROR(EAGAIN) || code == AVERROR_EOF ? 0 : code;
    *error = describe(decoder, code);
    decoder->drain_errors += code < 0;
    if (!picture->buf[0])
        return false;
    if (picture->reordered_opaque > decoder->received)
        decoder->received = picture->reordered_opaque;
    return true;
}

/* ---- decoders that have met damage ------------------------------------------------------------------------------- */

/* If libavcodec's H.264 decoder gives up a macroblock, the coefficients remain. They appear in later undamaged
 * pictures, even after a flush, and nothing reports it. A new decoder must therefore start as soon as possible. */
static bool keeps_traces(const AVCodecContext *codec) {
    return codec->codec_id == AV_CODEC_ID_H264 && !codec->hw_device_ctx;
}

static bool can_begin(const mr_frame *packet) {
    const mr_packet begun = {.media = packet->media, .data = packet->plane[0].data, .bytes = packet->plane[0].bytes};
    return (packet->flags & (MR_FRAME_KEY | MR_FRAME_CORRUPT)) == MR_FRAME_KEY && mr_recovery_begins(&begun);
}

/* With frame threads, each thread decodes separately and reports damage before it gets another packet. By then other
 * threads may have the next key. */
int64_t mr_decoder_ends_at(const mr_decoder *decoder, const mr_frame *next) {
    mr_heard *heard = heard_by(decoder);
    const int64_t first = decoder->codec && keeps_traces(decoder->codec) ? mr_heard_first(heard) : INT64_MAX;
    const mr_frame *entry = first < decoder->entry ? mr_pending_find(decoder->pending, decoder->entry) : NULL;
    if (entry && can_begin(entry))
        return decoder->entry;
    return next && first < INT64_MAX && can_begin(next) ? mr_pending_next(decoder->pending) : INT64_MAX;
}
