/* media: emits packets from video files, image folders, test patterns, cameras and servers, one packet per frame. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stages/list.h"
#include "stages/live/live.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_images.h"
#include "stages/media/media_input.h"
#include "stages/source/media_open.h"
#include "stages/source/media_options.h"
#include "stages/source/media_stream.h"
#include "stages/synonyms.h"

typedef struct media_state {
    mr_reader *reader;
    mr_media_stream stream; /* set from options, if it is a stream */
    bool is_stream;
    mr_packet packet;      /* read, not emitted yet */
    bool held;             /* there is one */
    int64_t loops_left;    /* -1: without end */
    mr_identity next;
    int64_t epoch_due_ns;  /* when this epoch's first packet was due, on the pipeline's clock */
    int64_t epoch_time_ns; /* and that packet's media time */
    int64_t due_ns;        /* when the last packet was due */
    int64_t last_duration_ns;
    bool begun;            /* a packet was due */
} media_state;

static const mr_format_set packets[] = {{.payload = MR_PAYLOAD_PACKET}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port outputs[] = {
    {.name = "packets", .help = "compressed packets in decode order", .accepts = packets}, {.name = NULL}};

static mr_reader_params params_of(const mr_media_options *from) {
    return (mr_reader_params){.uri = from->uri, .labels = from->labels, .stream = (int)from->stream,
                              .start_ns = from->start, .end_ns = from->duration ? from->start + from->duration : 0,
                              .every = (int32_t)from->every, .fps = from->fps,
                              .rate = from->framerate > 0 ? from->framerate : from->rate,
                              .start_number = (int)from->start_number,
                              .timeout_ns = from->timeout, .max_pixels = from->max_pixels};
}

static int survey(const mr_media_options *from, mr_survey *known) {
    mr_reader_params params = params_of(from);
    params.probe = true;
    params.loops = 1;
    mr_reader *reader;
    int status = mr_reader_open(&reader, &params);
    if (status)
        return status;
    status = mr_reader_survey(reader, known);
    mr_reader_destroy(&reader);
    return status;
}

/* Frames that every and fps omit count here: decode omits them. */
static int negotiate(mr_negotiation *negotiation) {
    const mr_media_options *from = negotiation->options;
    int64_t loops = mr_media_parse_loop(from->loop), frames;
    bool is_stream = mr_live_is_stream(from->uri);
    mr_survey known;
    negotiation->outputs[0].set = packets[0];
    if (mr_media_check_options(negotiation, is_stream))
        return MR_ERROR_CONFIG;
    if (is_stream) {
        const mr_reader_params params = params_of(from);
        return mr_media_stream_negotiate(negotiation, &params);
    }
    negotiation->paced = from->realtime;
    negotiation->endless = loops < 0;
    if (!loops)
        return mr_refuse(negotiation, "loop", "loop must be true, false or a count, not \"%s\"", from->loop);
    int status = mr_reader_check(from->uri);
    if (!status && from->start_number && !av_filename_number_test(from->uri))
        return mr_refuse(negotiation, "start_number", "start_number is for numbered images, such as frames/%%03d.png");
    if (!status && negotiation->offline)
        return MR_OK;
    mr_av_log_capture();
    status = status ? status : survey(from, &known);
    if (status)
        return mr_refuse_status(negotiation, status, "uri", "%s", mr_message());
    negotiation->outputs[0].set = known.set;
    negotiation->outputs[0].mean_pixels = known.mean_pixels;
    negotiation->outputs[0].references = known.references;
    negotiation->outputs[0].stills = known.stills;
    negotiation->rate = known.rate;
    if (*known.remark)
        mr_remark(negotiation, "%s", known.remark);
    if (known.span_ns > 0 && from->start >= known.span_ns)
        mr_warn(negotiation, "start", NULL, "it starts at %.6g s, and %s lasts %.6g s: there may be no picture",
                (double)from->start / 1e9, from->uri, (double)known.span_ns / 1e9);
    if (known.epochs && loops != 1)
        return mr_refuse(negotiation, "loop", "%s names videos, and such a list is read once: remove loop", from->uri);
    if (loops > 0 && !__builtin_mul_overflow(known.frames, loops, &frames))
        negotiation->frames = frames;
    return MR_OK;
}

static int open_stream(mr_stage *self, const mr_reader_params *params) {
    media_state *state = self->state;
    const char *option;
    state->loops_left = 1;
    state->next.epoch = mr_stage_first_epoch(self);
    int status = mr_media_stream_init(&state->stream, self->options, params, false, &option);
    return status ? status : mr_reader_open_live(&state->reader, &state->stream.params);
}

static int open_media(mr_stage *self) {
    const mr_media_options *from = self->options;
    media_state *state = self->state;
    mr_av_log_capture();
    mr_reader_params params = params_of(from);
    params.stage = self;
    state->is_stream = mr_live_is_stream(from->uri);
    if (state->is_stream)
        return open_stream(self, &params);
    state->loops_left = mr_media_parse_loop(from->loop);
    /* Skips turns that an earlier run has finished. */
    state->next.epoch = mr_stage_resume_epoch(self, self->source);
    if (state->loops_left > 0)
        state->loops_left -= state->next.epoch < state->loops_left ? state->next.epoch : state->loops_left - 1;
    params.loops = state->loops_left < 0 ? 0 : state->loops_left;
    params.first_epoch = state->next.epoch;
    return mr_reader_open(&state->reader, &params);
}

/* Fills state->packet. At the end it starts again while loops remain. A turn without packets ends the source, since
 * looping could never give one. */
static int read_next(media_state *state) {
    int answer = mr_reader_read(state->reader, &state->packet);
    if (answer == MR_END && state->next.seq > 0 && state->loops_left != 1) {
        if (state->loops_left > 0)
            state->loops_left--;
        state->next = (mr_identity){.epoch = state->next.epoch + 1};
        answer = mr_reader_rewind(state->reader);
        if (!answer)
            answer = mr_reader_read(state->reader, &state->packet);
    }
    state->held = answer == MR_OK;
    if (state->held && state->packet.begins_epoch && state->next.seq > 0)
        state->next = (mr_identity){.epoch = state->next.epoch + 1};
    return answer;
}

/* Computes when the held packet is due: its distance from the first packet in its epoch, which follows the last
 * epoch. */
static void set_due(media_state *state, int64_t now_ns, bool is_settled) {
    const mr_packet *packet = &state->packet;
    int64_t time_ns = packet->dts_ns != MR_NO_TIME ? packet->dts_ns : packet->pts_ns;
    if (state->next.seq == 0) {
        state->epoch_due_ns = !state->begun ? now_ns : state->due_ns + state->last_duration_ns;
        state->epoch_time_ns = time_ns;
        state->due_ns = state->epoch_due_ns;
    } else if (time_ns == MR_NO_TIME || state->epoch_time_ns == MR_NO_TIME) {
        state->due_ns += state->last_duration_ns;
    } else {
        state->due_ns = state->epoch_due_ns + time_ns - state->epoch_time_ns;
    }
    state->last_duration_ns = packet->duration_ns;
    state->begun = true;
    /* Packets that are sent again only to restore states are not paced. */
    if (is_settled && state->due_ns > now_ns) {
        state->epoch_due_ns -= state->due_ns - now_ns;
        state->due_ns = now_ns;
    }
}

/* Moves the held packet into a frame. */
static void fill(mr_frame *frame, mr_packet *packet) {
    frame->format = (mr_format){.payload = MR_PAYLOAD_PACKET};
    frame->plane[0] = (mr_plane){.buffer = packet->buffer, .data = packet->data, .bytes = packet->bytes};
    if (packet->side)
        frame->plane[1] =
            (mr_plane){.buffer = packet->side, .data = packet->side->data, .bytes = packet->side->bytes};
    frame->media = packet->media;
    frame->pts_ns = packet->pts_ns;
    frame->dts_ns = packet->dts_ns;
    frame->duration_ns = packet->duration_ns;
    frame->captured_ns = packet->captured_ns == MR_NO_TIME ? 0 : packet->captured_ns;
    frame->flags = packet->flags;
    *packet = (mr_packet){0};
}

/* How long after decoding a picture is due: packets come at decoding pace and wait for pictures shown before them. */
static int64_t shown_after(const mr_frame *packet) {
    bool known = packet->pts_ns != MR_NO_TIME && packet->dts_ns != MR_NO_TIME;
    return known && packet->pts_ns > packet->dts_ns ? packet->pts_ns - packet->dts_ns : 0;
}

static int process(mr_stage *self, mr_io *io) {
    const mr_media_options *from = self->options;
    media_state *state = self->state;
    if (!state->held) {
        int answer = read_next(state);
        if (answer) /* a stop while reading is an end like any other */
            return answer == MR_ERROR_CANCELLED ? MR_END : answer;
        const mr_identity next = {self->source, state->next.epoch, state->next.seq, 0};
        set_due(state, mr_io_now_ns(io), mr_stage_settled(self, &next));
    }
    if (from->realtime && mr_io_now_ns(io) < state->due_ns) {
        mr_io_wake_at(io, state->due_ns);
        return MR_WAIT;
    }
    mr_frame *frame;
    int status = mr_io_originate(io, &state->next, &frame);
    if (status)
        return status;
    fill(frame, &state->packet);
    if (from->realtime)
        mr_io_set_due(io, frame, state->due_ns + shown_after(frame));
    state->held = false;
    state->next.seq++;
    return mr_io_emit(io, 0, frame);
}

/* File readers check mr_stage_cancelled; only a stream must be woken. */
static void stop_media(mr_stage *self) {
    media_state *state = self->state;
    if (state->is_stream && state->reader)
        mr_live_wake(state->reader);
}

static void close_media(mr_stage *self) {
    media_state *state = self->state;
    mr_packet_drop(&state->packet);
    mr_reader_destroy(&state->reader);
    mr_media_stream_fini(&state->stream);
}

const mr_stage_type mr_media_source = {
    .name = "media",
    .summary = "reads video files, image folders, test patterns, and streams from cameras and servers",
    .help = "Emits compressed packets from any file that libavformat opens. A folder or a glob is an image sequence "
            "in natural name order (2.png before 10.png); numbered images (frames/%03d.png) are read up to the first "
            "missing number, as ffmpeg reads them. In a folder, files with a picture's extension are read; the plan, "
            "the log and the summary count the rest. ** matches any number of folders: photos/**/*.jpg. HEIC, and "
            "AVIF with several tiles, need libheif1, which is opened when the first one comes. A folder or a glob "
            "with videos makes one source for each, named after its file; the id in the pipeline stands for all. "
            "Videos in a list are read one after the other, each an epoch, from `start` to `end` in its row "
            "(seconds). Times count from the stream's start, again in each turn of a loop, and each time that a "
            "stream is connected to. decode applies the choice of pictures (start, duration, every, fps).",
    .outputs = outputs,
    .options = mr_media_option_table,
    .options_bytes = sizeof(mr_media_options),
    .state_bytes = sizeof(media_state),
    .entry = MR_ENTRY_SHARED,
    .blocking = true,
    .repeats = true,
    .implied = true,
    .paced_by = "realtime: true",
    .synonyms = mr_synonym_table,
    .spread = mr_reader_spread,
    .negotiate = negotiate,
    .open = open_media,
    .process = process,
    .close = close_media,
    .stop = stop_media,
    .media_codec = &mr_av_codec,
};
