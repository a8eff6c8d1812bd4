#include "stages/source/media_stream.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/key_file.h"
#include "engine/base/memory.h"
#include "engine/base/url.h"
#include "stages/media/media_input.h"
#include "stages/media/placeholder.h"

/* ---- user and password ------------------------------------------------------------------------------------------ */

/* Reads the file's first line into newly allocated memory. */
static int read_password(const char *path, char **password) {
    char text[1024];
    int status = mr_secret_file_read(path, "a password", text, sizeof text);
    *password = status ? NULL : mr_strdup(text);
    explicit_bzero(text, sizeof text);
    return status || *password ? status : mr_fail(MR_ERROR_MEMORY, "no memory for a password");
}

static int set_credentials(mr_media_stream *stream, const mr_media_options *from, bool offline, const char **option) {
    mr_connection_params *to = &stream->params.connection;
    to->user = from->credentials.user;
    to->password = from->credentials.password;
    if (from->user && to->user && *to->user && strcmp(from->user, to->user) != 0) {
        *option = "user";
        return mr_fail(MR_ERROR_CONFIG, "the URL has a user, too: remove one of both");
    }
    to->user = from->user ? from->user : to->user;
    if (!from->password_file)
        return MR_OK;
    *option = "password_file";
    if (to->password)
        return mr_fail(MR_ERROR_CONFIG, "the URL has a password, too: remove one of both");
    int status = offline ? MR_OK : read_password(from->password_file, &stream->password);
    to->password = stream->password;
    return status;
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static int join_hosts(const mr_strings *list, char **text) {
    size_t bytes = 1;
    for (size_t i = 0; i < list->count; i++)
        bytes += strlen(list->item[i]) + 1;
    *text = list->count ? mr_calloc(1, bytes) : NULL;
    if (list->count && !*text)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    for (size_t i = 0, used = 0; i < list->count; i++)
        used += (size_t)snprintf(*text + used, bytes - used, "%s%s", i ? "," : "", list->item[i]);
    return MR_OK;
}

/* The most a picture may take: four bytes per pixel at the largest size, within limits. */
static size_t most_bytes_of(int64_t max_pixels) {
    enum { LEAST_BYTES = 4 << 20, MOST_BYTES = 64 << 20, PIXEL_BYTES = 4 };
    return max_pixels < LEAST_BYTES / PIXEL_BYTES  ? LEAST_BYTES
           : max_pixels > MOST_BYTES / PIXEL_BYTES ? MOST_BYTES
                                                   : (size_t)max_pixels * PIXEL_BYTES;
}

int mr_media_stream_init(mr_media_stream *stream, const mr_media_options *from, const mr_reader_params *media,
                         bool offline, const char **option) {
    *option = "uri";
    *stream = (mr_media_stream){
        .params = {.connection = {.url = from->uri,
                                  .transport = (mr_transport)from->transport,
                                  .latency_ns = from->latency,
                                  .open_timeout_ns = from->open_timeout,
                                  .ca_file = from->ca_file,
                                  .most_bytes = most_bytes_of(from->max_pixels),
                                  .poll_ns = from->poll,
                                  .digest_only = from->auth != 0,
                                  .clock_is_unused = from->clock == MR_LIVE_ARRIVAL,
                                  .wake = -1,
                                  .camera = {from->camera.size, from->camera.rate,
                                             (mr_camera_format)from->camera.format},
                                  .media = *media},
                   .stall_ns = from->stall + from->poll,
                   .first_ns = from->reconnect.first,
                   .most_ns = from->reconnect.most,
                   .give_up_ns = from->reconnect.give_up < 0 ? 0 : from->reconnect.give_up,
                   .from_key = from->start != MR_DURATION_WORD + MR_START_FIRST,
                   .clock = (mr_live_clock)from->clock,
                   .on_away = (mr_live_away)from->on_away,
                   .size = from->size}};
    stream->params.connection.media.start_ns = stream->params.connection.media.end_ns = 0;
    int status = join_hosts(&from->allow_hosts, &stream->hosts);
    stream->params.connection.allow_hosts = stream->hosts;
    if (!status)
        status = mr_live_check(&stream->params.connection);
    return status ? status : set_credentials(stream, from, offline, option);
}

void mr_media_stream_fini(mr_media_stream *stream) {
    if (stream->password)
        memset(stream->password, 0, strlen(stream->password));
    mr_free(stream->password);
    mr_free(stream->hosts);
    *stream = (mr_media_stream){0};
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int survey(mr_media_stream *stream, mr_survey *known, bool *recorded) {
    static const int64_t longest_ns = 3000000000; /* planning waits no longer for a camera */
    mr_reader *reader;
    mr_connection_params *params = &stream->params.connection;
    params->media.probe = true;
    if (params->open_timeout_ns > longest_ns)
        params->open_timeout_ns = longest_ns;
    int status = mr_reader_open_live(&reader, &stream->params);
    if (status)
        return status;
    *recorded = mr_live_is_recorded(reader);
    status = mr_reader_survey(reader, known);
    mr_reader_destroy(&reader);
    return status;
}

/* A camera may be away during planning, or return with other pictures. The plan shows the present ones and must hold
 * without them. */
static void tell(mr_negotiation *negotiation, mr_media_stream *stream, mr_size size) {
    mr_survey known = {0};
    char text[MR_FORMAT_SET_TEXT];
    bool recorded = false;
    mr_av_log_capture();
    if (survey(stream, &known, &recorded)) {
        mr_remark(negotiation, "could not be connected to now: %s", mr_message());
        return;
    }
    negotiation->rate = known.rate;
    negotiation->paced = negotiation->endless = !recorded;
    mr_format_set_print(&known.set, text, sizeof text);
    bool outsized = (int64_t)known.set.width.max * known.set.height.max > (int64_t)size.width * size.height;
    const char *held = outsized && !recorded ? ", which is larger than `size`: its pictures will be dropped"
                                             : "; the plan holds for pictures up to `size`";
    mr_remark(negotiation, "gives %s now%s%s%s", text, held, *known.remark ? "; it " : "", known.remark);
}

/* Cameras give eight bits a sample. Other pictures are accepted, but may need more memory than planned. */
static mr_format_set packets_up_to(mr_size size, bool here) {
    return (mr_format_set){
        .payload = MR_PAYLOAD_PACKET, .width = {1, size.width}, .height = {1, size.height},
        .pixels = MR_IN_SET(MR_PIXEL_GRAY8) | MR_IN_SET(MR_PIXEL_I420) | MR_IN_SET(MR_PIXEL_I422) |
                  (here ? MR_IN_SET(MR_PIXEL_NV12) : 0)};
}

/* Checks that a picture that says a stream is away can be drawn here. */
static int try_drawing(mr_size size, const mr_reader_params *params) {
    mr_placeholder placeholder = {0};
    int status = mr_placeholder_show(&placeholder, "away", size, params);
    mr_placeholder_fini(&placeholder);
    return status;
}

int mr_media_stream_negotiate(mr_negotiation *negotiation, const mr_reader_params *media) {
    const mr_media_options *from = negotiation->options;
    mr_media_stream stream;
    const char *option = NULL;
    int status = mr_media_stream_init(&stream, from, media, negotiation->offline, &option);
    if (status) {
        mr_refuse_status(negotiation, status, option, "%s", mr_message());
        mr_media_stream_fini(&stream);
        return status;
    }
    negotiation->outputs[0].set = packets_up_to(from->size, mr_live_is_camera(from->uri));
    negotiation->paced = negotiation->endless = true;
    negotiation->repeats = false;
    /* library threads: one connection, and one that opens it */
    negotiation->threads = !mr_live_is_camera(from->uri) + (from->on_away == MR_AWAY_PICTURE);
    status = negotiation->offline || from->on_away != MR_AWAY_PICTURE ? MR_OK : try_drawing(from->size, media);
    if (status)
        mr_refuse_status(negotiation, status, "on_away", "%s", mr_message());
    if (!status && negotiation->connect)
        tell(negotiation, &stream, from->size);
    mr_media_stream_fini(&stream);
    return status;
}
