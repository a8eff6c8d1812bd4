/* media: packets of video files, image folders and test patterns, one packet a frame. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stages/list.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_input.h"
#include "stages/media/media_reader.h"

typedef struct media_options {
    const char *uri;
    bool labels;
    const char *loop;
    int64_t start, duration;
    double fps;
    int64_t every;
    bool realtime;
    int64_t stream;
    double rate, framerate;
    int64_t start_number;
    int64_t timeout;
    int64_t max_pixels;
} media_options;

typedef struct media_state {
    mr_reader *reader;
    mr_packet packet;      /* read, not yet emitted */
    bool held;             /* there is one */
    int64_t loops_left;    /* -1: without end */
    mr_identity next;
    int64_t epoch_due_ns;  /* when the first packet of this epoch was due, on the pipeline's clock */
    int64_t epoch_time_ns; /* and its time in the media */
    int64_t due_ns;        /* when the last packet was due */
    int64_t last_duration_ns;
    bool begun;            /* a packet was due */
} media_state;

/* 1000 hours: sums of such times do not overflow. */
#define LONGEST_NS 3600e12

#define FIELD(name) offsetof(media_options, name)
static const mr_option options[] = {
    {.name = "uri", .kind = MR_OPTION_URI, .file = MR_FILE_READ, .offset = FIELD(uri), .required = true,
     .help = "a video or image file, a folder or a glob of images or of videos, numbered images such as "
             "frames/%03d.png, or lavfi: and a graph of test patterns"},
    {.name = "labels", .kind = MR_OPTION_BOOL, .offset = FIELD(labels), .fallback = "false",
     .help = "the folder holds one folder for each class; each image carries its class"},
    {.name = "loop", .kind = MR_OPTION_STRING, .offset = FIELD(loop), .fallback = "false",
     .help = "start again at the end: true for ever, or the number of times to play"},
    {.name = "start", .kind = MR_OPTION_DURATION, .offset = FIELD(start), .fallback = "0s",
     .min = 0, .max = LONGEST_NS,
     .help = "leave out pictures before this time from the start of the stream"},
    {.name = "duration", .kind = MR_OPTION_DURATION, .offset = FIELD(duration), .fallback = "0s",
     .min = 0, .max = LONGEST_NS,
     .help = "stop this long after start; 0: at the end of the file"},
    {.name = "fps", .kind = MR_OPTION_RATE, .offset = FIELD(fps), .fallback = "0", .max = 100000,
     .help = "at most this many pictures a second, chosen by presentation time; 0: all"},
    {.name = "every", .kind = MR_OPTION_INT, .offset = FIELD(every), .fallback = "1", .min = 1, .max = 1000000,
     .unit = "pictures",
     .help = "only each Nth picture; of H.264, HEVC, VP9 and MPEG video, pictures that are neither wanted nor needed "
             "for others are not decoded"},
    {.name = "realtime", .kind = MR_OPTION_BOOL, .offset = FIELD(realtime), .fallback = "false",
     .help = "emit packets in real time, by their times, instead of as fast as possible"},
    {.name = "stream", .kind = MR_OPTION_INT, .offset = FIELD(stream), .fallback = "-1", .min = -1, .max = 1000,
     .help = "index of the video stream in the file; -1: the best"},
    {.name = "rate", .kind = MR_OPTION_RATE, .offset = FIELD(rate), .fallback = "25", .min = 0.001, .max = 100000,
     .help = "pictures a second of media without times: images, and streams of joined JPEGs"},
    {.name = "framerate", .kind = MR_OPTION_RATE, .offset = FIELD(framerate), .fallback = "0", .max = 100000,
     .help = "the same as rate, as ffmpeg calls it; 0: rate is used"},
    {.name = "start_number", .kind = MR_OPTION_INT, .offset = FIELD(start_number), .fallback = "0", .min = 0,
     .max = 2147483647,
     .help = "of numbered images: the first number; if there is no such file, one of the next four"},
    {.name = "timeout", .kind = MR_OPTION_DURATION, .offset = FIELD(timeout), .fallback = "10s",
     .min = 0, .max = LONGEST_NS,
     .help = "how long opening, and reading one packet, may take; 0: no limit"},
    {.name = "max_pixels", .kind = MR_OPTION_INT, .offset = FIELD(max_pixels), .fallback = "67108864", .min = 1,
     .max = 2147483647, .unit = "px", .help = "files whose pictures are larger are refused"},
    MR_OPTIONS_END};

static const mr_format_set packets[] = {{.payload = MR_PAYLOAD_PACKET}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port outputs[] = {
    {.name = "packets", .help = "compressed packets in decode order", .accepts = packets}, {.name = NULL}};

/* Times to play: 1 for false, -1 for true; 0 if the text is neither of them nor a count. */
static int64_t parse_loop(const char *text) {
    if (strcmp(text, "false") == 0 || strcmp(text, "no") == 0 || strcmp(text, "off") == 0)
        return 1;
    if (strcmp(text, "true") == 0 || strcmp(text, "yes") == 0 || strcmp(text, "on") == 0)
        return -1;
    char *end;
    errno = 0;
    long long count = strtoll(text, &end, 10);
    return errno || end == text || *end || count < 1 ? 0 : count;
}

static mr_reader_params params_of(const media_options *from) {
    return (mr_reader_params){.uri = from->uri, .labels = from->labels, .stream = (int)from->stream,
                              .start_ns = from->start, .end_ns = from->duration ? from->start + from->duration : 0,
                              .every = (int32_t)from->every, .fps = from->fps,
                              .rate = from->framerate > 0 ? from->framerate : from->rate,
                              .start_number = (int)from->start_number,
                              .timeout_ns = from->timeout, .max_pixels = from->max_pixels};
}

static int survey(const media_options *from, mr_survey *known) {
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

/* Frames that every and fps leave out count here: decode leaves them out. */
static int negotiate(mr_negotiation *negotiation) {
    const media_options *from = negotiation->options;
    int64_t loops = parse_loop(from->loop), frames;
    mr_survey known;
    negotiation->outputs[0].set = packets[0];
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
    if (loops > 0 && !__builtin_mul_overflow(known.frames, loops, &frames))
        negotiation->frames = frames;
    return MR_OK;
}

static int open_media(mr_stage *self) {
    const media_options *from = self->options;
    media_state *state = self->state;
    mr_av_log_capture();
    mr_reader_params params = params_of(from);
    params.stage = self;
    state->loops_left = parse_loop(from->loop);
    /* Turns that an earlier run has finished are not read again. */
    state->next.epoch = mr_stage_resume_epoch(self, self->source);
    if (state->loops_left > 0)
        state->loops_left -= state->next.epoch < state->loops_left ? state->next.epoch : state->loops_left - 1;
    params.loops = state->loops_left < 0 ? 0 : state->loops_left;
    return mr_reader_open(&state->reader, &params);
}

/* Fills state->packet, at the end from the beginning again while loops are left. A turn without any packet ends the
 * source, since looping over nothing would never give one. */
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
    return answer;
}

/* When the held packet is due: its distance in time from the first of its epoch, which follows the last epoch. */
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
    /* Packets that come again only to refill states are not paced. */
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
    frame->flags = packet->flags;
    *packet = (mr_packet){0};
}

/* How long after it is decoded a picture is due: packets are given at the pace of decoding, and wait for those that
 * are shown before them. */
static int64_t shown_after(const mr_frame *packet) {
    bool known = packet->pts_ns != MR_NO_TIME && packet->dts_ns != MR_NO_TIME;
    return known && packet->pts_ns > packet->dts_ns ? packet->pts_ns - packet->dts_ns : 0;
}

static int process(mr_stage *self, mr_io *io) {
    const media_options *from = self->options;
    media_state *state = self->state;
    if (!state->held) {
        int answer = read_next(state);
        if (answer) /* a stop that interrupts reading is an end like any other */
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

static void close_media(mr_stage *self) {
    media_state *state = self->state;
    mr_buffer_unref(&state->packet.buffer);
    mr_buffer_unref(&state->packet.side);
    mr_media_unref(&state->packet.media);
    mr_reader_destroy(&state->reader);
}

const mr_stage_type mr_media_source = {
    .name = "media",
    .summary = "reads video files, image folders and test patterns from disk",
    .help = "Emits the compressed packets of any file that libavformat opens. A folder or a glob is a sequence of "
            "images in natural order of their names (2.png before 10.png); numbered images (frames/%03d.png) are read "
            "up to the first number that is missing, as ffmpeg reads them. A folder or a glob of videos makes one "
            "source of each, named after its file; the id in the pipeline stands for all. Times count from the start "
            "of the stream, anew in each turn of a loop. The choice of pictures (start, duration, every, fps) is "
            "applied by decode.",
    .outputs = outputs,
    .options = options,
    .options_bytes = sizeof(media_options),
    .state_bytes = sizeof(media_state),
    .entry = MR_ENTRY_SHARED,
    .blocking = true,
    .repeats = true,
    .implied = true,
    .paced_by = "realtime: true",
    .spread = mr_reader_spread,
    .negotiate = negotiate,
    .open = open_media,
    .process = process,
    .close = close_media,
    .media_codec = &mr_av_codec,
};
