/* mqtt: records, and pictures, published to an MQTT broker. */
#include <string.h>

#include "stages/deliver/mqtt_link.h"
#include "stages/deliver/post.h"
#include "stages/deliver/topic.h"
#include "stages/list.h"

typedef struct options {
    mr_delivery_options delivery;
    mr_mqtt_params server;
    const char *home_assistant;
    int64_t quality;
} options;

typedef struct state {
    mr_post_sink sink; /* must be first */
    mr_mqtt_params server;
} state;

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* The prefix of Home Assistant's topics; NULL: no discovery. */
static const char *prefix_of(const options *given) {
    const char *text = given->home_assistant;
    if (!text || strcmp(text, "false") == 0)
        return NULL;
    return strcmp(text, "true") == 0 ? "homeassistant" : text;
}

static int check_home(mr_negotiation *n, const options *given) {
    if (strchr(prefix_of(given), '{'))
        return mr_refuse(n, "home_assistant", "the prefix of Home Assistant's topics has no words in braces");
    if (given->server.template)
        return mr_refuse(n, "home_assistant", "Home Assistant reads records: leave `template` out");
    if (!strstr(given->server.topic, "{source}") || strstr(given->server.topic, "{class}"))
        return mr_refuse(n, "topic", "with home_assistant every source needs one topic: write {source} in it, and no "
                         "{class}");
    return mr_topic_check(n, "home_assistant", prefix_of(given));
}

static int check_topics(mr_negotiation *n, const options *given) {
    const char *of_state = given->server.state_topic;
    int status = mr_topic_check(n, "topic", given->server.topic);
    if (!status)
        status = mr_topic_check(n, "state_topic", of_state);
    if (!status && (strstr(of_state, "{source}") || strstr(of_state, "{class}")))
        return mr_refuse(n, "state_topic", "the state is that of the whole stage: {source} and {class} have no place "
                         "in its topic");
    return !status && prefix_of(given) ? check_home(n, given) : status;
}

static int check_files(mr_negotiation *n, const mr_mqtt_params *server) {
    if (!server->certificate_file != !server->key_file)
        return mr_refuse(n, server->key_file ? "key_file" : "certificate_file",
                         "certificate_file and key_file belong together");
    if (server->certificate_file && !server->ca_file)
        return mr_refuse(n, "certificate_file", "a client's certificate needs a ca_file for the broker's");
    if ((server->user_file && server->login.user) || (server->password_file && server->login.password))
        return mr_refuse(n, server->user_file ? "user_file" : "password_file", "the URL has it already");
    if ((server->password_file || server->login.password) && !server->user_file && !server->login.user)
        return mr_refuse(n, server->password_file ? "password_file" : "url", "a password needs a user");
    return MR_OK;
}

static int negotiate(mr_negotiation *n) {
    const options *given = n->options;
    const mr_mqtt_params *server = &given->server;
    int status = server->url ? mr_mqtt_link_check(server) : MR_OK;
    if (status && !(status == MR_ERROR_UNAVAILABLE && n->offline))
        return mr_refuse_status(n, status, "url", "%s", mr_message());
    status = server->url ? check_files(n, server) : MR_OK;
    if (!status)
        status = check_topics(n, given);
    return status ? status : mr_post_sink_negotiate(n, server->template, server->picture);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int open_sink(mr_stage *self) {
    const options *given = self->options;
    state *at = self->state;
    mr_mqtt_link *link;
    at->server = given->server;
    at->server.home_assistant = prefix_of(given);
    at->sink.choices = (mr_post_choices){.template = at->server.template, .topic = at->server.topic,
                                         .picture = at->server.picture, .labels = at->server.home_assistant};
    int status = mr_post_writer_open(&at->sink.writer, (int)given->quality);
    if (status || !given->server.url)
        return status;
    status = mr_mqtt_link_create(&link, &at->server);
    return status ? status : mr_delivery_open(&at->sink.delivery, self, &mr_mqtt_service, link);
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with results, and pictures if they are sent"}, {0}};

static const char *const versions[] = {[MR_MQTT_5] = "5", [MR_MQTT_311] = "3.1.1", NULL};

#define SERVER(name) offsetof(options, server.name)
static const mr_option option_table[] = {
    {.name = "url", .kind = MR_OPTION_URI, .file = MR_FILE_SENT, .offset = SERVER(url), .required = true,
     .credentials = SERVER(login), .example = "mqtts://broker.example",
     .help = "the broker: mqtt://HOST:PORT, or mqtts:// for TLS; default ports 1883 and 8883. A user and a password in "
             "it are never shown"},
    {.name = "topic", .kind = MR_OPTION_STRING, .offset = SERVER(topic), .fallback = "millrace/{pipeline}/{source}",
     .help = "the topic of records, in which {pipeline}, {stage}, {source} and {class} (the best one, or none) are "
             "replaced; in values, characters that a level of a topic cannot have become %XX"},
    {.name = "template", .kind = MR_OPTION_STRING, .offset = SERVER(template),
     .example = "'{\"text\": \"{class} at {source}\"}'",
     .help = "the text of each message in place of the record, with the words that webhook has"},
    {.name = "retain", .kind = MR_OPTION_BOOL, .offset = SERVER(retain), .fallback = "false",
     .help = "the broker keeps each topic's last record for new subscribers"},
    {.name = "picture", .kind = MR_OPTION_BOOL, .offset = SERVER(picture), .fallback = "false",
     .help = "publish the picture too, as JPEG, to the record's topic and /picture; the broker keeps the last one"},
    {.name = "quality", .kind = MR_OPTION_INT, .offset = offsetof(options, quality), .fallback = "85", .min = 1,
     .max = 100, .help = "of the picture"},
    {.name = "state_topic", .kind = MR_OPTION_STRING, .offset = SERVER(state_topic),
     .fallback = "millrace/{pipeline}/{stage}/state",
     .help = "the topic of the stage's state, which the broker keeps: JSON whose state is online, ended or, if the "
             "connection breaks, offline, with counts of frames"},
    {.name = "home_assistant", .kind = MR_OPTION_STRING, .offset = offsetof(options, home_assistant),
     .example = "true",
     .help = "true, or the prefix of its discovery topics: sources appear in Home Assistant as devices with classes, "
             "counts, presence and pictures, and disappear if they are removed"},
    {.name = "user_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = SERVER(user_file),
     .help = "a file whose first line is the user; only its owner may read it"},
    {.name = "password_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = SERVER(password_file),
     .help = "a file whose first line is the password; only its owner may read it"},
    {.name = "ca_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = SERVER(ca_file),
     .help = "certificates (PEM) of those who may sign the broker's certificate; default: the system's"},
    {.name = "certificate_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = SERVER(certificate_file),
     .help = "this client's certificate (PEM), for brokers that ask for one; it needs a key_file"},
    {.name = "key_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = SERVER(key_file),
     .help = "the certificate's key (PEM), without a passphrase; only its owner may read it"},
    {.name = "version", .kind = MR_OPTION_ENUM, .offset = SERVER(version), .fallback = "5", .choices = versions,
     .help = "of MQTT. A broker can only say in 5 that it refuses a topic; with 3.1.1 such records count as delivered"},
    {.name = "timeout", .kind = MR_OPTION_DURATION, .offset = SERVER(timeout_ns), .fallback = "10s", .min = 1e8,
     .max = 3600e9, .neutral = true,
     .help = "how long the broker may take to connect, or to acknowledge the next message"},
    MR_DELIVERY_OPTIONS("500", "50ms"),
    MR_OPTIONS_END,
};

const mr_stage_type mr_mqtt_stage = {
    .name = "mqtt",
    .summary = "publishes records, and pictures, to an MQTT broker",
    .help = "A frame is delivered once the broker has acknowledged its messages (QoS 1). After a broken connection, "
            "those without acknowledgement are published again, so a subscriber can get a record twice: its value "
            "delivery is the same each time, also if the run is continued. A frame whose topic or size the broker "
            "refuses is dropped (refused).",
    .inputs = inputs,
    .options = option_table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .negotiate = negotiate,
    .open = open_sink,
    MR_POST_SINK_TYPE,
};
