/* preview: serves all sources' newest pictures over HTTP. A frame counts as delivered once it was shown to the store,
 * which keeps the newest ones: nothing waits for a viewer. */
#include <stdlib.h>
#include <string.h>

#include "engine/serve/http_address.h"
#include "engine/serve/http_token.h"
#include "stages/list.h"
#include "stages/preview/answers.h"
#include "stages/preview/page.h"

typedef struct preview_options {
    const char *listen;
    const char *token, *token_file;
    double fps;
    int64_t width, quality, viewers, most_sources, timeout;
} preview_options;

typedef struct preview_state {
    mr_preview_site site;
    mr_http_server *server;
} preview_state;

/* ---- planning --------------------------------------------------------------------------------------------------- */

static int check_tokens(mr_negotiation *negotiation, const preview_options *given) {
    char *token;
    if (given->token && given->token_file)
        return mr_refuse(negotiation, "token", "give `token` or `token_file`, not both");
    if (given->token && mr_http_token_check(given->token, ""))
        return mr_refuse(negotiation, "token", "%s", mr_message());
    if (!given->token_file || negotiation->offline)
        return MR_OK;
    int status = mr_http_token_read(given->token_file, &token);
    if (status)
        return mr_refuse_status(negotiation, status, "token_file", "%s", mr_message());
    mr_http_token_forget(&token);
    return MR_OK;
}

/* Size of a 16:9 picture. */
static double picture_mib(int64_t width) {
    return (double)width * (double)width * 9 / 16 * 1.5 / 1048576;
}

static int negotiate(mr_negotiation *negotiation) {
    const preview_options *given = negotiation->options;
    mr_http_address address;
    negotiation->threads = 2;
    if (!given->listen)
        return MR_OK;
    if (mr_http_address_parse(given->listen, &address))
        return mr_refuse(negotiation, "listen", "%s", mr_message());
    if (address.file)
        return mr_refuse(negotiation, "listen", "browsers cannot open Unix sockets: give an address and a port, such "
                                                "as 127.0.0.1:8090");
    if (!address.loopback && !given->token && !given->token_file)
        return mr_refuse(negotiation, "listen", "%s is reached from other machines, so a token is needed: add "
                                                "`token_file: FILE` or `token: ${VARIABLE}`, or listen at 127.0.0.1",
                         given->listen);
    int64_t sources = negotiation->sources < given->most_sources ? negotiation->sources : given->most_sources;
    mr_remark(negotiation, "two threads, HTTP and JPEG; it keeps up to 2 pictures of a source, about %.1f MiB in all",
              2 * (double)sources * picture_mib(given->width));
    return check_tokens(negotiation, given);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static int start_server(mr_stage *self, const preview_options *given, const char *token) {
    preview_state *state = self->state;
    mr_http_address address;
    int fd, port;
    state->site.page = mr_page_make(self->id, &state->site.page_bytes);
    if (!state->site.page)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    int status = mr_http_address_parse(given->listen, &address);
    if (!status)
        status = mr_http_address_listen(&address, given->listen, &fd, &port);
    if (status)
        return status;
    const mr_http_params params = {.fd = fd, .token = token, .most_streams = (int)given->viewers,
                                   .timeout_ns = given->timeout};
    status = mr_preview_serve(&state->server, &params, &state->site);
    if (!status)
        mr_stage_info(self, "listens at http://%.*s:%d/", (int)(strrchr(given->listen, ':') - given->listen),
                      given->listen, port);
    return status;
}

static int open_preview(mr_stage *self) {
    const preview_options *given = self->options;
    preview_state *state = self->state;
    char *token = NULL;
    if (!given->listen)
        return MR_OK;
    const mr_preview_store_params params = {
        .stage = self, .width = (int32_t)given->width, .quality = (int)given->quality,
        .most_sources = (int)given->most_sources, .most_streams = (int)given->viewers,
        .interval_ns = (int64_t)(1e9 / given->fps)};
    int status = mr_preview_store_create(&state->site.store, &params);
    if (!status && given->token_file)
        status = mr_http_token_read(given->token_file, &token);
    if (!status)
        status = start_server(self, given, token ? token : given->token);
    mr_http_token_forget(&token);
    return status;
}

static int process(mr_stage *self, mr_io *io) {
    preview_state *state = self->state;
    if (state->site.store)
        mr_preview_store_show(state->site.store, mr_io_input(io));
    return MR_DONE;
}

static int flush(mr_stage *self, mr_io *io, uint32_t source) {
    preview_state *state = self->state;
    if (state->site.store)
        mr_preview_store_end(state->site.store, source);
    return MR_DONE;
}

static void close_preview(mr_stage *self) {
    preview_state *state = self->state;
    mr_http_server_destroy(&state->server);
    mr_preview_store_destroy(&state->site.store);
    free(state->site.page);
}

#define FIELD(name) offsetof(preview_options, name)
static const mr_option options[] = {
    {.name = "listen", .kind = MR_OPTION_STRING, .file = MR_FILE_SENT, .offset = FIELD(listen),
     .fallback = "127.0.0.1:8090",
     .help = "address and port; port 0 is any free one, which the log names; beyond this machine only with a token"},
    {.name = "token", .kind = MR_OPTION_STRING, .offset = FIELD(token), .example = "${PREVIEW_TOKEN}",
     .help = "answer only requests that give it, as `Authorization: Bearer TOKEN` or `?token=TOKEN`; best from a "
             "variable, so that it is not in the file"},
    {.name = "token_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = FIELD(token_file),
     .example = "preview.token", .help = "the same in a file that only the owner may read"},
    {.name = "fps", .kind = MR_OPTION_RATE, .offset = FIELD(fps), .fallback = "10", .min = 0.01, .max = 1000,
     .help = "most pictures per source that are shown each second"},
    {.name = "width", .kind = MR_OPTION_INT, .offset = FIELD(width), .fallback = "640", .min = 16, .max = 8192,
     .unit = "px", .help = "wider pictures are scaled to this width"},
    {.name = "quality", .kind = MR_OPTION_INT, .offset = FIELD(quality), .fallback = "75", .min = 1, .max = 100,
     .help = "JPEG quality, 100 is best"},
    {.name = "viewers", .kind = MR_OPTION_INT, .offset = FIELD(viewers), .fallback = "8", .min = 1, .max = 1000,
     .help = "streams at once; more are refused"},
    {.name = "most_sources", .kind = MR_OPTION_INT, .offset = FIELD(most_sources), .fallback = "64", .min = 1,
     .max = 1000, .unit = "sources",
     .help = "sources whose newest pictures are kept; a further source replaces the one that was silent for longest"},
    {.name = "timeout", .kind = MR_OPTION_DURATION, .offset = FIELD(timeout), .fallback = "10s", .min = 1e9,
     .max = 3.6e12, .help = "a viewer that takes next to nothing for this long is disconnected; so is any other "
                            "request that takes longer"},
    MR_OPTIONS_END};

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {{.name = "in", .help = "pictures in any size and layout", .accepts = pictures}, {0}};

const mr_stage_type mr_preview_stage = {
    .name = "preview",
    .summary = "shows the newest pictures from all sources in a browser: MJPEG and stills over HTTP",
    .help = "`/` is a page that shows all sources, `/SOURCE.mjpeg` a stream, `/SOURCE.jpg` the newest picture, "
            "`/SOURCE.json` its record as jsonl writes it (classes and objects, if the frames carry some), `/.json` "
            "the sources. "
            "Pictures are encoded only while there is a viewer. The pipeline never waits for viewers: a slow one "
            "gets fewer pictures, and every frame counts as delivered. A still is the next picture. If none comes "
            "within half a second, it is the last that was kept, at most a second before the newest.",
    .inputs = inputs,
    .options = options,
    .options_bytes = sizeof(preview_options),
    .state_bytes = sizeof(preview_state),
    .entry = MR_ENTRY_SHARED,
    .resumes = true,
    .negotiate = negotiate,
    .open = open_preview,
    .process = process,
    .flush = flush,
    .close = close_preview,
};
