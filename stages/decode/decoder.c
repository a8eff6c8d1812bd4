#include "stages/decode/decoder.h"

#include <stdio.h>

#include "stages/decode/decode_options.h"
#include "stages/media/coded/recovery.h"
#include "stages/media/coded/x264_build.h"
#include "stages/media/media_input.h"

/* After so many packets from a key on, a board's decoder must have given a picture. */
enum { MOST_DRAIN_ERRORS = 256, MOST_SILENT = MR_PENDING_WINDOW / 2 };

static const mr_decode_choices *options_of(const mr_decoder *decoder) {
    return decoder->opening.self->options;
}

static mr_decode_device *device_of(const mr_decoder *decoder) {
    return mr_decode_target_device(decoder->opening.target);
}

static mr_decode_log *log_of(const mr_decoder *decoder) {
    return mr_decode_target_log(decoder->opening.target);
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

void mr_decoder_init(mr_decoder *decoder, mr_stage *self, mr_decode_target *target, const mr_pending *pending) {
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
    mr_decode_log_begin(log_of(decoder));
    const int status = open_scaled(decoder, 0);
    decoder->first = decoder->entry == decoder->sent ? decoder->sent : 0;
    decoder->lost = decoder->sent;
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
    mr_decode_log *log = log_of(decoder);
    if (has_own_threads(codec) && !mr_decode_log_take_refused(log, decoder->sent))
        return next_to_come(decoder);
    if (!(codec->active_thread_type & FF_THREAD_FRAME))
        return decoder->sent;
    const int64_t oldest = decoder->sent + 1 - codec->thread_count;
    const int64_t logged = decoder->draining ? mr_decode_log_take_refused(log, oldest + 1) : 0;
    return logged ? logged : oldest + decoder->draining;
}

static mr_decoder_error describe(const mr_decoder *decoder, int code) {
    if (code >= 0)
        return (mr_decoder_error){0};
    const bool sure = !decoder->draining && !(decoder->codec->active_thread_type & FF_THREAD_FRAME);
    return (mr_decoder_error){.code = code, .number = find_refused(decoder), .sure = sure};
}

/* ---- a board's decoder ------------------------------------------------------------------------------------------- */

/* Whether a board's decoder is open that cannot continue. */
static bool has_failed(const mr_decoder *decoder) {
    return decoder->codec && mr_board_is(decoder->codec->codec) && decoder->opening.target->board.failed;
}

static void fail_board(mr_decoder *decoder, int code) {
    char why[128];
    snprintf(why, sizeof why, "V4L2 cannot continue: %s", mr_av_words(code));
    mr_decode_board_fail(&decoder->opening.target->board, why);
}

/* A driver that does not start, or does not know the stream's profile, may just give no picture. Returns whether there
 * was none for that many packets. */
static bool check_silence(mr_decoder *decoder, int64_t most) {
    const int64_t packets = decoder->sent - decoder->first + 1;
    if (!decoder->first || decoder->received >= decoder->first || packets < most)
        return false;
    char why[128];
    snprintf(why, sizeof why, "V4L2 gave no picture for %d packets", (int)packets);
    mr_decode_board_fail(&decoder->opening.target->board, why);
    return true;
}

/* Sends a packet to a board's decoder. Returns an AVERROR if it has failed and no other one gets the packet. */
static int send_to_board(mr_decoder *decoder, const mr_frame *packet, int64_t number) {
    if (has_failed(decoder))
        return AVERROR(EIO);
    const int code = mr_codec_send(decoder->codec, decoder->packet, packet, number);
    if (code < 0)
        fail_board(decoder, code);
    else
        check_silence(decoder, MOST_SILENT);
    return 0;
}

/* Finds the next packet whose picture is lost with the decoder. */
static bool find_lost(mr_decoder *decoder, mr_decoder_error *error) {
    const int64_t again = mr_decoder_ends_at(decoder, NULL);
    for (; decoder->lost < again && decoder->lost <= decoder->sent; decoder->lost++)
        if (mr_pending_find(decoder->pending, decoder->lost)) {
            *error = (mr_decoder_error){.code = AVERROR(EIO), .number = decoder->lost++, .sure = true};
            return true;
        }
    return false;
}

static bool can_begin(const mr_frame *packet) {
    const mr_packet begun = {.media = packet->media, .data = packet->plane[0].data, .bytes = packet->plane[0].bytes};
    return (packet->flags & (MR_FRAME_KEY | MR_FRAME_CORRUPT)) == MR_FRAME_KEY && mr_recovery_begins(&begun);
}

/* The first packet that another decoder must get once a board's has failed: as mr_decoder_ends_at. */
static int64_t ends_failed(const mr_decoder *decoder, const mr_frame *next) {
    if (decoder->received < decoder->first)
        return decoder->first;
    const bool whole = decoder->entry > decoder->received; /* none of its pictures came */
    const mr_frame *entry = whole ? mr_pending_find(decoder->pending, decoder->entry) : NULL;
    if (entry && can_begin(entry))
        return decoder->entry;
    return next && can_begin(next) ? mr_pending_next(decoder->pending) : INT64_MAX;
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
    const int code = has_failed(decoder) ? 0 : avcodec_send_packet(decoder->codec, NULL);
    *error = describe(decoder, code == AVERROR_EOF ? 0 : code);
}

static void note_packet(mr_decoder *decoder, const mr_frame *packet, int64_t number) {
    if (decoder->draining && mr_board_is(decoder->codec->codec)) /* it does not start again */
        avcodec_free_context(&decoder->codec);
    else if (decoder->draining)
        avcodec_flush_buffers(decoder->codec);
    decoder->draining = false;
    decoder->sent = number;
    decoder->entry = packet->flags & MR_FRAME_KEY ? number : decoder->entry;
    decoder->first = decoder->first ? decoder->first : packet->flags & MR_FRAME_KEY ? number : 0;
    note_build(decoder, packet);
}

int mr_decoder_send(mr_decoder *decoder, const mr_frame *packet, int64_t number, mr_decoder_error *error) {
    note_packet(decoder, packet, number);
    int status = decoder->codec ? MR_OK : open_decoder(decoder);
    if (!status)
        status = choose_scale(decoder, packet);
    if (!status && mr_board_is(decoder->codec->codec)) {
        *error = (mr_decoder_error){.code = send_to_board(decoder, packet, number), .number = number, .sure = true};
        return MR_OK;
    }
    int code = status ? 0 : mr_codec_send(decoder->codec, decoder->packet, packet, number);
    while (!status && code < 0 && mr_decode_device_again(device_of(decoder))) {
        mr_decoder_close(decoder, true);
        decoder->continues = false;
        /* The decoder that logged these lines did not start. */
        mr_decode_log_forget(log_of(decoder), number);
        status = open_decoder(decoder);
        code = status ? 0 : mr_codec_send(decoder->codec, decoder->packet, packet, number);
    }
    if (status)
        mr_decoder_close(decoder, true);
    *error = describe(decoder, code);
    return status;
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

/* libavcodec would wait forever for the last pictures of a driver that has not started. */
bool mr_decoder_can_end(mr_decoder *decoder) {
    return !decoder->codec || !mr_board_is(decoder->codec->codec) || !check_silence(decoder, 1);
}

bool mr_decoder_receive(mr_decoder *decoder, AVFrame *picture, mr_decoder_error *error) {
    const bool stuck = !decoder->codec || (decoder->draining && decoder->drain_errors > MOST_DRAIN_ERRORS);
    if (has_failed(decoder) && find_lost(decoder, error))
        return false;
    int code = stuck || has_failed(decoder)
                   ? AVERROR_EOF
                   : mr_codec_receive(decoder->codec, decoder->opening.target, decoder->pending, picture);
    if (!stuck && mr_board_is(decoder->codec->codec) && code < 0 && code != AVERROR(EAGAIN) && !decoder->draining) {
        fail_board(decoder, code);
        code = 0;
    }
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
    return codec->codec_id == AV_CODEC_ID_H264 && !codec->hw_device_ctx && !mr_board_is(codec->codec);
}

/* With frame threads, each thread decodes separately and reports damage before it gets another packet. By then other
 * threads may have the next key. */
int64_t mr_decoder_ends_at(const mr_decoder *decoder, const mr_frame *next) {
    if (has_failed(decoder))
        return ends_failed(decoder, next);
    mr_decode_log *log = log_of(decoder);
    const int64_t first = decoder->codec && keeps_traces(decoder->codec) ? mr_decode_log_first(log) : INT64_MAX;
    const mr_frame *entry = first < decoder->entry ? mr_pending_find(decoder->pending, decoder->entry) : NULL;
    if (entry && can_begin(entry))
        return decoder->entry;
    return next && first < INT64_MAX && can_begin(next) ? mr_pending_next(decoder->pending) : INT64_MAX;
}
