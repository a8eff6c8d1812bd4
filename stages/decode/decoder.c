#include "stages/decode/decoder.h"

#include <inttypes.h>
#include <string.h>

#include "stages/decode/decode_options.h"
#include "stages/media/coded/x264_build.h"

enum { MOST_DRAIN_ERRORS = 256 };

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

int mr_decoder_init(mr_decoder *decoder, mr_stage *self, const mr_decode_target *target, mr_early *early) {
    *decoder = (mr_decoder){.self = self, .target = target, .early = early, .packet = av_packet_alloc(),
                            .at_once = av_frame_alloc()};
    return decoder->packet && decoder->at_once ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
}

void mr_decoder_close(mr_decoder *decoder, bool stream) {
    avcodec_free_context(&decoder->codec);
    for (int scale = 0; scale <= MR_REDUCED_MOST; scale++)
        avcodec_free_context(&decoder->other[scale]);
    mr_media_unref(&decoder->media);
    av_frame_unref(decoder->at_once);
    decoder->draining = false;
    if (stream) {
        decoder->x264_build = 0;
        mr_jpeg_decoder_destroy(&decoder->jpeg);
    }
}

void mr_decoder_fini(mr_decoder *decoder) {
    mr_decoder_close(decoder, true);
    av_frame_free(&decoder->at_once);
    av_packet_free(&decoder->packet);
}

mr_codec_params mr_decoder_params(const mr_stage *self, mr_io *io, const mr_decode_target *target,
                                  const mr_frame *packet) {
    const mr_decode_choices *from = self->options;
    return (mr_codec_params){.threads = self->threads > 1 ? self->threads : 1,
                             .max_pixels = mr_decode_most_pixels(self, packet->media),
                             .skip = from->skip == MR_SKIP_NONREF ? AVDISCARD_NONREF : AVDISCARD_DEFAULT,
                             .x264_build = packet->media->x264_build,
                             .strict = from->damaged == MR_DAMAGED_DROP,
                             .prompt = (packet->deadline_ns || packet->media->live) &&
                                       strcmp(from->threads, "auto") == 0,
                             .target = target, .io = io};
}

static int open_scaled(mr_decoder *decoder, mr_io *io, const mr_frame *packet, int scale) {
    mr_codec_params params = mr_decoder_params(decoder->self, io, decoder->target, packet);
    params.scale = scale;
    params.x264_build = decoder->x264_build ? decoder->x264_build : params.x264_build;
    const int status = mr_codec_open(&decoder->codec, &params, packet->media);
    if (!status && !decoder->media)
        decoder->media = mr_media_ref(packet->media);
    return status;
}

int mr_decoder_open(mr_decoder *decoder, mr_io *io, const mr_frame *packet) {
    return open_scaled(decoder, io, packet, 0);
}

int mr_decoder_replace(mr_decoder *decoder, mr_io *io, const mr_frame *packet) {
    mr_decoder_close(decoder, false);
    const int status = mr_decoder_open(decoder, io, packet);
    /* Otherwise it would omit pictures that are shown before this packet's and depend on others. */
    if (!status && ((const mr_decode_choices *)decoder->self->options)->damaged != MR_DAMAGED_DROP)
        decoder->codec->flags |= AV_CODEC_FLAG_OUTPUT_CORRUPT;
    return status;
}

bool mr_decoder_suits(const mr_decoder *decoder, const mr_frame *packet) {
    return packet->media->codec == decoder->media->codec && !mr_codec_is_used_up(packet);
}

const AVCodecContext *mr_decoder_codec(const mr_decoder *decoder) {
    const AVCodecContext *early = decoder->codec ? mr_early_codec(decoder->early) : NULL;
    return early ? early : decoder->codec;
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

/* Switches to the decoder for the packet's scale. JPEG decoders hold no pictures, so the previous one is empty. */
static int choose_scale(mr_decoder *decoder, mr_io *io, const mr_frame *packet) {
    const mr_decode_choices *from = decoder->self->options;
    if (from->reduced == MR_REDUCED_OFF || mr_decode_target_device(decoder->target))
        return MR_OK;
    const int scale = mr_reduced_scale(&decoder->reduced, decoder->self, packet, from->max_pixels),
              present = decoder->codec->lowres;
    decoder->scaled[scale]++;
    if (scale == present)
        return MR_OK;
    decoder->other[present] = decoder->codec;
    decoder->codec = decoder->other[scale];
    decoder->other[scale] = NULL;
    return decoder->codec ? MR_OK : open_scaled(decoder, io, packet, scale);
}

/* A replacement decoder must be opened with this build. */
static void note_build(mr_decoder *decoder, const mr_frame *packet) {
    const mr_plane *data = &packet->plane[0];
    const int32_t build =
        packet->flags & MR_FRAME_KEY ? mr_x264_build(packet->media->codec, data->data, data->bytes) : 0;
    decoder->x264_build = build ? build : decoder->x264_build;
}

static int decode(mr_decoder *decoder, const mr_frame *packet, int64_t number) {
    return mr_codec_decode(decoder->codec, &decoder->jpeg, decoder->packet, packet, number, decoder->at_once);
}

int mr_decoder_send(mr_decoder *decoder, mr_io *io, const mr_frame *packet, int64_t number, int *refused) {
    decoder->sent = number;
    note_build(decoder, packet);
    if (mr_early_is_present(decoder->early)) {
        int scale;
        *refused = mr_early_send(decoder->early, number, &scale);
        decoder->scaled[scale]++;
        return MR_OK;
    }
    int status = choose_scale(decoder, io, packet);
    *refused = status ? 0 : decode(decoder, packet, number);
    while (!status && *refused < 0 && mr_decode_device_again(mr_decode_target_device(decoder->target))) {
        mr_decoder_close(decoder, false);
        /* The decoder that logged these lines did not start. */
        mr_heard_forget(mr_decode_target_heard(decoder->target), number);
        status = mr_decoder_open(decoder, io, packet);
        *refused = status ? 0 : decode(decoder, packet, number);
    }
    if (status)
        mr_decoder_close(decoder, false);
    return status;
}

/* libavcodec decodes the next picture immediately and can report an error about it. */
int mr_decoder_drain(mr_decoder *decoder) {
    decoder->draining = true;
    decoder->drain_errors = 0;
    const int error = avcodec_send_packet(decoder->codec, NULL);
    return error == AVERROR_EOF ? 0 : error;
}

void mr_decoder_restart(mr_decoder *decoder) {
    decoder->draining = false;
    avcodec_flush_buffers(decoder->codec);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static int take_picture(mr_decoder *decoder, const mr_pending *pending, AVFrame *picture) {
    if (mr_early_codec(decoder->early))
        return mr_early_receive(decoder->early, picture);
    if (!decoder->at_once->buf[0])
        return mr_codec_receive(decoder->codec, pending, picture);
    av_frame_move_ref(picture, decoder->at_once);
    return 0;
}

int mr_decoder_receive(mr_decoder *decoder, const mr_pending *pending, AVFrame *picture) {
    if (decoder->draining && decoder->drain_errors > MOST_DRAIN_ERRORS)
        return AVERROR_EOF;
    const int error = take_picture(decoder, pending, picture);
    if (error < 0) {
        decoder->drain_errors += error != AVERROR(EAGAIN) && error != AVERROR_EOF;
        return error;
    }
    mr_decode_device_crop(picture);
    if (picture->reordered_opaque > decoder->received)
        decoder->received = picture->reordered_opaque;
    return 0;
}

/* Whether a library decodes. Such a decoder gives pictures in packet order, and an error in a picture's place. If the
 * error is about the packet just sent, it logs it. */
static bool has_own_threads(const AVCodecContext *codec) {
    return codec->codec->wrapper_name && codec->codec->capabilities & AV_CODEC_CAP_DELAY;
}

/* The first packet whose picture can come next. */
static int64_t next_to_come(const mr_decoder *decoder, const mr_pending *pending) {
    int64_t number = decoder->received + 1;
    while (number < decoder->sent && !mr_pending_find(pending, number))
        number++;
    return number;
}

/* While draining, frame threads report the first packet with a logged error. Otherwise they report when the last packet
 * for a full set of threads is sent. */
int64_t mr_decoder_refused(const mr_decoder *decoder, const mr_pending *pending, bool *sure) {
    const AVCodecContext *codec = decoder->codec;
    mr_heard *heard = mr_decode_target_heard(decoder->target);
    const bool threads = codec->active_thread_type & FF_THREAD_FRAME;
    *sure = !decoder->draining && !threads;
    if (has_own_threads(codec) && !mr_heard_take_refused(heard, decoder->sent))
        return next_to_come(decoder, pending);
    if (!threads)
        return decoder->sent;
    const int64_t oldest = decoder->sent + 1 - codec->thread_count;
    const int64_t logged = decoder->draining ? mr_heard_take_refused(heard, oldest + 1) : 0;
    return logged ? logged : oldest + decoder->draining;
}

bool mr_decoder_patched(const mr_decoder *decoder, const AVFrame *picture) {
    if (mr_early_codec(decoder->early))
        return mr_early_patched(decoder->early);
    return mr_heard_of(mr_decode_target_heard(decoder->target), picture->reordered_opaque);
}

void mr_decoder_sum_up(const mr_decoder *decoder) {
    const uint64_t *scaled = decoder->scaled;
    if (scaled[2] + scaled[3] > 0)
        mr_stage_info(decoder->self, "%s: %" PRIu64 " pictures were decoded at 1/8 of their size, %" PRIu64
                      " at 1/4, %" PRIu64 " whole", decoder->self->source_id, scaled[3], scaled[2], scaled[0]);
}
