/* video: writes packets to files, HLS files with a playlist, or a network receiver. Packets are written as they come,
 * from media without decoding, or from encode. */
#include <string.h>

#include "stages/list.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_input.h"
#include "stages/video/video_files.h"
#include "stages/video/video_push.h"

typedef struct video_state {
    mr_video_files files;
    mr_video_push push;
} video_state;

#define FIELD(name) offsetof(mr_video_options, name)
static const mr_option options[] = {
    {.name = "path", .kind = MR_OPTION_PATH, .file = MR_FILE_FOLDER, .offset = FIELD(path), .example = "recordings",
     .help = "folder to write to; it is made if it does not exist"},
    {.name = "url", .kind = MR_OPTION_URI, .file = MR_FILE_SENT, .offset = FIELD(url),
     .credentials = FIELD(login),
     .example = "rtsp://127.0.0.1:8554/live",
     .help = "receiver to send to, instead of files: rtsp://, rtmp://, srt:// or udp://; only one source can be sent "
             "to an address"},
    {.name = "name", .kind = MR_OPTION_STRING, .file = MR_FILE_NAME, .offset = FIELD(name), .fallback = "{source}.mp4",
     .help = "each file's name; the extension chooses the container: .mp4 (in fragments), .mkv, .ts, or .m3u8, the "
             "HLS playlist, whose files have a number after the name. {source}, {number} and {time} (when the file "
             "was begun, in UTC) are replaced. If a file with the same name follows, it gets -2, -3, ... after the "
             "name"},
    {.name = "segment", .kind = MR_OPTION_DURATION, .offset = FIELD(segment), .fallback = "0s", .max = 86400e9,
     .help = "begin another file at the first key frame after this time; the name then needs {number} or {time}. 0: "
             "one file, of HLS one every six seconds"},
    MR_KEEP_OPTIONS(FIELD(keep_for), FIELD(keep_bytes), "source"),
    {.name = "playlist", .kind = MR_OPTION_INT, .offset = FIELD(playlist), .fallback = "6", .min = 0,
     .max = MR_HLS_MOST, .unit = "files",
     .help = "for HLS: how many files the playlist has. Unless keep_for or keep_bytes is given, a file is removed "
             "when it has left the playlist and three more have come. 0: all, and none is removed"},
    {.name = "overwrite", .kind = MR_OPTION_BOOL, .offset = FIELD(overwrite), .fallback = "false",
     .help = "replace an existing file with the same name; with {number} or {time} names are always new, and numbers "
             "continue"},
    {.name = "timeout", .kind = MR_OPTION_DURATION, .offset = FIELD(timeout), .fallback = "5s", .min = 1e8,
     .max = 3600e9,
     .help = "how long a receiver may take to answer, or to take a packet, before the connection is given up"},
    {.name = "retry", .kind = MR_OPTION_DURATION, .offset = FIELD(retry_first), .fallback = "500ms", .min = 1e7,
     .max = 3600e9,
     .help = "wait before a new connection is tried; it doubles after each failure"},
    {.name = "retry_most", .kind = MR_OPTION_DURATION, .offset = FIELD(retry_most), .fallback = "30s", .min = 1e7,
     .max = 86400e9, .help = "the longest such wait"},
    MR_ON_FULL_OPTION(FIELD(on_full)),
    MR_OPTIONS_END};

static const mr_format_set packets[] = {{.payload = MR_PAYLOAD_PACKET}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {
    {.name = "packets", .help = "compressed packets in decode order", .accepts = packets}, {0}};

/* ---- planning ---------------------------------------------------------------------------------------------------- */

bool mr_video_is_hls(const mr_video_options *given) {
    return strcmp(mr_file_name_ending(given->name), ".m3u8") == 0;
}

static int container_of(const char *ending, mr_container *container) {
    static const struct {
        const char *ending;
        mr_container container;
    } known[] = {{".mp4", MR_CONTAINER_MP4}, {".mkv", MR_CONTAINER_MKV}, {".ts", MR_CONTAINER_TS},
                 {".m3u8", MR_CONTAINER_TS}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(ending, known[i].ending) == 0) {
            *container = known[i].container;
            return MR_OK;
        }
    return mr_fail(MR_ERROR_CONFIG, "name must end with .mp4, .mkv, .ts or .m3u8, not \"%s\"", ending);
}

int mr_video_container(const mr_video_options *given, mr_container *container, const char **option) {
    *option = "url";
    if (given->url)
        return mr_video_push_container(given->url, container);
    *option = "name";
    int status = mr_file_name_check(given->name);
    return status ? status : container_of(mr_file_name_ending(given->name), container);
}

int mr_video_check_sources(mr_negotiation *negotiation, const char *name) {
    if (strstr(name, "{source}") || negotiation->sources < 2)
        return MR_OK;
    return mr_refuse(negotiation, "name", "%d sources come here, so the name needs {source}, as in \"{source}.mp4\"",
                     negotiation->sources);
}

static int check_name(mr_negotiation *negotiation) {
    const mr_video_options *given = negotiation->options;
    bool differs = mr_file_name_differs(given->name);
    if (!given->path)
        return MR_OK;
    if (mr_video_is_hls(given) && differs)
        return mr_refuse(negotiation, "name", "a playlist has one name: remove {number} and {time}, its files are "
                         "numbered");
    if (given->segment && !mr_video_is_hls(given) && !differs)
        return mr_refuse(negotiation, "name", "with segment the name needs {number} or {time}, such as "
                         "{source}-{time}.mp4");
    return mr_video_check_sources(negotiation, given->name);
}

static int check_files(mr_negotiation *negotiation) {
    const mr_video_options *given = negotiation->options;
    const char *source;
    int status = MR_OK;
    if (!given->path || negotiation->offline || negotiation->returns)
        return MR_OK;
    for (size_t i = 0; !status && (source = mr_planned_source(negotiation, i)); i++)
        status = mr_video_files_check(given, source);
    return status ? mr_refuse_status(negotiation, status, "name", "%s", mr_message()) : MR_OK;
}

static int negotiate(mr_negotiation *negotiation) {
    const mr_video_options *given = negotiation->options;
    const mr_planned_input *input = &negotiation->inputs[0];
    mr_container container;
    const char *option;
    int status = given->path || given->url ? mr_video_container(given, &container, &option) : MR_OK;
    if (status)
        return mr_refuse(negotiation, option, "%s", mr_message());
    if (!given->path && !given->url)
        return mr_refuse(negotiation, NULL, "write path, a folder for files, or url, a receiver to send to");
    if (given->path && given->url)
        return mr_refuse(negotiation, "url", "path and url exclude each other: remove one of them");
    status = check_name(negotiation);
    if (status)
        return status;
    if (given->url && negotiation->sources > 1)
        return mr_refuse(negotiation, "url", "%d sources come here, and one address takes one", negotiation->sources);
    if (input->stills)
        return mr_refuse(negotiation, NULL, "%s gives still pictures, which are not a video: decode and encode them "
                         "before", input->from);
    if (input->set.codec && mr_container_check(container, input->set.codec))
        return mr_refuse(negotiation, option, "%s", mr_message());
    status = check_files(negotiation);
    if (status)
        return status;
    if (given->url)
        mr_remark(negotiation, "a receiver that stops is waited for up to its timeout each time; with queue: "
                  "{when_full: drop-oldest} nothing waits for it");
    return MR_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int open_video(mr_stage *self) {
    const mr_video_options *given = self->options;
    video_state *state = self->state;
    mr_av_log_capture();
    if (given->url)
        return mr_video_push_open(&state->push, self);
    return given->path ? mr_video_files_open(&state->files, self) : MR_OK;
}

static int process(mr_stage *self, mr_io *io) {
    const mr_video_options *given = self->options;
    video_state *state = self->state;
    const mr_frame *frame = mr_io_input(io);
    if (frame->flags & MR_FRAME_AWAY) {
        mr_io_absorb(io, frame, "away");
        return MR_DONE;
    }
    if (given->url)
        return mr_video_push_take(&state->push, io);
    return given->path ? mr_video_files_take(&state->files, self, io) : MR_DONE;
}

static int flush(mr_stage *self, mr_io *io, uint32_t source) {
    const mr_video_options *given = self->options;
    video_state *state = self->state;
    if (given->url)
        mr_video_push_close(&state->push);
    return given->path && !given->url ? mr_video_files_flush(&state->files, self, io) : MR_DONE;
}

static void close_video(mr_stage *self) {
    video_state *state = self->state;
    mr_video_push_close(&state->push);
    if (state->files.given)
        mr_video_files_close(&state->files, self);
}

const mr_stage_type mr_video_stage = {
    .name = "video",
    .summary = "writes packets to video files or HLS, or sends them to a receiver",
    .help = "Packets are written as they come, from media without decoding or from encode, starting with the first "
            "key frame; packets before it are dropped as \"no key frame\". If the process is killed, files can be "
            "read up to their last second. If the stream changes codec or size, or starts again, another file is "
            "begun; if a camera does so all the time, pictures are dropped as \"changes too often\". While a "
            "receiver cannot be reached packets are dropped as \"no receiver\". Still pictures from on_away: picture "
            "are omitted (\"away\") if they come from media; from encode they are pictures like others. Times in a "
            "file count from its first picture. Pictures that an edit list hides (a trimmed MP4) are shown in the "
            "copy, since others need them. A Matroska file has its length and its index once it is finished. "
            "Messages show only an address's scheme and host.",
    .inputs = inputs,
    .options = options,
    .options_bytes = sizeof(mr_video_options),
    .state_bytes = sizeof(video_state),
    .entry = MR_ENTRY_PER_SOURCE,
    .blocking = true,
    .negotiate = negotiate,
    .open = open_video,
    .process = process,
    .flush = flush,
    .close = close_video,
};
