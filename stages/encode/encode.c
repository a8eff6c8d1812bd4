/* encode: pictures -> compressed packets, by libavcodec.
 *
 * Each picture gives one packet, which carries its receipt, results and presentation time. Packets come in decode
 * order. Numbers on a link must rise, so the first packet gets the first picture's number, and so on. A packet's number
 * can therefore be a neighbour's, but only if pictures are reordered (latency: normal). A picture that cannot be
 * encoded is dropped as "cannot be encoded" or "no encoder". An encoder serves one format: if that or the epoch
 * changes, it is drained, and another one begins, with new media. */
#include <inttypes.h>
#include <string.h>

#include "engine/device/device.h"
#include "stages/encode/encode_device.h"
#include "stages/encode/encode_options.h"
#include "stages/encode/encode_picture.h"
#include "stages/list.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_input.h"
#include "stages/media/media_reader.h"
#include "stages/media/picture_format.h"

/* Polling interval for a device's picture copy, which takes microseconds. */
static const int64_t POLL_NS = 50000;

/* A picture in the encoder, indexed by number modulo the window. */
typedef struct entry {
    mr_frame *frame; /* becomes the packet: no payload; NULL after it was emitted */
    mr_identity identity;
    int64_t pts_ns;
} entry;

typedef struct encode_state {
    mr_encode_params params;
    mr_encode_device *device;  /* NULL: the processors */
    AVCodecContext *codec;
    mr_media *media;           /* the packets' media */
    mr_media *from;            /* the pictures' media; may be NULL */
    mr_format format;          /* the pictures' format */
    uint32_t epoch;
    mr_encode_picture picture;
    AVFrame *wrapped;             /* scratch */
    AVPacket *packet;          /* next to emit, if has_packet */
    bool has_packet, taken, draining;
    int64_t sent, given;       /* pictures sent to this encoder, packets received */
    int64_t period_ns;         /* nominal frame period */
    int64_t first_ns;          /* first picture's time */
    int64_t key_number, key_ns; /* last forced key frame */
    bool refused;              /* no encoder accepts these pictures; reported */
    entry window[MR_ENCODE_WINDOW];
} encode_state;

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_format_set packets[] = {{.payload = MR_PAYLOAD_PACKET}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {
    {.name = "pictures", .help = "pictures in any layout, in order", .accepts = pictures}, {.name = NULL}};
static const mr_port outputs[] = {
    {.name = "packets", .help = "compressed packets in decode order", .accepts = packets}, {.name = NULL}};

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static int open_encode(mr_stage *self) {
    encode_state *state = self->state;
    const char *option;
    mr_av_log_capture();
    state->wrapped = av_frame_alloc();
    state->packet = av_packet_alloc();
    if (!state->wrapped || !state->packet)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    int status = mr_encode_read(self->options, &state->params, &option);
    bool on_device = self->device->type->kind != MR_DEVICE_CPU;
    return status || !on_device ? status : mr_encode_device_create(&state->device, self);
}

static void close_encoder(encode_state *state) {
    avcodec_free_context(&state->codec);
    mr_encode_picture_end(&state->picture);
    if (state->device)
        mr_encode_device_close(state->device);
    mr_media_unref(&state->media);
    mr_media_unref(&state->from);
    for (size_t i = 0; i < MR_ENCODE_WINDOW; i++)
        mr_frame_unref(&state->window[i].frame);
    state->sent = state->given = 0;
    state->draining = false;
}

static void close_encode(mr_stage *self) {
    encode_state *state = self->state;
    close_encoder(state);
    mr_encode_device_destroy(&state->device);
    av_frame_free(&state->wrapped);
    av_packet_free(&state->packet);
}

/* ---- the encoder ------------------------------------------------------------------------------------------------- */

/* Pictures a second, from the stream and the picture selection. */
static AVRational rate_of(const mr_media *media) {
    enum { UNKNOWN = 25, MOST = 1000 };
    AVRational rate = {UNKNOWN, 1};
    if (media && media->rate_num > 0 && media->rate_den > 0)
        rate = (AVRational){media->rate_num, media->rate_den};
    if (media && media->every > 1)
        rate = av_div_q(rate, (AVRational){media->every, 1});
    if (media && media->fps > 0 && media->fps < av_q2d(rate))
        rate = av_d2q(media->fps, MOST * 1001);
    bool sane = av_q2d(rate) <= MOST && av_q2d(rate) >= 1.0 / MOST;
    return sane ? rate : (AVRational){UNKNOWN, 1};
}

/* Describes the packets: the pictures' stream in another codec, with picture selection already applied. */
static int describe(mr_stage *self, const mr_frame *frame, AVRational rate, mr_pixel pixel) {
    encode_state *state = self->state;
    AVCodecParameters *parameters = avcodec_parameters_alloc();
    const mr_media *from = frame->media;
    const mr_reader_params plain = {.label = from ? from->label : NULL, .label_index = from ? from->label_index : -1};
    int error = parameters ? avcodec_parameters_from_context(parameters, state->codec) : AVERROR(ENOMEM);
    if (error >= 0)
        parameters->format = mr_pixel_to_av(mr_encoder_decoded(pixel));
    if (error >= 0)
        state->media = mr_reader_describe(&plain, from ? from->path : self->source_id, parameters);
    avcodec_parameters_free(&parameters);
    if (!state->media)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    state->media->is_file = from && from->is_file;
    state->media->rate_num = rate.num;
    state->media->rate_den = rate.den;
    state->media->rotation = frame->format.rotation;
    state->media->flip = frame->format.flip;
    return MR_OK;
}

/* *pixel: the layout to encode. */
static int open_codec(mr_stage *self, mr_io *io, const mr_format *format, AVRational rate, mr_pixel *pixel) {
    encode_state *state = self->state;
    int status = state->device ? mr_encode_device_open(state->device, io, &state->params, format, rate, &state->codec)
                               : MR_OK;
    *pixel = format->pixel;
    if (status || state->codec)
        return status;
    const mr_format to = mr_encoder_format(state->params.codec, format);
    *pixel = to.pixel;
    status = mr_encode_picture_begin(&state->picture, format, &to);
    return status ? status : mr_encoder_open(&state->codec, &state->params, &to, rate);
}

/* Pictures keep their stream's colour values, so its labels must stay too. */
static void note_colours(mr_encode_params *params, const mr_media *media) {
    const AVCodecParameters *from = media ? media->codec : NULL;
    params->primaries = from ? from->color_primaries : 0;
    params->transfer = from ? from->color_trc : 0;
}

static bool same_colours(const mr_encode_params *params, const mr_media *media) {
    mr_encode_params others = {0};
    note_colours(&others, media);
    return others.primaries == params->primaries && others.transfer == params->transfer;
}

static int open_encoder(mr_stage *self, mr_io *io, const mr_frame *frame) {
    encode_state *state = self->state;
    note_colours(&state->params, frame->media);
    AVRational rate = rate_of(frame->media);
    mr_pixel pixel;
    if (state->params.lossless && mr_pixel_describe(frame->format.pixel)->rgb)
        return mr_fail(MR_ERROR_DATA, "lossless: true needs pictures of Y'CbCr or gray, and these are RGB");
    int status = open_codec(self, io, &frame->format, rate, &pixel);
    if (!status)
        status = describe(self, frame, rate, pixel);
    if (status) {
        close_encoder(state);
        return status;
    }
    state->from = frame->media ? mr_media_ref(frame->media) : NULL;
    state->format = frame->format;
    state->epoch = frame->identity.epoch;
    state->period_ns = av_rescale(1000000000, rate.den, rate.num);
    state->refused = false;
    return MR_OK;
}

static bool suits(const encode_state *state, const mr_frame *frame) {
    return frame->identity.epoch == state->epoch && mr_format_same_picture(&frame->format, &state->format) &&
           same_colours(&state->params, frame->media);
}

/* Whether the next picture must be a key frame. */
static bool is_key_due(encode_state *state, const mr_frame *frame) {
    const mr_encode_params *params = &state->params;
    int64_t number = state->sent, since = number - state->key_number;
    bool timed = frame->pts_ns != MR_NO_TIME && state->key_ns != MR_NO_TIME;
    int64_t passed_ns = timed ? frame->pts_ns - state->key_ns : since * state->period_ns;
    bool due = number == 0 || (params->key_count ? since >= params->key_count : passed_ns >= params->key_ns);
    if (due) {
        state->key_number = number;
        state->key_ns = frame->pts_ns;
    }
    return due;
}

/* MR_ERROR_DATA: the encoder refuses this picture. */
static int send(mr_stage *self, mr_io *io, const mr_frame *frame) {
    encode_state *state = self->state;
    if (state->sent - state->given >= MR_ENCODE_WINDOW)
        return mr_fail(MR_ERROR_DATA, "%s holds more than %d pictures", state->codec->codec->name, MR_ENCODE_WINDOW);
    mr_frame *made = NULL;
    int status = mr_io_derive(io, frame, &made);
    if (!status)
        status = state->device ? mr_encode_device_lend(state->device, &state->picture, state->wrapped)
                               : mr_encode_picture_lend(&state->picture, frame, state->wrapped);
    if (!status) {
        state->wrapped->pts = state->sent;
        state->wrapped->pict_type = is_key_due(state, frame) ? AV_PICTURE_TYPE_I : AV_PICTURE_TYPE_NONE;
        state->wrapped->quality = state->codec->global_quality;
        int error = avcodec_send_frame(state->codec, state->wrapped);
        if (error < 0)
            status = mr_fail(MR_ERROR_DATA, "%s refuses a picture: %s", state->codec->codec->name, mr_av_words(error));
    }
    av_frame_unref(state->wrapped);
    if (status) {
        mr_frame_unref(&made);
        return status;
    }
    if (state->sent == 0)
        state->first_ns = frame->pts_ns;
    state->window[state->sent++ % MR_ENCODE_WINDOW] = (entry){made, frame->identity, frame->pts_ns};
    return MR_OK;
}

/* Receives the next packet into state->packet; false if there is none now, or none at all. */
static bool receive(mr_stage *self) {
    encode_state *state = self->state;
    if (state->has_packet)
        return true;
    int error = avcodec_receive_packet(state->codec, state->packet);
    if (error < 0 && error != AVERROR(EAGAIN) && error != AVERROR_EOF)
        mr_stage_warn(self, "%s: %s: %s", self->source_id, state->codec->codec->name, mr_av_words(error));
    state->has_packet = error >= 0;
    return state->has_packet;
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

/* The decoder decodes this packet when picture `number` is shown; a negative number means before the first. */
static int64_t decoding_time(const encode_state *state, int64_t number) {
    if (number < 0)
        return state->first_ns == MR_NO_TIME ? MR_NO_TIME : state->first_ns + number * state->period_ns;
    return number < state->sent ? state->window[number % MR_ENCODE_WINDOW].pts_ns : MR_NO_TIME;
}

static uint32_t flags_of(const AVPacket *packet) {
    return (packet->flags & AV_PKT_FLAG_KEY ? MR_FRAME_KEY : 0) |
           (packet->flags & AV_PKT_FLAG_DISPOSABLE ? MR_FRAME_DISPOSABLE : 0);
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* A folder's pictures are separate files; their packets form one stream. */
static int keep_names(const encode_state *state, mr_frame *frame) {
    const mr_frame_names names = {mr_frame_id(frame), mr_frame_file(frame), mr_frame_label(frame)};
    const char *path = state->media->is_file ? state->media->path : NULL;
    return same_text(names.file, path) && same_text(names.label, state->media->label) ? MR_OK
                                                                                     : mr_frame_name(frame, &names);
}

static int fill(encode_state *state, mr_frame *frame) {
    AVPacket *packet = state->packet;
    mr_buffer *side = NULL;
    int status = mr_side_pack(packet, &side);
    if (side)
        frame->plane[1] = (mr_plane){.buffer = side, .data = side->data, .bytes = side->bytes};
    if (!status)
        status = mr_packet_keep(packet, &frame->plane[0]);
    frame->format = (mr_format){.payload = MR_PAYLOAD_PACKET};
    frame->dts_ns = packet->dts == AV_NOPTS_VALUE ? MR_NO_TIME : decoding_time(state, packet->dts);
    frame->flags = flags_of(packet);
    if (!status)
        status = keep_names(state, frame);
    mr_media_unref(&frame->media);
    frame->media = mr_media_ref(state->media);
    return status;
}

/* Emits state->packet. */
static int emit(mr_stage *self, mr_io *io) {
    encode_state *state = self->state;
    int64_t number = state->packet->pts;
    entry *of = number >= 0 && number < state->sent ? &state->window[number % MR_ENCODE_WINDOW] : NULL;
    int status = MR_OK;
    state->has_packet = false;
    if (of && of->frame) {
        mr_frame *frame = of->frame;
        of->frame = NULL;
        status = fill(state, frame);
        frame->identity = state->window[state->given++ % MR_ENCODE_WINDOW].identity;
        status = mr_io_finish(io, 0, frame, status);
    } else {
        mr_stage_warn(self, "%s: %s gives a packet without a picture", self->source_id, state->codec->codec->name);
    }
    av_packet_unref(state->packet);
    return status;
}

/* Emits a packet, if there is one. MR_MORE: another waits. */
static int give(mr_stage *self, mr_io *io) {
    if (!receive(self))
        return MR_DONE;
    int status = emit(self, io);
    if (status)
        return status;
    return receive(self) ? MR_MORE : MR_DONE;
}

/* Emits the encoder's last packets and closes it. After MR_MORE, call again. */
static int drain(mr_stage *self, mr_io *io) {
    encode_state *state = self->state;
    if (!state->draining)
        avcodec_send_frame(state->codec, NULL);
    state->draining = true;
    int answer = give(self, io);
    if (answer)
        return answer;
    for (size_t i = 0; i < MR_ENCODE_WINDOW; i++)
        if (state->window[i].frame)
            mr_io_drop(io, state->window[i].frame, "cannot be encoded");
    close_encoder(state);
    return MR_DONE;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Drops a picture that no encoder can take, or that this one refuses. */
static int refuse(mr_stage *self, mr_io *io, const mr_frame *frame, int status) {
    encode_state *state = self->state;
    if (status != MR_ERROR_DATA && status != MR_ERROR_UNAVAILABLE)
        return status;
    if (!state->refused && !state->codec)
        mr_io_fail_source(io, frame->identity.source, status);
    else if (!state->refused)
        mr_stage_warn(self, "%s: %s", self->source_id, mr_message());
    state->refused = true;
    mr_io_drop(io, frame, state->codec ? "cannot be encoded" : "no encoder");
    return MR_DONE;
}

static int process(mr_stage *self, mr_io *io) {
    encode_state *state = self->state;
    const mr_frame *frame = mr_io_input(io);
    if (!state->taken) {
        if (state->codec && !suits(state, frame)) {
            int answer = drain(self, io);
            /* The next call opens the new encoder: an emitted packet has used this call's room. */
            if (answer || state->codec)
                return answer ? answer : MR_MORE;
        }
        int status = state->codec ? MR_OK : open_encoder(self, io, frame);
        if (!status && state->device)
            status = mr_encode_device_bring(state->device, io, frame);
        if (status == MR_ERROR_AGAIN) {
            mr_io_wake_at(io, mr_io_now_ns(io) + POLL_NS);
            return MR_WAIT;
        }
        if (!status)
            status = send(self, io, frame);
        if (status)
            return refuse(self, io, frame, status);
        state->taken = true;
    }
    int answer = give(self, io);
    state->taken = answer == MR_MORE;
    return answer;
}

static int flush(mr_stage *self, mr_io *io, uint32_t source) {
    encode_state *state = self->state;
    return state->codec ? drain(self, io) : MR_DONE;
}

const mr_stage_type mr_encode_stage = {
    .name = "encode",
    .summary = "encodes pictures into packets",
    .help = "Makes one packet per picture, with its results and times, in decode order. Each source has an encoder. "
            "Layouts that the codec accepts are encoded as they are. Gray and RGB become 4:2:0, and layouts with more "
            "bits than the codec accepts lose them. Packets keep colour (matrix, range, primaries and transfer, also "
            "for HDR, but not the master's light levels), aspect ratio and rotation; JPEG is converted to its own "
            "colour (BT.601, full range). H.264 and HEVC with subsampled chroma need even sizes: an odd column or row "
            "is repeated. If pictures change their size or format, a new stream begins with them. On a CUDA device "
            "NVENC encodes pictures in the device's memory. GPUs made only for computing, such as A100 and H100, have "
            "no NVENC.",
    .inputs = inputs,
    .outputs = outputs,
    .options = mr_encode_options,
    .options_bytes = sizeof(mr_encode_choices),
    .state_bytes = sizeof(encode_state),
    .entry = MR_ENTRY_PER_SOURCE,
    .streams = true,
    .cuda = true,
    .negotiate = mr_encode_negotiate,
    .check_device = mr_encode_check,
    .check_input = mr_encode_check_input,
    .open = open_encode,
    .process = process,
    .flush = flush,
    .close = close_encode,
    .media_codec = &mr_av_codec,
};
