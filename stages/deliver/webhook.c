/* webhook: records, and pictures, posted to a web server. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "millrace/objects.h"
#include "stages/deliver/webhook_link.h"
#include "stages/list.h"
#include "stages/sink/output.h"
#include "stages/sink/record_json.h"
#include "stages/sink/still_encoder.h"

typedef struct options {
    mr_delivery_options delivery;
    mr_webhook_params server;
    int64_t quality;
} options;

typedef struct state {
    mr_record record;
    mr_record part; /* for texts in templates */
    mr_still_encoder encoder;
    mr_delivery *delivery; /* NULL: the run only measures */
    char *data;            /* the record that is being made */
    size_t bytes, room;
    bool failed;
} state;

enum { ID_BYTES = 1536 };

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static void add(state *at, const void *bytes, size_t count) {
    at->failed = at->failed || !mr_append_bytes((void **)&at->data, &at->room, &at->bytes, bytes, count);
}

/* The same for repeated deliveries, also by a process that continues the run. Only characters that may be in a header
 * stay. */
static size_t make_id(const mr_stage *self, const mr_frame *frame, char id[ID_BYTES]) {
    const mr_identity *of = &frame->identity;
    char plain[ID_BYTES / 3];
    size_t bytes = 0;
    snprintf(plain, sizeof plain, "%s.%u.%llu.%u.%s.%s", mr_stage_run(self), of->epoch,
             (unsigned long long)of->seq, of->sub, self->id, mr_stage_source_id(self, of->source));
    for (const char *next = plain; *next; next++)
        bytes += (size_t)snprintf(id + bytes, ID_BYTES - bytes,
                                  isalnum((unsigned char)*next) || strchr("._-", *next) ? "%c" : "%%%02x",
                                  (unsigned char)*next);
    return bytes;
}

/* ---- templates --------------------------------------------------------------------------------------------------- */

/* The values for a template. Texts are written as in JSON, without the quotes around them. */
typedef struct values {
    const char *id, *pipeline, *source, *pts, *captured, *class;
    char numbers[3][24], score[MR_NUMBER_TEXT];
} values;

static const char *const words[] = {"id",  "pipeline", "source", "epoch", "seq",    "sub",
                                    "pts", "captured", "class",  "score", "record", NULL};

/* Of those that may be missing. The others are texts, in quotes, which stay empty. */
static bool is_number(const char *word) {
    return strcmp(word, "pts") == 0 || strcmp(word, "score") == 0;
}

static const char *value_of(const values *all, size_t word) {
    const char *const texts[] = {all->id,         all->pipeline, all->source,   all->numbers[0], all->numbers[1],
                                 all->numbers[2], all->pts,      all->captured, all->class,      all->score};
    return word < sizeof texts / sizeof *texts ? texts[word] : NULL;
}

/* The length of a word in braces at the beginning, and its number; 0: there is none. *number is -1 if it is unknown. */
static size_t find_word(const char *text, int *number) {
    const size_t length = *text == '{' ? strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
    *number = -1;
    if (!length || text[length + 1] != '}')
        return 0;
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == length && strncmp(words[i], text + 1, length) == 0)
            *number = i;
    return length + 2;
}

static void add_escaped(state *at, const char *text) {
    const unsigned char *made = NULL;
    size_t bytes = 0;
    yajl_gen_clear(at->part.json);
    yajl_gen_reset(at->part.json, "");
    mr_json_text(at->part.json, NULL, text);
    yajl_gen_get_buf(at->part.json, &made, &bytes);
    add(at, made + 1, bytes - 2);
}

/* The best class, or the class of the best object. */
static void find_class(const mr_frame *frame, values *to) {
    const mr_result *classes = mr_frame_result(frame, mr_kind_classes(), NULL);
    const mr_result *objects = mr_frame_result(frame, mr_kind_objects(), NULL);
    const mr_object *object = objects && objects->count ? objects->data : NULL;
    if (classes && classes->count) {
        to->class = classes->classes[0].label;
        mr_float_text(to->score, classes->classes[0].score);
    } else if (object) {
        to->class = object->label;
        mr_float_text(to->score, object->score);
    }
}

static void expand(state *at, const mr_stage *self, const mr_frame *frame, const char *template, const char *id,
                   const char *record, size_t record_bytes) {
    char pts[MR_NUMBER_TEXT], captured[MR_VALUE_TEXT] = "";
    const mr_field date = {.name = "captured", .type = MR_FIELD_DATE};
    values all = {.id = id, .pipeline = mr_stage_pipeline(self), .pts = pts, .captured = captured,
                  .source = mr_stage_source_id(self, frame->identity.source)};
    int number;
    mr_seconds_text(pts, frame->pts_ns);
    mr_value_text(captured, &date, &frame->captured_ns);
    snprintf(all.numbers[0], sizeof all.numbers[0], "%u", frame->identity.epoch);
    snprintf(all.numbers[1], sizeof all.numbers[1], "%llu", (unsigned long long)frame->identity.seq);
    snprintf(all.numbers[2], sizeof all.numbers[2], "%u", frame->identity.sub);
    find_class(frame, &all);
    for (size_t length; *template; template += length) {
        length = find_word(template, &number);
        const char *value = length && number >= 0 ? value_of(&all, (size_t)number) : NULL;
        if (value && !*value && is_number(words[number]))
            add(at, "null", 4);
        else if (value)
            add_escaped(at, value);
        else if (length && number >= 0 && strcmp(words[number], "record") == 0)
            add(at, record, record_bytes);
        else if (!length)
            add(at, template, length = 1);
    }
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int check_template(mr_negotiation *n, const char *template) {
    int number;
    for (size_t length; *template; template += length ? length : 1) {
        length = find_word(template, &number);
        if (length && number < 0)
            return mr_refuse(n, "template", "there is no %.*s; there are {id}, {pipeline}, {source}, {epoch}, {seq}, "
                             "{sub}, {pts}, {captured}, {class}, {score} and {record}", (int)length, template);
    }
    return MR_OK;
}

static int check_picture(mr_negotiation *n) {
    const mr_payload payload = n->inputs[0].set.payload;
    if (payload != MR_PAYLOAD_PICTURE && payload != MR_PAYLOAD_ANY)
        return mr_refuse(n, "picture", "%s gives no pictures: join them, as in {type: join, join: {picture: decode, "
                         "classes: %s}}", n->inputs[0].from, n->inputs[0].from);
    n->shows = MR_IN_SET(MR_PAYLOAD_PICTURE);
    int status = mr_still_encoder_check(MR_STILL_JPEG);
    return status ? mr_refuse_status(n, status, "picture", "%s", mr_message()) : MR_OK;
}

static int negotiate(mr_negotiation *n) {
    const options *given = n->options;
    const mr_webhook_params *server = &given->server;
    const bool single = server->picture || server->template || server->body == MR_WEBHOOK_RECORD;
    n->shows = 0;
    n->blind = !server->picture;
    if (server->template && mr_is_given(n, "body"))
        return mr_refuse(n, "template", "the template is the body: leave `body` out");
    if (single && given->delivery.send_frames > 1)
        return mr_refuse(n, "send_frames", "a request has one record only: leave send_frames out%s",
                         server->picture || server->template ? "" : ", or write body: array or body: lines");
    int status = server->url ? mr_webhook_link_check(server) : MR_OK;
    if (status && !(status == MR_ERROR_UNAVAILABLE && n->offline))
        return mr_refuse_status(n, status, "url", "%s", mr_message());
    status = server->template ? check_template(n, server->template) : MR_OK;
    if (!status && server->picture)
        status = check_picture(n);
    if (!status)
        status = mr_record_check(n, false, false);
    return status ? status : mr_delivery_negotiate(n);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int open_sink(mr_stage *self) {
    const options *given = self->options;
    state *at = self->state;
    mr_webhook_link *link;
    at->encoder.choices = (mr_still_choices){.kind = MR_STILL_JPEG, .quality = (int)given->quality, .turn = true};
    int status = mr_record_open(&at->record);
    if (!status)
        status = mr_record_open(&at->part);
    if (status || !given->server.url)
        return status;
    status = mr_webhook_link_create(&link, &given->server);
    return status ? status : mr_delivery_open(&at->delivery, self, &mr_webhook_service, link);
}

/* A record with its id as the first value. */
static void add_record(state *at, const char *id, size_t id_bytes, const char *text, size_t bytes) {
    add(at, "{\"delivery\":\"", 13);
    add(at, id, id_bytes);
    add(at, "\",", 2);
    add(at, text + 1, bytes - 1);
}

static int make(mr_stage *self, const mr_frame *frame) {
    const options *given = self->options;
    state *at = self->state;
    const mr_recorded recorded = {.frame = frame, .source = mr_stage_source_id(self, frame->identity.source)};
    mr_webhook_head head = {0};
    char id[ID_BYTES];
    uint8_t *picture = NULL;
    size_t bytes, picture_bytes = 0;
    int status = given->server.picture && frame->format.payload == MR_PAYLOAD_PICTURE
                     ? mr_still_encode(&at->encoder, frame, &picture, &picture_bytes) : MR_OK;
    if (status)
        return status;
    const char *text = mr_record_make(&at->record, &recorded, &bytes);
    at->bytes = 0;
    at->failed = false;
    head.id_bytes = (uint32_t)make_id(self, frame, id);
    add(at, &head, sizeof head);
    add(at, id, head.id_bytes);
    const size_t before = at->bytes;
    if (given->server.template)
        expand(at, self, frame, given->server.template, id, text, bytes - 1);
    else
        add_record(at, id, head.id_bytes, text, bytes - 1);
    head.text_bytes = (uint32_t)(at->bytes - before);
    head.picture_bytes = (uint32_t)picture_bytes;
    add(at, picture, picture_bytes);
    mr_free(picture);
    if (at->failed)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a record");
    memcpy(at->data, &head, sizeof head);
    return MR_OK;
}

static int process(mr_stage *self, mr_io *io) {
    state *at = self->state;
    const mr_frame *frame = mr_io_input(io);
    if (at->delivery && !mr_delivery_run(self))
        return mr_io_refuse(io, MR_ERROR_CONFIG);
    int status = make(self, frame);
    return status || !at->delivery ? status : mr_delivery_put(at->delivery, io, frame, at->data, at->bytes);
}

static int flush(mr_stage *self, mr_io *io, uint32_t source) {
    state *at = self->state;
    return at->delivery ? mr_delivery_flush(at->delivery, io, source) : MR_DONE;
}

static void close_sink(mr_stage *self) {
    state *at = self->state;
    mr_delivery_close(&at->delivery);
    mr_still_encoder_close(&at->encoder);
    mr_record_close(&at->record);
    mr_record_close(&at->part);
    mr_free(at->data);
    *at = (state){0};
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with results, and pictures if they are sent"}, {0}};

static const char *const bodies[] = {
    [MR_WEBHOOK_RECORD] = "record", [MR_WEBHOOK_ARRAY] = "array", [MR_WEBHOOK_LINES] = "lines", NULL};

#define SERVER(name) offsetof(options, server.name)
static const mr_option option_table[] = {
    {.name = "url", .kind = MR_OPTION_URI, .file = MR_FILE_SENT, .offset = SERVER(url), .required = true,
     .credentials = SERVER(login), .example = "https://alarms.example/hooks/lobby",
     .help = "where records are posted. A user and a password in it are never shown"},
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
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_SHARED,
    .negotiate = negotiate,
    .open = open_sink,
    .process = process,
    .flush = flush,
    .resumes = true,
    .close = close_sink,
};
