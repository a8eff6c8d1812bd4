#include "stages/source/media_options.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "stages/live/live.h"

/* 1000 hours: sums cannot overflow. */
#define LONGEST_NS 3600e12

#define FIELD(name) offsetof(mr_media_options, name)
static const char *const start_words[] = {"first", "key", NULL};
static const char *const never[] = {"never", NULL};
/* Same order as mr_transport, mr_live_clock and mr_live_away. */
static const char *const transports[] = {"auto", "tcp", "udp", NULL};
static const char *const clocks[] = {"stream", "arrival", "camera", NULL};
static const char *const auths[] = {"any", "digest", NULL};
static const char *const away_choices[] = {"wait", "end", "picture", NULL};

static const mr_option reconnect_fields[] = {
    {.name = "first", .kind = MR_OPTION_DURATION, .offset = FIELD(reconnect.first) - FIELD(reconnect),
     .fallback = "500ms", .min = 1e6, .max = LONGEST_NS,
     .help = "until the first try; then twice as long each time"},
    {.name = "most", .kind = MR_OPTION_DURATION, .offset = FIELD(reconnect.most) - FIELD(reconnect), .fallback = "30s",
     .min = 1e6, .max = LONGEST_NS,
     .help = "the longest wait between two tries; used from the first try on if another one is not likely to help "
             "(wrong password, no such stream)"},
    {.name = "give_up", .kind = MR_OPTION_DURATION, .offset = FIELD(reconnect.give_up) - FIELD(reconnect),
     .fallback = "never", .choices = never, .min = 1e6, .max = LONGEST_NS,
     .help = "if it has been away for this long the source fails"},
    MR_OPTIONS_END};

static const mr_option camera_fields[] = {
    {.name = "size", .kind = MR_OPTION_SIZE, .offset = FIELD(camera.size) - FIELD(camera), .fallback = "auto",
     .min = 16, .max = 32768, .unit = "px", .help = "auto: the largest up to 1920x1080 that comes 25 times a second"},
    {.name = "rate", .kind = MR_OPTION_RATE, .offset = FIELD(camera.rate) - FIELD(camera), .fallback = "0", .max = 1000,
     .help = "pictures a second; 0: about 30"},
    {.name = "format", .kind = MR_OPTION_ENUM, .offset = FIELD(camera.format) - FIELD(camera), .fallback = "auto",
     .choices = mr_camera_format_names, .help = "auto: the one that costs the least to decode"},
    MR_OPTIONS_END};

const mr_option mr_media_option_table[] = {
    {.name = "uri", .kind = MR_OPTION_URI, .file = MR_FILE_READ, .offset = FIELD(uri), .required = true,
     .credentials = FIELD(credentials),
     .help = "a video or image file; a folder or a glob with images or videos; numbered images such as "
             "frames/%03d.png; a list of images and video ranges (*.csv with a column path, *.jsonl); or lavfi: and "
             "a test pattern graph. Or a stream: rtsp://, rtsps://, rtmp://, rtmps://, srt://, udp://, rtp://, "
             "http://, https:// (MJPEG, HLS, files), a session description (*.sdp). Or a camera on this machine: "
             "/dev/video0"},
    {.name = "labels", .kind = MR_OPTION_BOOL, .offset = FIELD(labels), .fallback = "false",
     .help = "the folder has one folder for each class, and each image has its class; in a list, images have the "
             "class in their row"},
    {.name = "loop", .kind = MR_OPTION_STRING, .offset = FIELD(loop), .fallback = "false",
     .help = "start again at the end: true for ever, or how many times to play"},
    {.name = "start", .kind = MR_OPTION_DURATION, .offset = FIELD(start), .fallback = "0s", .choices = start_words,
     .min = 0, .max = LONGEST_NS,
     .help = "files: skip pictures before this time from the stream's start. Streams, each time they are connected "
             "to: key, the default, begins with the first key frame or recovery point (or after ten seconds without "
             "any), and first with the first packet, where pictures up to a key frame count as damaged"},
    {.name = "duration", .kind = MR_OPTION_DURATION, .offset = FIELD(duration), .fallback = "0s",
     .min = 0, .max = LONGEST_NS,
     .help = "stop this long after start; 0: at the file's end"},
    {.name = "fps", .kind = MR_OPTION_RATE, .offset = FIELD(fps), .fallback = "0", .max = 100000,
     .help = "at most this many pictures a second, chosen by presentation time: a source with this rate, or a lower "
             "one, keeps all; 0: all"},
    {.name = "every", .kind = MR_OPTION_INT, .offset = FIELD(every), .fallback = "1", .min = 1, .max = 1000000,
     .unit = "pictures",
     .help = "only each Nth picture; with H.264, HEVC, VP9 and MPEG video, pictures that are neither wanted nor "
             "needed for others are not decoded"},
    {.name = "realtime", .kind = MR_OPTION_BOOL, .offset = FIELD(realtime), .fallback = "false",
     .help = "emit packets in real time, by their times, instead of as fast as possible"},
    {.name = "stream", .kind = MR_OPTION_INT, .offset = FIELD(stream), .fallback = "-1", .min = -1, .max = 1000,
     .help = "the video stream's index in the file, or the variant's in an HLS playlist; -1: the best, which has the "
             "most pixels that max_pixels allows"},
    {.name = "rate", .kind = MR_OPTION_RATE, .offset = FIELD(rate), .fallback = "25", .min = 0.001, .max = 100000,
     .help = "pictures a second for media without times: images, and streams with joined JPEGs"},
    {.name = "framerate", .kind = MR_OPTION_RATE, .offset = FIELD(framerate), .fallback = "0", .max = 100000,
     .help = "the same as rate, as ffmpeg calls it; 0: rate is used"},
    {.name = "start_number", .kind = MR_OPTION_INT, .offset = FIELD(start_number), .fallback = "0", .min = 0,
     .max = 2147483647,
     .help = "for numbered images: the first number; if there is no such file, one of the next four"},
    {.name = "timeout", .kind = MR_OPTION_DURATION, .offset = FIELD(timeout), .fallback = "10s",
     .min = 0, .max = LONGEST_NS,
     .help = "for files: how long opening, and reading one packet, can take; 0: no limit"},
    {.name = "max_pixels", .kind = MR_OPTION_INT, .offset = FIELD(max_pixels), .fallback = "67108864", .min = 1,
     .max = 2147483647, .unit = "px",
     .help = "files and streams with larger pictures are refused. A stream's packet can have 4 bytes for each of "
             "these pixels, at least 4 MiB and at most 64 MiB"},
    {.name = "user", .kind = MR_OPTION_STRING, .offset = FIELD(user),
     .help = "a stream's user; can be in the URL instead, with the password: rtsp://user:${PASSWORD}@camera/. Both "
             "are never shown"},
    {.name = "password_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = FIELD(password_file),
     .help = "a file whose first line is the stream's password; for srt://, the passphrase"},
    {.name = "auth", .kind = MR_OPTION_ENUM, .offset = FIELD(auth), .fallback = "any", .choices = auths,
     .help = "how rtsp:// may send a password; digest: never in clear text, so a camera that wants that (Basic) is not "
             "connected to"},
    {.name = "size", .kind = MR_OPTION_SIZE, .offset = FIELD(size), .fallback = "1920x1080", .min = 16, .max = 32768,
     .unit = "px",
     .help = "for streams: the largest pictures to plan for, whatever a camera then gives; a live stream's larger "
             "pictures are dropped as \"too large\", and a recording's take more memory than planned"},
    {.name = "camera", .kind = MR_OPTION_MAP, .offset = FIELD(camera), .fields = camera_fields,
     .help = "the mode for a camera on this machine, one that it offers"},
    {.name = "transport", .kind = MR_OPTION_ENUM, .offset = FIELD(transport), .fallback = "auto", .choices = transports,
     .help = "transport for rtsp:// packets; auto: UDP if they come that way, else TCP"},
    {.name = "latency", .kind = MR_OPTION_DURATION, .offset = FIELD(latency), .fallback = "200ms", .min = 0,
     .max = 60e9, .help = "how long to wait for a late network packet (rtsp:// over UDP, rtp://, srt://); later ones "
                          "are lost"},
    {.name = "open_timeout", .kind = MR_OPTION_DURATION, .offset = FIELD(open_timeout), .fallback = "10s", .min = 1e8,
     .max = LONGEST_NS, .help = "how long connecting to a stream may take"},
    {.name = "stall", .kind = MR_OPTION_DURATION, .offset = FIELD(stall), .fallback = "5s", .min = 1e8,
     .max = LONGEST_NS,
     .help = "if no picture has come from a stream for this long, a new connection is made, whatever else the server "
             "sends; live HLS pictures come by segments, so one segment's duration is added"},
    {.name = "poll", .kind = MR_OPTION_DURATION, .offset = FIELD(poll), .fallback = "0s", .min = 0, .max = LONGEST_NS,
     .help = "for http:// and https://: the address gives one JPEG (http://camera/snapshot.jpg), which is requested "
             "this often; `stall` counts from when a picture is due. 0: one request for the whole stream"},
    {.name = "reconnect", .kind = MR_OPTION_MAP, .offset = FIELD(reconnect), .fields = reconnect_fields,
     .help = "when to retry a stream that is away. Each wait is shortened by a random part, up to half, so that not "
             "all cameras at a site are called at once. In the first minutes it is at most a tenth of how long the "
             "stream has been away"},
    {.name = "clock", .kind = MR_OPTION_ENUM, .offset = FIELD(clock), .fallback = "stream", .choices = clocks,
     .help = "where a stream's picture times come from: stream: the stream; arrival: when pictures arrive, and "
             "records have that date and time as `captured`; camera: as stream, and `captured` is the camera's date "
             "and time, from RTCP sender reports for rtsp://, or from the driver for /dev/video0"},
    {.name = "on_away", .kind = MR_OPTION_ENUM, .offset = FIELD(on_away), .fallback = "wait", .choices = away_choices,
     .help = "while a stream is away: wait for it; or end the source, if it was live; picture: wait, and give a "
             "still picture that shows since when it is away, at the stream's rate, or one a second if that is not "
             "known. Records of such pictures have `away` and no classes"},
    {.name = "ca_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = FIELD(ca_file),
     .help = "certificates (PEM) to verify rtsps://, rtmps:// and https:// servers with; default: the system's"},
    {.name = "allow_hosts", .kind = MR_OPTION_STRINGS, .offset = FIELD(allow_hosts),
     .example = "[\"*.cameras.lan\", \"10.0.*\"]",
     .help = "the only hosts to connect to, by name or address as in URLs, also if a stream, a playlist or a "
             "redirection leads to others; * stands for any characters; default: all"},
    MR_OPTIONS_END};

static const char *const for_files[] = {"labels", "loop",      "duration",     "realtime",
                                        "rate",   "framerate", "start_number", "timeout"};
static const char *const for_streams[] = {"user",  "password_file", "size",  "transport", "latency", "open_timeout",
                                          "stall", "reconnect",     "clock", "on_away",   "ca_file", "allow_hosts",
                                          "poll",  "auth",          "camera"};

int mr_media_check_options(mr_negotiation *negotiation, bool is_stream) {
    const mr_media_options *from = negotiation->options;
    size_t files = sizeof for_files / sizeof for_files[0], streams = sizeof for_streams / sizeof for_streams[0];
    if (from->camera.given && !(is_stream && mr_live_is_camera(from->uri)))
        return mr_refuse(negotiation, "camera",
                         "camera is for cameras of this machine, such as /dev/video0: remove it");
    for (size_t i = 0; is_stream && i < files; i++)
        if (mr_is_given(negotiation, for_files[i]))
            return mr_refuse(negotiation, for_files[i], "%s is for files, and %s is a stream: remove it", for_files[i],
                             from->uri);
    for (size_t i = 0; !is_stream && i < streams; i++)
        if (mr_is_given(negotiation, for_streams[i]))
            return mr_refuse(negotiation, for_streams[i],
                             "%s is for streams, such as rtsp://, and %s is a file: remove it",
                             for_streams[i], from->uri);
    if (from->poll && !mr_live_is_web(from->uri))
        return mr_refuse(negotiation, "poll", "poll is for http:// and https:// addresses of one JPEG: remove it");
    if (from->auth && !mr_live_is_rtsp(from->uri))
        return mr_refuse(negotiation, "auth", "auth is for rtsp:// and rtsps://: remove it");
    if (is_stream && from->start > 0)
        return mr_refuse(negotiation, "start", "a stream starts with first or key; a time is for files");
    if (!is_stream && from->start < 0)
        return mr_refuse(negotiation, "start", "a file starts at a time, such as 10s; first and key are for streams");
    if (is_stream && from->reconnect.first > from->reconnect.most)
        return mr_refuse(negotiation, "reconnect",
                         "the first try (%.3g s) is after the longest time between two (%.3g s)",
                         (double)from->reconnect.first / 1e9, (double)from->reconnect.most / 1e9);
    return MR_OK;
}

int64_t mr_media_parse_loop(const char *text) {
    if (strcmp(text, "false") == 0 || strcmp(text, "no") == 0 || strcmp(text, "off") == 0)
        return 1;
    if (strcmp(text, "true") == 0 || strcmp(text, "yes") == 0 || strcmp(text, "on") == 0)
        return -1;
    char *end;
    errno = 0;
    long long count = strtoll(text, &end, 10);
    return errno || end == text || *end || count < 1 ? 0 : count;
}
