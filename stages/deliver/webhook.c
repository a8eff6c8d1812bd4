/* webhook: records, and pictures, posted to a web server. */
#include "stages/deliver/post.h"
#include "stages/deliver/webhook_link.h"
#include "stages/list.h"

typedef struct options {
    mr_delivery_options delivery;
    mr_webhook_params server;
    int64_t quality;
} options;

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int negotiate(mr_negotiation *n) {
    const options *given = n->options;
    const mr_webhook_params *server = &given->server;
    const bool single = server->picture || server->template || server->body == MR_WEBHOOK_RECORD;
    if (server->template && mr_is_given(n, "body"))
        return mr_refuse(n, "template", "the template is the body: leave `body` out");
    if (single && given->delivery.send_frames > 1)
        return mr_refuse(n, "send_frames", "a request has one record only: leave send_frames out%s",
                         server->picture || server->template ? "" : ", or write body: array or body: lines");
    int status = server->url ? mr_webhook_link_check(server) : MR_OK;
    if (status && !(status == MR_ERROR_UNAVAILABLE && n->offline))
        return mr_refuse_status(n, status, "url", "%s", mr_message());
    return mr_post_sink_negotiate(n, server->template, server->picture);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int open_sink(mr_stage *self) {
    const options *given = self->options;
    mr_post_sink *at = self->state;
    mr_webhook_link *link;
    at->choices = (mr_post_choices){.template = given->server.template, .picture = given->server.picture};
    int status = mr_post_writer_open(&at->writer, (int)given->quality);
    if (status || !given->server.url)
        return status;
    status = mr_webhook_link_create(&link, &given->server);
    return status ? status : mr_delivery_open(&at->delivery, self, &mr_webhook_service, link);
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with results, and pictures if they are sent"}, {0}};

static const char *const bodies[] = {
    [MR_WEBHOOK_RECORD] = "record", [MR_WEBHOOK_ARRAY] = "array", [MR_WEBHOOK_LINES] = "lines", NULL};

#define SERVER(name) offsetof(options, server.name)
static const mr_option option_table[] = {
    {.name = "url", .kind = MR_OPTION_URI, .file = MR_FILE_SENT, .offset = SERVER(url), .required = true,
     .credentials = SERVER(login), .example = "https://alarms.example/hooks/lobby",
     .help = "where records are posted. A user and a password in it are never shown"},
    {.name = "path_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = SERVER(path_file),
     .help = "a file whose first line, such as /services/T0/B0/x, is added to the URL and never shown: for servers "
             "such as Slack and Discord, to which whoever knows the URL may post; only its owner may read it"},
    {.name = "body", .kind = MR_OPTION_ENUM, .offset = SERVER(body), .fallback = "record", .choices = bodies,
     .help = "a record, as jsonl writes it, for each request; or send_frames of them as a JSON array, or as lines"},
    {.name = "template", .kind = MR_OPTION_STRING, .offset = SERVER(template),
     .example = "'{\"text\": \"{class} at {source}\"}'",
     .help = "the JSON text of each request, in which {id}, {pipeline}, {source}, {epoch}, {seq}, {sub}, {pts}, "
             "{captured}, {class} (the best one), {score} and {record} are replaced; texts are escaped, and have no "
             "quotes around them; {pts} and {score} are null if there is none"},
    {.name = "picture", .kind = MR_OPTION_BOOL, .offset = SERVER(picture), .fallback = "false",
     .help = "send the picture too, as JPEG: the request is multipart/form-data with the parts record and picture"},
    {.name = "quality", .kind = MR_OPTION_INT, .offset = offsetof(options, quality), .fallback = "85", .min = 1,
     .max = 100, .help = "of the picture"},
    {.name = "headers", .kind = MR_OPTION_PAIRS, .offset = SERVER(headers), .example = "{X-Site: lobby}",
     .help = "more headers for each request"},
    {.name = "authorization_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ,
     .offset = SERVER(authorization_file),
     .help = "a file whose first line is the value of the header Authorization, such as Bearer and a token; only its "
             "owner may read it"},
    {.name = "secret_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = SERVER(secret_file),
     .help = "a file whose first line is a secret: requests are signed with HMAC-SHA256 in X-Millrace-Signature; only "
             "its owner may read it"},
    {.name = "ca_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = SERVER(ca_file),
     .help = "certificates (PEM) of those who may sign the server's certificate; default: the system's"},
    {.name = "timeout", .kind = MR_OPTION_DURATION, .offset = SERVER(timeout_ns), .fallback = "10s", .min = 1e8,
     .max = 3600e9, .neutral = true, .help = "how long a request may take"},
    MR_DELIVERY_OPTIONS("1", "200ms"),
    MR_OPTIONS_END,
};

const mr_stage_type mr_webhook_stage = {
    .name = "webhook",
    .summary = "posts records, and pictures, to a web server",
    .help = "A frame is delivered once the server has answered with a status from 200 to 299. Requests are repeated "
            "until then, so a server can get a record twice: its value delivery, and the header Idempotency-Key, are "
            "the same each time, also if the run is continued. Other answers than 408, 425, 429 and 500 to 599 drop "
            "the record (refused). Redirects are not followed.",
    .inputs = inputs,
    .options = option_table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(mr_post_sink),
    .negotiate = negotiate,
    .open = open_sink,
    MR_POST_SINK_TYPE,
};
