#include "stages/deliver/mqtt_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "millrace/stage.h"
#include "stages/live/connection/tcp.h"

enum { SEND_BYTES = 32 * 1024, KEPT_BYTES = 4 << 20, LOOK_MS = 100, MESSAGE_BYTES = 512 };
/* More than this waits to be sent: messages that the broker publishes are not acknowledged. */
enum { MOST_WAITING = 4 << 20 };
static const int64_t NS_PER_S = INT64_C(1000000000);

struct mr_mqtt_client {
    mr_mqtt_client_params params;
    mr_tcp socket;
    mr_mqtt_limits limits;
    bool answered;              /* CONNACK has come */
    bool broke;
    int reason;
    uint16_t last_id;
    int64_t keep_alive_ns;
    int64_t sent_ns, pinged_ns; /* `pinged_ns`: 0: no ping waits for its answer */
    mr_mqtt_out out;
    size_t sent;                /* of `out` */
    size_t received;            /* in `in` */
    bool more;                  /* packets there were not read: they came with CONNACK */
    uint8_t in[5 + MR_MQTT_MOST_READ];
};

static int fail(const mr_mqtt_client *client, const char *why) {
    return mr_fail(MR_ERROR_AGAIN, "%s: %s", client->params.url, why);
}

static int fail_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for a connection");
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

/* Before CONNACK it need not be a broker. */
static int fail_protocol(mr_mqtt_client *client, const char *why) {
    client->broke = true;
    return client->answered ? fail(client, why)
                            : mr_fail(MR_ERROR_AGAIN, "%s: what answers there is no MQTT broker: %s",
                                      client->params.url, why);
}

/* The first packet must be a CONNACK. */
static int check_first(mr_mqtt_client *client) {
    enum { CONNACK = MR_MQTT_CONNACK << 4, TLS_ALERT = 0x15, TLS_HANDSHAKE = 0x16 };
    const uint8_t first = client->in[0];
    char why[MESSAGE_BYTES];
    if (client->answered || !client->received || first == CONNACK)
        return MR_OK;
    if (!client->params.secure && (first == TLS_ALERT || first == TLS_HANDSHAKE))
        return fail(client, "the port is one for TLS: write mqtts://");
    snprintf(why, sizeof why, "it begins with 0x%02x", first);
    return fail_protocol(client, why);
}

static int fail_lost(const mr_mqtt_client *client) {
    return fail(client, client->answered        ? "the connection is lost"
                        : client->params.secure ? "the connection is closed without an answer: is it a broker with TLS?"
                                                : "the connection is closed without an answer: is it a broker, and "
                                                  "without TLS?");
}

/* The message is that of the socket. With TLS 1.3 a broker says only now that it wants a certificate. */
static int fail_socket(const mr_mqtt_client *client) {
    char why[MESSAGE_BYTES];
    const bool asks = client->params.secure && !client->answered && !client->params.certificate_file;
    snprintf(why, sizeof why, "%s%s", mr_message(), asks ? ": the broker may ask for a certificate" : "");
    return fail(client, why);
}

static int take_connack(mr_mqtt_client *client, const mr_mqtt_packet *packet) {
    if (client->answered)
        return fail_protocol(client, "protocol error: a second CONNACK");
    client->answered = true;
    client->reason = packet->reason;
    client->limits = packet->limits;
    if (packet->limits.keep_alive_s > 0 && packet->limits.keep_alive_s * NS_PER_S < client->keep_alive_ns)
        client->keep_alive_ns = packet->limits.keep_alive_s * NS_PER_S;
    if (packet->reason)
        return fail(client, mr_mqtt_reason(packet->reason, client->params.connect.version));
    return packet->limits.quality < 1 ? fail(client, "the broker takes no messages with QoS 1") : MR_OK;
}

/* Messages are not read, but a broker waits for the answers. */
static int answer(mr_mqtt_client *client, const mr_mqtt_packet *packet) {
    const int type = packet->type == MR_MQTT_PUBREL ? MR_MQTT_PUBCOMP
                     : packet->quality == 2         ? MR_MQTT_PUBREC
                                                    : MR_MQTT_PUBACK;
    if (packet->type == MR_MQTT_PUBLISH && !packet->quality)
        return MR_OK;
    if (client->out.bytes > MOST_WAITING)
        return MR_OK;
    return mr_mqtt_write_answer(&client->out, type, packet->id) ? MR_OK : fail_memory();
}

static int take(mr_mqtt_client *client, const mr_mqtt_packet *packet) {
    if (packet->type == MR_MQTT_CONNACK)
        return take_connack(client, packet);
    switch (packet->type) {
    case MR_MQTT_PUBACK:
        client->params.acknowledged(client->params.context, packet->id, packet->reason);
        return MR_OK;
    case MR_MQTT_PINGRESP:
        client->pinged_ns = 0;
        return MR_OK;
    case MR_MQTT_DISCONNECT:
        client->reason = packet->reason >= MR_MQTT_FAILURE ? packet->reason : 0;
        return client->reason ? fail(client, mr_mqtt_reason(client->reason, MR_MQTT_5)) : fail_lost(client);
    default:
        return answer(client, packet);
    }
}

/* open returns with CONNACK, also if the broker ends the connection at once. */
static int take_all(mr_mqtt_client *client) {
    mr_mqtt_packet packet = {0};
    size_t at = 0, used;
    int status = check_first(client);
    if (status)
        return status;
    while (!status && packet.type != MR_MQTT_CONNACK &&
           !(status = mr_mqtt_read(&packet, &used, client->in + at, client->received - at,
                                   client->params.connect.version))) {
        at += used;
        status = take(client, &packet);
        if (status)
            return status;
    }
    memmove(client->in, client->in + at, client->received - at);
    client->received -= at;
    client->more = !status && client->received;
    if (status != MR_ERROR_PROTOCOL)
        return MR_OK;
    char why[MESSAGE_BYTES];
    snprintf(why, sizeof why, "%s", mr_message());
    return fail_protocol(client, why);
}

/* Once: a broker that never stops sending holds nothing up. */
static int receive(mr_mqtt_client *client) {
    size_t bytes;
    int status = mr_tcp_read(&client->socket, client->in + client->received, sizeof client->in - client->received,
                             &bytes);
    client->received += bytes;
    if (status == MR_ERROR_AGAIN)
        return MR_OK;
    if (status == MR_END)
        return fail_lost(client);
    return status ? fail_socket(client) : take_all(client);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* Large messages are rare, and their memory is not kept. The first packet has the login. */
static void forget_sent(mr_mqtt_client *client) {
    if (!client->answered)
        explicit_bzero(client->out.data, client->out.bytes);
    if (client->out.room > KEPT_BYTES) {
        mr_free(client->out.data);
        client->out = (mr_mqtt_out){0};
    }
    client->out.bytes = client->sent = 0;
}

/* A connection that a broker ends may still have its reason. */
static int flush(mr_mqtt_client *client) {
    size_t bytes;
    int status = MR_OK;
    while (!status && client->sent < client->out.bytes) {
        status = mr_tcp_write(&client->socket, client->out.data + client->sent, client->out.bytes - client->sent,
                              &bytes);
        client->sent += bytes;
        client->sent_ns = bytes ? mr_now_ns() : client->sent_ns;
    }
    if (client->out.bytes && client->sent == client->out.bytes)
        forget_sent(client);
    if (!status || status == MR_ERROR_AGAIN)
        return MR_OK;
    char why[MESSAGE_BYTES];
    snprintf(why, sizeof why, "%s", mr_message());
    status = receive(client);
    return status ? status : fail(client, why);
}

static int keep_alive(mr_mqtt_client *client) {
    const int64_t now_ns = mr_now_ns();
    if (client->pinged_ns)
        return now_ns < client->pinged_ns + client->params.timeout_ns ? MR_OK
                                                                      : fail(client, "the broker does not answer");
    if (!client->answered || now_ns < client->sent_ns + client->keep_alive_ns)
        return MR_OK;
    client->pinged_ns = now_ns;
    return mr_mqtt_write_empty(&client->out, MR_MQTT_PINGREQ) ? MR_OK : fail_memory();
}

int mr_mqtt_client_turn(mr_mqtt_client *client, int wait_ms) {
    const bool pending = client->more || mr_tcp_pending(&client->socket);
    struct pollfd one = {.fd = client->socket.fd,
                         .events = (short)(POLLIN | (client->out.bytes ? POLLOUT : 0))};
    int status = client->more ? take_all(client) : MR_OK;
    if (!status)
        status = keep_alive(client);
    if (!status && poll(&one, 1, pending ? 0 : wait_ms) < 0 && errno != EINTR)
        return fail(client, strerror(errno));
    if (!status && (pending || one.revents & (POLLIN | POLLERR | POLLHUP)))
        status = receive(client);
    return status ? status : flush(client);
}

int mr_mqtt_client_publish(mr_mqtt_client *client, uint16_t *id, const char *topic, const void *payload, size_t bytes,
                           bool retain) {
    client->last_id = client->last_id == UINT16_MAX ? 1 : client->last_id + 1;
    *id = client->last_id;
    if (client->sent) { /* what is sent makes room */
        memmove(client->out.data, client->out.data + client->sent, client->out.bytes - client->sent);
        client->out.bytes -= client->sent;
        client->sent = 0;
    }
    if (!mr_mqtt_write_publish(&client->out, client->params.connect.version, *id, topic, payload, bytes, retain))
        return fail_memory();
    return client->out.bytes < SEND_BYTES ? MR_OK : flush(client);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static mr_tcp_params tcp_params(const mr_mqtt_client_params *params) {
    return (mr_tcp_params){.host = params->host, .tls = params->secure, .ca_file = params->ca_file,
                           .certificate_file = params->certificate_file, .key_file = params->key_file,
                           .name = params->url, .wake = params->wake,
                           .until_ns = mr_now_ns() + params->timeout_ns};
}

int mr_mqtt_client_check(const mr_mqtt_client_params *params) {
    const mr_tcp_params tcp = tcp_params(params);
    return mr_tcp_check_files(&tcp);
}

static int is_woken(int wake) {
    struct pollfd one = {.fd = wake, .events = POLLIN};
    return poll(&one, 1, 0) > 0;
}

static int await_answer(mr_mqtt_client *client, int64_t until_ns) {
    int status = MR_OK;
    while (!status && !client->answered)
        status = is_woken(client->params.wake) ? MR_ERROR_CANCELLED
                 : mr_now_ns() > until_ns      ? fail(client, "the broker does not answer")
                                               : mr_mqtt_client_turn(client, LOOK_MS);
    return status;
}

/* A certificate or an address that is wrong now may be right later. */
static int connect_to(mr_mqtt_client *client) {
    mr_tcp_params tcp = tcp_params(&client->params);
    char port[8];
    snprintf(port, sizeof port, "%d", client->params.port);
    tcp.port = port;
    int status = mr_tcp_open(&client->socket, &tcp);
    if (status == MR_ERROR_IO || status == MR_ERROR_CONFIG)
        status = MR_ERROR_AGAIN;
    if (!status && !mr_mqtt_write_connect(&client->out, &client->params.connect))
        status = fail_memory();
    return status ? status : await_answer(client, tcp.until_ns);
}

int mr_mqtt_client_open(mr_mqtt_client **client, const mr_mqtt_client_params *params, int *reason) {
    mr_mqtt_client *made = mr_calloc(1, sizeof *made);
    *reason = 0;
    if (!made)
        return fail_memory();
    made->params = *params;
    made->socket.fd = -1;
    made->keep_alive_ns = params->connect.keep_alive_s * NS_PER_S;
    const int status = connect_to(made);
    *reason = made->reason;
    if (status)
        mr_mqtt_client_close(&made);
    else
        *client = made;
    return status;
}

const mr_mqtt_limits *mr_mqtt_client_limits(const mr_mqtt_client *client) {
    return &client->limits;
}

int mr_mqtt_client_reason(const mr_mqtt_client *client) {
    return client->reason;
}

bool mr_mqtt_client_broke(const mr_mqtt_client *client) {
    return client->broke;
}

void mr_mqtt_client_end(mr_mqtt_client *client, int64_t until_ns) {
    if (!mr_mqtt_write_empty(&client->out, MR_MQTT_DISCONNECT))
        return;
    while (client->out.bytes && mr_now_ns() < until_ns)
        if (mr_mqtt_client_turn(client, LOOK_MS))
            return;
}

void mr_mqtt_client_close(mr_mqtt_client **client) {
    mr_mqtt_client *gone = *client;
    if (!gone)
        return;
    mr_tcp_close(&gone->socket);
    if (gone->out.data) /* the login */
        explicit_bzero(gone->out.data, gone->out.room);
    mr_free(gone->out.data);
    mr_free(gone);
    *client = NULL;
}
