#include "stages/deliver/mqtt_link.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/grow.h"
#include "engine/base/json.h"
#include "engine/base/key_file.h"
#include "engine/base/memory.h"
#include "engine/base/url.h"
#include "stages/deliver/home_assistant.h"
#include "stages/deliver/mqtt_client.h"
#include "stages/deliver/topic.h"

enum { LOOK_MS = 100, KEEPALIVE_S = 30, SECRET_BYTES = 4096, PORT = 1883, TLS_PORT = 8883 };
/* Messages that are published before their acknowledgements are awaited, and their bytes. */
enum { MOST_OPEN = 500, MOST_OPEN_BYTES = 1 << 20 };
static const int64_t STATE_NS = INT64_C(10000000000), LOOK_NS = INT64_C(1000000000), END_NS = INT64_C(800000000);
/* Another client that has taken the client id would be thrown out, and come back, for ever. A connection is fresh for
 * so long, and so many that are closed while they are fresh are suspicious. */
static const int64_t TAKEN_NS = INT64_C(30000000000), FRESH_NS = INT64_C(20000000000);
enum { MOST_CLOSED = 3, MOST_STRIKES = 3, BREAKS_OFF = -1 };

/* A message that the broker has not acknowledged. */
typedef struct message {
    uint16_t id;
    bool open;
    const char *topic;
    mr_delivered *of; /* the record; NULL: none */
} message;

struct mr_mqtt_link {
    const mr_mqtt_params *params;
    char host[MR_URL_HOST];
    int port;
    bool secure;
    char user[SECRET_BYTES], password[SECRET_BYTES];
    char id[24];                        /* the client id; "" before the first connection */
    char topic[MR_POST_MOST_TOPIC];     /* of the state */
    mr_home *home;                      /* NULL: no discovery */
    const mr_delivery *delivery;
    mr_mqtt_client *client;             /* NULL: not connected */
    bool taken;
    int closed;                         /* how often the broker has closed a fresh connection without a reason */
    bool known;                         /* it was connected before */
    bool forgets;                       /* the broker keeps no messages for new subscribers */
    int reason;                         /* of the broker: for the connection, for its end, or for a message */
    message open[MOST_OPEN];
    size_t count, left, bytes, acked;   /* `acked`: all before it are */
    bool careful;                       /* one message at a time: one of the batch may break the connection */
    const mr_delivered *suspect;        /* the record whose message was open when it broke the last time; NULL: none */
    char suspected[MR_POST_MOST_TOPIC]; /* the topic of that message */
    int strikes;                        /* how often it did */
    char **left_out;                    /* topics without records at which the broker ends the connection, or NULL */
    size_t left_out_count, left_out_room;
    int refusal;                        /* the reason for the last message that was refused; 0: none */
    bool refused_record;
    char refused[256];                  /* its topic */
    int64_t since_ns, acked_ns, state_ns, look_ns; /* `since_ns`: the start of the connection, since 1970 */
    uint64_t shown_frames, shown_dropped;
};

/* ---- checks and secrets ------------------------------------------------------------------------------------------ */

static int split(const mr_mqtt_params *params, char host[MR_URL_HOST], int *port, bool *secure) {
    mr_url url;
    char digits[8] = "";
    if (!mr_url_split_strictly(params->url, &url))
        return mr_fail(MR_ERROR_CONFIG, "\"%s\" must begin with mqtt:// or mqtts://", params->url);
    *secure = mr_url_has_scheme(params->url, "mqtts");
    if (!*secure && !mr_url_has_scheme(params->url, "mqtt"))
        return mr_fail(MR_ERROR_CONFIG, "\"%s\" must begin with mqtt:// or mqtts://", params->url);
    if (!url.host.bytes || !mr_url_decode(url.host, host, MR_URL_HOST))
        return mr_fail(MR_ERROR_CONFIG, "\"%s\" names no host", params->url);
    if (url.rest.bytes && strcmp(url.rest.text, "/") != 0)
        return mr_fail(MR_ERROR_CONFIG, "\"%s\" must end after the port: topics have an option", params->url);
    *port = *secure ? TLS_PORT : PORT;
    if (!url.port.bytes)
        return MR_OK;
    *port = mr_url_decode(url.port, digits, sizeof digits) && strspn(digits, "0123456789") == strlen(digits)
                ? atoi(digits) : 0;
    return *port > 0 && *port < 65536 ? MR_OK : mr_fail(MR_ERROR_CONFIG, "\"%s\" has no port from 1 to 65535",
                                                        params->url);
}

int mr_mqtt_link_check(const mr_mqtt_params *params) {
    char host[MR_URL_HOST];
    int port;
    bool secure;
    int status = split(params, host, &port, &secure);
    if (!status && !secure && (params->ca_file || params->certificate_file || params->key_file))
        status = mr_fail(MR_ERROR_CONFIG, "\"%s\" is not encrypted, and uses no certificates: write mqtts://",
                         params->url);
    return status;
}

static int read_login(mr_mqtt_link *at) {
    const mr_mqtt_params *given = at->params;
    int status = MR_OK;
    if (given->user_file)
        status = mr_secret_file_read(given->user_file, "a user", at->user, sizeof at->user);
    else
        snprintf(at->user, sizeof at->user, "%s", given->login.user ? given->login.user : "");
    if (!status && given->password_file)
        return mr_secret_file_read(given->password_file, "a password", at->password, sizeof at->password);
    snprintf(at->password, sizeof at->password, "%s", given->login.password ? given->login.password : "");
    return status;
}

static int check_key(const char *path) {
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (!path)
        return MR_OK;
    if (fd < 0)
        return mr_file_fail("read", path);
    int status = mr_secret_file_check(fd, path, "a key");
    close(fd);
    return status;
}

/* ---- acknowledgements -------------------------------------------------------------------------------------------- */

static bool is_refusal(int reason) {
    return reason == MR_MQTT_NOT_AUTHORIZED || reason == MR_MQTT_BAD_TOPIC || reason == MR_MQTT_TOO_LARGE ||
           reason == MR_MQTT_BAD_PAYLOAD;
}

static void note_refused(mr_mqtt_link *at, const message *one, int reason) {
    at->refusal = reason;
    at->refused_record = one->of != NULL;
    snprintf(at->refused, sizeof at->refused, "%s", one->topic);
    if (one->of)
        one->of->refused = true;
}

/* A message is acknowledged. Other reasons than a refusal may pass, such as a quota: the connection is made anew. */
static void on_acknowledged(void *context, uint16_t id, int reason) {
    mr_mqtt_link *at = context;
    for (size_t i = at->acked; i < at->count; i++) {
        message *one = &at->open[i];
        if (!one->open || one->id != id)
            continue;
        one->open = false;
        at->left--;
        at->acked_ns = mr_now_ns();
        if (is_refusal(reason)) {
            note_refused(at, one, reason);
        } else if (reason >= MR_MQTT_FAILURE) {
            at->reason = reason;
        }
        break;
    }
    while (at->acked < at->count && !at->open[at->acked].open)
        at->acked++;
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static int fail_with(const mr_mqtt_link *at, int status, const char *why) {
    return mr_fail(status, "%s: %s", at->params->url, why);
}

static bool is_left_out(const mr_mqtt_link *at, const char *topic) {
    bool found = false;
    for (size_t i = 0; i < at->left_out_count && !found; i++)
        found = strcmp(at->left_out[i], topic) == 0;
    return found;
}

/* Without memory it is tried once more. */
static void leave_out(mr_mqtt_link *at, const char *topic) {
    if (!mr_grow((void **)&at->left_out, at->left_out_count, &at->left_out_room, sizeof *at->left_out) ||
        !(at->left_out[at->left_out_count] = mr_strdup(topic)))
        return;
    at->left_out_count++;
    mr_stage_warn(mr_delivery_stage(at->delivery), "%s: the broker ends the connection at each message for %s: no more "
                  "are published there; allow this client to publish there", at->params->url, topic);
}

/* Brokers may end the connection for a message that they do not take, and some do not say why. It must not be tried for
 * ever: all is published again one by one. If one message breaks the connection again and again, its record is refused;
 * without a record, its topic is left out. Returns whether a single message is to blame. */
static bool suspect(mr_mqtt_link *at) {
    const message *one = &at->open[0];
    const bool refuses = is_refusal(at->reason), single = at->careful;
    if (!at->left || (at->reason && !refuses))
        return false;
    at->careful = true;
    if (!single)
        return false;
    const bool again = one->of == at->suspect && strcmp(one->topic, at->suspected) == 0;
    at->strikes = refuses ? MOST_STRIKES : again ? at->strikes + 1 : 1;
    at->suspect = one->of;
    snprintf(at->suspected, sizeof at->suspected, "%s", one->topic);
    if (!one->of && at->strikes >= MOST_STRIKES)
        leave_out(at, one->topic);
    return true;
}

/* Topics are tried again after a connection that was well for a while: the broker may now allow them. */
static void forget_left_out(mr_mqtt_link *at) {
    for (size_t i = 0; i < at->left_out_count; i++)
        mr_free(at->left_out[i]);
    at->left_out_count = 0;
}

/* A connection that was there is lost; mr_message says how. With MQTT 3.1.1, and often with 5 too, brokers do not say
 * that another client has taken the client id: they close one connection after the other. */
static int fail_lost(mr_mqtt_link *at) {
    char how[512];
    const bool refused = at->reason, broke = mr_mqtt_client_broke(at->client);
    snprintf(how, sizeof how, "%s", mr_message());
    at->reason = refused ? at->reason : mr_mqtt_client_reason(at->client);
    const bool fresh = mr_clock_date_ns() - at->since_ns < FRESH_NS, by_message = suspect(at);
    if (!at->reason && !by_message)
        at->closed = !broke && fresh ? at->closed + 1 : 0;
    if (!fresh)
        forget_left_out(at);
    at->taken = at->reason == MR_MQTT_TAKEN_OVER || at->closed >= MOST_CLOSED;
    if (at->taken)
        return mr_fail(MR_ERROR_AGAIN, "%s: %s the client id %s", at->params->url,
                       at->reason ? "another client has taken"
                                  : "every connection is closed soon: another client may use", at->id);
    if (at->reason)
        return mr_fail(MR_ERROR_AGAIN, "%s: the broker ends the connection: %s", at->params->url,
                       mr_mqtt_reason(at->reason, MR_MQTT_5));
    return mr_fail(MR_ERROR_AGAIN, "%s", how);
}

/* The broker has refused the connection. A login that was right once may be right again. */
static int fail_answer(const mr_mqtt_link *at) {
    enum { OLD_BAD_VERSION = 1, OLD_BAD_LOGIN = 4, OLD_NOT_AUTHORIZED = 5 };
    const int reason = at->reason;
    const bool old = at->params->version == MR_MQTT_311;
    const bool login = old ? reason == OLD_BAD_LOGIN || reason == OLD_NOT_AUTHORIZED
                           : reason == MR_MQTT_BAD_LOGIN || reason == MR_MQTT_NOT_AUTHORIZED ||
                                 reason == MR_MQTT_BANNED || reason == MR_MQTT_BAD_METHOD;
    const bool protocol = reason == (old ? OLD_BAD_VERSION : MR_MQTT_OLD_VERSION);
    const int status = at->known ? MR_ERROR_AGAIN : login ? MR_ERROR_PERMISSION
                       : protocol ? MR_ERROR_UNAVAILABLE : MR_ERROR_AGAIN;
    return mr_fail(status, "%s: the broker refuses the %s: %s%s", at->params->url, login ? "login" : "connection",
                   mr_mqtt_reason(reason, at->params->version), protocol && !old ? "; write version: 3.1.1" : "");
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Sends and receives. If there is nothing to do and `wait`, it waits a short time. */
static int turn(mr_mqtt_link *at, bool wait) {
    const int status = mr_mqtt_client_turn(at->client, wait ? LOOK_MS : 0);
    return status == MR_ERROR_AGAIN || (!status && at->reason) ? fail_lost(at) : status;
}

static int fail_stopped(const mr_mqtt_link *at) {
    return mr_fail(MR_ERROR_CANCELLED, "stopped while %s did not answer", at->params->url);
}

static void explain_refusal(mr_mqtt_link *at) {
    if (!at->refusal)
        return;
    mr_fail(MR_ERROR_PROTOCOL, "%s: the broker refuses a message for %s: %s", at->params->url, at->refused,
            at->refusal == MR_MQTT_TOO_LARGE ? "it is too large"
            : at->refusal == BREAKS_OFF      ? "it ends the connection each time"
                                             : mr_mqtt_reason(at->refusal, MR_MQTT_5));
    if (!at->refused_record)
        mr_stage_warn(mr_delivery_stage(at->delivery), "%s", mr_message());
}

/* Waits until at most `most` messages are not acknowledged. `until_ns`: although the delivery stops, but no longer; 0:
 * as long as acknowledgements come. */
static int await(mr_mqtt_link *at, size_t most, int64_t until_ns) {
    int status = MR_OK;
    at->acked_ns = mr_now_ns();
    while (at->left > most && !status) {
        const int64_t now_ns = mr_now_ns();
        if (!until_ns && mr_delivery_stops(at->delivery))
            return fail_stopped(at);
        if (now_ns > (until_ns ? until_ns : at->acked_ns + at->params->timeout_ns))
            return fail_with(at, MR_ERROR_AGAIN, "the broker does not acknowledge messages");
        status = turn(at, true);
    }
    return status;
}

static int settle(mr_mqtt_link *at, int64_t until_ns) {
    const int status = await(at, 0, until_ns);
    at->count = at->left = at->acked = at->bytes = 0;
    return status;
}

/* ---- publishing -------------------------------------------------------------------------------------------------- */

/* Why a message cannot be published at all; 0: it can. */
static int unfit(const mr_mqtt_link *at, const char *topic, size_t bytes) {
    return !mr_mqtt_is_topic(topic) ? MR_MQTT_BAD_TOPIC
           : mr_mqtt_publish_bytes(at->params->version, topic, bytes) > mr_mqtt_client_limits(at->client)->bytes
               ? MR_MQTT_TOO_LARGE : 0;
}

/* `what->topic` is the one that messages name, and lives until the next settle. */
static int publish_to(mr_mqtt_link *at, const char *topic, const message *what, const char *payload, size_t bytes,
                      bool retain) {
    const size_t most = at->careful ? 1 : MOST_OPEN, granted = (size_t)mr_mqtt_client_limits(at->client)->open;
    const int why = unfit(at, topic, bytes);
    if (why)
        note_refused(at, what, why);
    if (why || (!what->of && is_left_out(at, topic)))
        return MR_OK;
    int status = at->count >= most || (at->count && at->bytes + bytes > MOST_OPEN_BYTES) ? settle(at, 0) : MR_OK;
    if (!status)
        status = await(at, granted - 1, 0);
    if (status)
        return status;
    message *one = &at->open[at->count++];
    *one = *what;
    one->open = true;
    at->left++;
    at->bytes += bytes;
    status = mr_mqtt_client_publish(at->client, &one->id, topic, payload, bytes, retain && !at->forgets);
    return status == MR_ERROR_AGAIN ? fail_lost(at) : status;
}

static int publish(mr_mqtt_link *at, const message *what, const char *payload, size_t bytes, bool retain) {
    return publish_to(at, what->topic, what, payload, bytes, retain);
}

static int publish_entity(void *context, const char *topic, const char *payload, size_t bytes) {
    mr_mqtt_link *at = context;
    return publish(at, &(message){.topic = topic}, payload, bytes, true);
}

static int settle_entities(void *context) {
    return settle(context, 0);
}

static char *make_state(mr_mqtt_link *at, const char *state, size_t *bytes) {
    const mr_stage *self = mr_delivery_stage(at->delivery);
    const mr_service_report report = mr_delivery_report(at->delivery);
    char date[MR_DATE_TEXT];
    yajl_gen json = mr_json_create(false);
    if (!json)
        return NULL;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "state", state);
        mr_json_text(json, "pipeline", mr_stage_pipeline(self));
        mr_json_text(json, "stage", self->id);
        mr_json_text(json, "run", mr_stage_run(self));
        mr_json_text(json, "since", mr_date_text(date, at->since_ns));
        mr_json_integer(json, "delivered", (int64_t)report.frames);
        mr_json_integer(json, "dropped", (int64_t)report.dropped);
        mr_json_integer(json, "waiting", (int64_t)report.waiting);
    }
    char *text = mr_json_finish_text(json, bytes);
    *bytes -= text ? 1 : 0; /* the newline */
    at->shown_frames = report.frames;
    at->shown_dropped = report.dropped;
    at->state_ns = mr_now_ns();
    return text;
}

static int publish_state(mr_mqtt_link *at, const char *state) {
    size_t bytes;
    char *text = make_state(at, state, &bytes);
    int status = text ? publish(at, &(message){.topic = at->topic}, text, bytes, true)
                      : mr_fail(MR_ERROR_MEMORY, "no memory for a message");
    free(text);
    return status;
}

/* Shows new counts now and then, and takes away the entities of removed sources. */
static int refresh(mr_mqtt_link *at) {
    const int64_t now_ns = mr_now_ns();
    int status = MR_OK;
    if (now_ns < at->look_ns)
        return MR_OK;
    at->look_ns = now_ns + LOOK_NS;
    const mr_service_report report = mr_delivery_report(at->delivery);
    if (now_ns >= at->state_ns + STATE_NS && (report.frames != at->shown_frames || report.dropped != at->shown_dropped))
        status = publish_state(at, "online");
    if (!status && at->home)
        status = mr_home_forget(at->home, mr_delivery_stage(at->delivery));
    return status ? status : settle(at, 0);
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static void disconnect(void *service) {
    mr_mqtt_link *at = service;
    mr_mqtt_client_close(&at->client);
    at->count = at->left = at->acked = at->bytes = 0;
}

/* What depends on the run, which is only known now. */
static int prepare(mr_mqtt_link *at) {
    const mr_stage *self = mr_delivery_stage(at->delivery);
    const char *run = mr_delivery_run(self);
    char whole[512];
    const mr_topic_values values = {.pipeline = mr_stage_pipeline(self), .stage = self->id, .source = ""};
    if (!run)
        return MR_ERROR_CONFIG;
    snprintf(whole, sizeof whole, "%s/%s", run, self->id);
    snprintf(at->id, sizeof at->id, "millrace-%014llx", (unsigned long long)(XXH64(whole, strlen(whole), 0) >> 8));
    mr_topic_make(at->topic, sizeof at->topic, at->params->state_topic, &values);
    const mr_home_params home = {.prefix = at->params->home_assistant, .state_topic = at->topic,
                                 .pipeline = values.pipeline, .picture = at->params->picture,
                                 .publish = publish_entity, .settle = settle_entities, .context = at};
    return home.prefix ? mr_home_create(&at->home, &home) : MR_OK;
}

static mr_mqtt_client_params client_params(mr_mqtt_link *at) {
    const mr_mqtt_params *given = at->params;
    return (mr_mqtt_client_params){
        .url = given->url, .host = at->host, .port = at->port, .secure = at->secure, .ca_file = given->ca_file,
        .certificate_file = given->certificate_file, .key_file = given->key_file, .timeout_ns = given->timeout_ns,
        .wake = at->delivery ? mr_delivery_wake(at->delivery) : -1, .acknowledged = on_acknowledged, .context = at};
}

static int dial(mr_mqtt_link *at) {
    size_t bytes;
    disconnect(at);
    char *will = make_state(at, "offline", &bytes);
    mr_mqtt_client_params params = client_params(at);
    params.connect = (mr_mqtt_connect){
        .id = at->id, .user = *at->user ? at->user : NULL, .password = *at->password ? at->password : NULL,
        .will_topic = at->topic, .will = will, .will_retain = !at->forgets, .keep_alive_s = KEEPALIVE_S,
        .version = at->params->version};
    at->taken = false;
    int status = will ? mr_mqtt_client_open(&at->client, &params, &at->reason)
                      : mr_fail(MR_ERROR_MEMORY, "no memory for a message");
    free(will);
    if (status && !at->reason)
        at->closed = 0; /* nobody else is connected, either */
    return status == MR_ERROR_CANCELLED ? fail_stopped(at) : at->reason ? fail_answer(at) : status;
}

static int connect_to(void *service, const mr_delivery *delivery) {
    mr_mqtt_link *at = service;
    at->delivery = delivery;
    int status = *at->id ? MR_OK : prepare(at);
    if (!status)
        status = dial(at);
    if (status == MR_ERROR_AGAIN && at->reason == MR_MQTT_NO_RETAIN && !at->forgets) {
        mr_stage_warn(mr_delivery_stage(delivery), "%s keeps no messages: new subscribers see no state",
                      at->params->url);
        at->forgets = true;
        status = dial(at);
    }
    if (status)
        return status;
    at->known = true;
    at->since_ns = mr_clock_date_ns();
    at->refusal = 0;
    status = publish_state(at, "online");
    if (!status && at->home)
        status = mr_home_repeat(at->home);
    if (!status)
        status = settle(at, 0);
    explain_refusal(at);
    return status;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

static int publish_post(mr_mqtt_link *at, const mr_batch *batch, size_t index) {
    const mr_post post = mr_post_at(batch, index);
    mr_delivered *of = &batch->items[index];
    char topic[MR_POST_MOST_TOPIC + 16];
    of->refused = false;
    if (at->suspect == of && at->strikes >= MOST_STRIKES) {
        note_refused(at, &(message){.topic = post.topic, .of = of}, BREAKS_OFF);
        return MR_OK;
    }
    int status = at->home ? mr_home_note(at->home, mr_delivery_stage(at->delivery), of->source, &post) : MR_OK;
    if (!status)
        status = publish(at, &(message){.topic = post.topic, .of = of}, post.text, post.head.text_bytes,
                         at->params->retain);
    if (status || !post.head.picture_bytes)
        return status;
    snprintf(topic, sizeof topic, "%s/picture", post.topic);
    return publish_to(at, topic, &(message){.topic = post.topic, .of = of}, post.picture, post.head.picture_bytes,
                      true);
}

static int send_batch(void *service, const mr_delivery *delivery, const mr_batch *batch) {
    mr_mqtt_link *at = service;
    int status = MR_OK;
    at->refusal = 0;
    for (size_t i = 0; i < batch->count && !status; i++)
        status = publish_post(at, batch, i);
    if (!status)
        status = settle(at, 0);
    if (!status)
        status = refresh(at);
    if (status)
        return status;
    at->careful = false;
    at->suspect = NULL;
    at->strikes = 0;
    explain_refusal(at);
    return MR_OK;
}

static int idle(void *service, const mr_delivery *delivery) {
    mr_mqtt_link *at = service;
    at->refusal = 0;
    int status = turn(at, false);
    if (!status)
        status = refresh(at);
    explain_refusal(at);
    return status;
}

/* Without this the broker would publish the last will. */
static void end(void *service, const mr_delivery *delivery) {
    mr_mqtt_link *at = service;
    const int64_t until_ns = mr_now_ns() + END_NS;
    int status = publish_state(at, "ended");
    if (!status)
        status = settle(at, until_ns);
    if (!status)
        mr_mqtt_client_end(at->client, until_ns);
}

/* If the broker says nothing, it may be a bad connection: the pauses begin short. */
static int64_t pause_of(void *service) {
    const mr_mqtt_link *at = service;
    const int more = at->closed - MOST_CLOSED;
    if (!at->taken)
        return 0;
    return at->reason || more > 4 ? TAKEN_NS : INT64_C(1000000000) << (more < 0 ? 0 : more);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void destroy(void *service) {
    mr_mqtt_link *gone = service;
    mr_home_destroy(&gone->home);
    forget_left_out(gone);
    mr_free(gone->left_out);
    explicit_bzero(gone->password, sizeof gone->password);
    mr_free(gone);
}

int mr_mqtt_link_create(mr_mqtt_link **link, const mr_mqtt_params *params) {
    mr_mqtt_link *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a connection");
    made->params = params;
    int status = split(params, made->host, &made->port, &made->secure);
    if (!status)
        status = read_login(made);
    if (!status)
        status = check_key(params->key_file);
    if (!status) {
        const mr_mqtt_client_params client = client_params(made);
        status = mr_mqtt_client_check(&client);
    }
    if (status)
        destroy(made);
    else
        *link = made;
    return status;
}

const mr_service_type mr_mqtt_service = {
    .connect = connect_to, .send = send_batch, .idle = idle, .end = end, .disconnect = disconnect, .destroy = destroy,
    .pause = pause_of};
