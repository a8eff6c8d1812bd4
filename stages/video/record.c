/* record: writes the packets around events to files. Two inputs are merged: the source's packets, which stay in memory
 * for a while, and frames whose results report events. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "stages/list.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_input.h"
#include "stages/sink/output.h"
#include "stages/video/recording.h"
#include "stages/video/video_options.h"
#include "stages/wanted.h"
#include "stages/wanted_events.h"

typedef struct record_options {
    const char *path, *name;
    mr_strings classes, events, zones;
    double score;
    int64_t before, after, keep, memory, longest, keep_for, keep_bytes;
    int on_full;
} record_options;

typedef struct record_state {
    mr_recording recording;
    uint32_t epoch;       /* epoch of the cached stream */
    mr_media *media;      /* NULL: no packet yet */
    uint64_t seen_epochs; /* number of epochs that have had a picture from motion */
    uint32_t seen_epoch;  /* the last such epoch */
    bool taken, refused;
    bool added;           /* the repeated call has added the packet before */
    atomic_bool asked;    /* for a recording, by mr_pipeline_trigger */
} record_state;

#define FIELD(name) offsetof(record_options, name)
static const mr_option options[] = {
    {.name = "path", .kind = MR_OPTION_PATH, .file = MR_FILE_FOLDER, .offset = FIELD(path), .required = true,
     .example = "events", .help = "folder to write to; it is made if it does not exist"},
    {.name = "name", .kind = MR_OPTION_STRING, .file = MR_FILE_NAME, .offset = FIELD(name),
     .fallback = "{source}-{time}.mp4",
     .help = "each file's name, as in video: .mp4, .mkv or .ts; {source}, {number} and {time} (the first picture's, "
             "in UTC) are replaced. Beside it is a file with the same name and .json"},
    {.name = "classes", .kind = MR_OPTION_STRINGS, .offset = FIELD(classes),
     .help = "labels that trigger a recording if a frame, or an object in it, has one of them; without labels every "
             "frame that is not a packet triggers one, such as those that motion lets through"},
    {.name = "score", .kind = MR_OPTION_DOUBLE, .offset = FIELD(score), .fallback = "0.5", .min = -1e9, .max = 1e9,
     .help = "lowest score of a class or object that triggers"},
    {.name = "events", .kind = MR_OPTION_STRINGS, .offset = FIELD(events), .example = "[enter, cross]",
     .help = "events of zones that trigger a recording, and nothing else does; with `classes`, only those of objects "
             "of these classes"},
    {.name = "zones", .kind = MR_OPTION_STRINGS, .offset = FIELD(zones), .example = "[gate]",
     .help = "areas and lines whose events trigger; by default all"},
    {.name = "before", .kind = MR_OPTION_DURATION, .offset = FIELD(before), .fallback = "5s", .max = 3600e9,
     .help = "recorded before a trigger, from the key frame before that time on"},
    {.name = "after", .kind = MR_OPTION_DURATION, .offset = FIELD(after), .fallback = "5s", .max = 86400e9,
     .help = "recorded after a trigger; recordings that overlap share a file"},
    {.name = "keep", .kind = MR_OPTION_DURATION, .offset = FIELD(keep), .fallback = "20s", .max = 7200e9,
     .help = "how long packets are kept in memory: at least `before` plus the delay of triggers after packets"},
    {.name = "memory", .kind = MR_OPTION_BYTES, .offset = FIELD(memory), .fallback = "64MiB", .min = 65536, .max = 1e12,
     .help = "at most, for one source's packets"},
    {.name = "longest", .kind = MR_OPTION_DURATION, .offset = FIELD(longest), .fallback = "10m", .min = 1e9,
     .max = 86400e9, .help = "longest time in one file; after it another one begins, with the next key frame"},
    MR_KEEP_OPTIONS(FIELD(keep_for), FIELD(keep_bytes), "source"),
    MR_ON_FULL_OPTION(FIELD(on_full)),
    MR_OPTIONS_END};

static const mr_port inputs[] = {
    {.name = "in", .help = "the source's packets, and frames with results that can be triggers"}, {0}};

static mr_wanted wanted_of(const record_options *given) {
    return (mr_wanted){.classes = &given->classes, .score = given->score};
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int container_of(const record_options *given, mr_container *container) {
    const mr_video_options as_video = {.path = given->path, .name = given->name};
    const char *option;
    int status = mr_video_container(&as_video, container, &option);
    if (!status && mr_video_is_hls(&as_video))
        return mr_fail(MR_ERROR_CONFIG, "a recording is one file: name must end with .mp4, .mkv or .ts");
    if (!status && !mr_file_name_differs(given->name))
        return mr_fail(MR_ERROR_CONFIG, "there is a file for each recording: name needs {time} or {number}");
    return status;
}

static bool takes_events(const record_options *given) {
    return given->events.count || given->zones.count;
}

static int check_events(mr_negotiation *n, const record_options *given) {
    if (!mr_planned_may_have(n, 0, mr_kind_events()))
        return mr_refuse(n, given->events.count ? "events" : "zones", "no frame that comes here has events, so nothing "
                         "would start a recording: name zones as an input: input: [SOURCE, zones]");
    const mr_wanted_events wanted = {&given->events, &given->zones, &given->classes};
    int status = mr_wanted_events_check(n, "events", &given->events);
    return status ? status : mr_wanted_zones_check(n, &wanted, "nothing would start a recording",
                                                   "starts no recording");
}

static int negotiate(mr_negotiation *negotiation) {
    const record_options *given = negotiation->options;
    const mr_planned_input *input = &negotiation->inputs[0];
    mr_container container;
    negotiation->shows = MR_IN_SET(MR_PAYLOAD_PACKET);
    if (container_of(given, &container))
        return mr_refuse(negotiation, "name", "%s", mr_message());
    if (mr_video_check_sources(negotiation, given->name))
        return MR_ERROR_CONFIG;
    if (given->before > given->keep)
        return mr_refuse(negotiation, "keep", "keep must be at least as long as before: packets that are not kept "
                         "cannot be recorded");
    if (input->set.payload == MR_PAYLOAD_PICTURE || input->set.payload == MR_PAYLOAD_TENSOR)
        return mr_refuse(negotiation, NULL, "%s gives no packets: its input must name a source of packets, or encode, "
                         "beside the stage that triggers: input: [SOURCE, %s]", input->from, input->from);
    if (takes_events(given))
        return check_events(negotiation, given);
    if (given->classes.count && !mr_wanted_may_come(input))
        return mr_refuse(negotiation, "classes", "no frame that comes here has classes or objects, so nothing would "
                         "start a recording: name classify or detect as an input: input: [SOURCE, classify]");
    const mr_wanted wanted = wanted_of(given);
    if (given->classes.count &&
        mr_wanted_check(negotiation, &wanted, "nothing would ever be recorded", "starts no recording"))
        return MR_ERROR_CONFIG;
    if (input->set.payload == MR_PAYLOAD_PACKET)
        mr_remark(negotiation, "only packets come here, so only `millrace ctl trigger` starts a recording");
    return MR_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int open_record(mr_stage *self) {
    const record_options *given = self->options;
    record_state *state = self->state;
    mr_recording *recording = &state->recording;
    mr_av_log_capture();
    *recording = (mr_recording){
        .self = self, .before_ns = given->before, .after_ns = given->after, .longest_ns = given->longest,
        .cache = {.keep_ns = given->keep, .most_bytes = (size_t)given->memory},
        .keep = {.names = {given->path, given->name, self->source_id}, .beside = ".json",
                 .for_ns = given->keep_for, .bytes = given->keep_bytes},
        .full = mr_full_make(self, given->on_full)};
    int status = container_of(given, &recording->container);
    return status ? status : mr_recording_open(recording);
}

static bool find_class(const record_options *given, const mr_frame *frame, mr_trigger *trigger) {
    const mr_wanted wanted = wanted_of(given);
    mr_sighting found;
    if (!mr_wanted_find(&wanted, frame, -1, &found))
        return false;
    trigger->stage = found.stage;
    trigger->label = found.label;
    trigger->score = found.score;
    return true;
}

static bool find_event(const record_options *given, const mr_frame *frame, mr_trigger *trigger) {
    const mr_wanted_events wanted = {&given->events, &given->zones, &given->classes};
    const mr_zone_event *event = mr_wanted_events_find(&wanted, frame, &trigger->stage);
    if (!event)
        return false;
    trigger->event = event->event;
    trigger->zone = event->zone;
    trigger->label = event->label;
    return true;
}

/* motion always passes a stream's first picture, whether something moves or not. */
static bool is_first_of_motion(record_state *state, const mr_frame *frame) {
    const mr_result *result = frame->results;
    bool motion = result && result->kind == mr_kind_tensor() && strcmp(result->name, "motion") == 0;
    bool first = motion && (!state->seen_epochs || state->seen_epoch != frame->identity.epoch);
    state->seen_epochs += first;
    state->seen_epoch = first ? frame->identity.epoch : state->seen_epoch;
    return first;
}

static bool is_trigger(const record_options *given, record_state *state, const mr_frame *frame, mr_trigger *trigger) {
    if (takes_events(given))
        return find_event(given, frame, trigger);
    return given->classes.count ? find_class(given, frame, trigger) : !is_first_of_motion(state, frame);
}

static int take_result(mr_stage *self, const mr_frame *frame) {
    const record_options *given = self->options;
    record_state *state = self->state;
    mr_trigger trigger = {.frame = frame->identity, .pts_ns = frame->pts_ns,
                          .stage = frame->results ? frame->results->stage : NULL};
    if (frame->flags & MR_FRAME_AWAY)
        return MR_OK;
    if (!is_trigger(given, state, frame, &trigger) || !state->media || frame->pts_ns == MR_NO_TIME)
        return MR_OK;
    if (frame->identity.epoch != state->epoch) {
        mr_stage_info(self, "%s: a trigger at %.3f s comes after its stream has ended", self->source_id,
                      (double)frame->pts_ns / 1e9);
        return MR_OK;
    }
    return mr_recording_trigger(&state->recording, &trigger);
}

/* A program's trigger counts at this packet's time. */
static int take_wish(mr_stage *self, const mr_frame *frame) {
    record_state *state = self->state;
    if (!state->recording.cache.last || !atomic_exchange(&state->asked, false))
        return MR_OK;
    const mr_trigger trigger = {
        .frame = frame->identity, .pts_ns = state->recording.cache.last->time_ns, .stage = "ctl"};
    int status = mr_recording_trigger(&state->recording, &trigger);
    if (status == MR_ERROR_AGAIN)
        atomic_store(&state->asked, true);
    return status;
}

static int take_packet(mr_stage *self, const mr_frame *frame) {
    record_state *state = self->state;
    const AVCodecParameters *codec = frame->media ? frame->media->codec : NULL;
    bool other = state->media && (frame->media->codec != state->media->codec || frame->identity.epoch != state->epoch);
    int status = MR_OK;
    if (!codec)
        return mr_fail(MR_ERROR_DATA, "a packet of an unknown stream");
    if (!state->media || other) {
        status = mr_recording_end(&state->recording);
        if (!status)
            status = mr_recording_put(&state->recording);
        if (!status && mr_container_check(state->recording.container, avcodec_get_name(codec->codec_id)))
            status = mr_fail(MR_ERROR_DATA, "%s", mr_message());
        if (status)
            return status;
        mr_media_unref(&state->media);
        state->media = mr_media_ref(frame->media);
        state->epoch = frame->identity.epoch;
    }
    if (!state->added)
        status = mr_recording_add(&state->recording, frame);
    if (status)
        return status;
    status = take_wish(self, frame);
    state->added = status == MR_ERROR_AGAIN;
    return status;
}

static int refuse(mr_stage *self, mr_io *io, const mr_frame *frame, int status) {
    record_state *state = self->state;
    if (status != MR_ERROR_DATA)
        return mr_output_failed(io, frame, status);
    if (!state->refused)
        mr_io_fail_source(io, frame->identity.source, status);
    state->refused = true;
    mr_io_drop(io, frame, "cannot be recorded");
    return MR_DONE;
}

static int process(mr_stage *self, mr_io *io) {
    record_state *state = self->state;
    const mr_frame *frame = mr_io_input(io);
    bool packet = frame->format.payload == MR_PAYLOAD_PACKET;
    if (packet && frame->flags & MR_FRAME_AWAY) {
        mr_io_absorb(io, frame, "away");
        return MR_DONE;
    }
    int status = mr_recording_put(&state->recording);
    if (!status && !state->taken) {
        status = packet ? take_packet(self, frame) : take_result(self, frame);
        if (status)
            return refuse(self, io, frame, status);
        state->taken = true;
        status = mr_recording_put(&state->recording);
    }
    if (status)
        return mr_output_failed(io, frame, status);
    state->taken = false;
    return MR_DONE;
}

static int flush(mr_stage *self, mr_io *io, uint32_t source) {
    record_state *state = self->state;
    int status = mr_recording_end(&state->recording);
    if (!status)
        status = mr_recording_put(&state->recording);
    if (status == MR_ERROR_AGAIN)
        return mr_full_wait(io);
    if (!status && state->recording.cache.cut_short)
        mr_stage_info(self, "%s: `memory` was too little for all of `keep`", self->source_id);
    return status;
}

static int trigger_record(mr_stage *self) {
    record_state *state = self->state;
    atomic_store(&state->asked, true);
    return MR_OK;
}

static void close_record(mr_stage *self) {
    record_state *state = self->state;
    mr_recording_close(&state->recording);
    mr_media_unref(&state->media);
}

const mr_stage_type mr_record_stage = {
    .name = "record",
    .summary = "records the packets around events into video files",
    .help = "The input names a packet source and a stage whose frames trigger: input: [lobby, classify]; so does "
            "`millrace ctl trigger`. Packets are kept in memory, and go into files as they came, each at most once: "
            "from the key frame before `before` of a trigger to `after` it. A file stays open for as long as packets "
            "are kept, since a late trigger can still meet it; one that comes even later begins with the first key "
            "frame that was not written. The JSON file beside it has the packets' and the triggers' numbers and "
            "times, and `complete`: false until the file is finished. While packets are added to the file it has "
            "neither their count nor the last one's number and time. A frame counts as delivered once it was looked "
            "at: a process that is killed loses what was in memory, and an open file's last second. Still pictures "
            "from on_away: picture trigger nothing, and their packets are omitted.",
    .inputs = inputs,
    .options = options,
    .options_bytes = sizeof(record_options),
    .state_bytes = sizeof(record_state),
    .entry = MR_ENTRY_PER_SOURCE,
    .blocking = true,
    .negotiate = negotiate,
    .open = open_record,
    .process = process,
    .flush = flush,
    .close = close_record,
    .trigger = trigger_record,
};
