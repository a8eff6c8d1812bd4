#include "stages/deliver/mqtt_packet.h"

#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/utf8.h"
#include "millrace/status.h"

/* ---- fields ------------------------------------------------------------------------------------------------------ */

/* The rest of a packet. `short_of`: more was asked for than there is. */
typedef struct fields {
    const uint8_t *at;
    size_t left;
    bool short_of;
} fields;

static const uint8_t *take(fields *from, size_t bytes) {
    const uint8_t *at = from->at;
    if (from->short_of || bytes > from->left) {
        from->short_of = true;
        return NULL;
    }
    from->at += bytes;
    from->left -= bytes;
    return at;
}

static uint32_t take_number(fields *from, size_t bytes) {
    const uint8_t *at = take(from, bytes);
    uint32_t number = 0;
    for (size_t i = 0; at && i < bytes; i++)
        number = number << 8 | at[i];
    return number;
}

/* A number in one to four bytes, of seven bits each. */
static uint32_t take_variable(fields *from) {
    uint32_t number = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t byte = take_number(from, 1);
        number |= (byte & 0x7f) << (7 * i);
        if (byte < 0x80)
            return number;
    }
    from->short_of = true;
    return 0;
}

static void skip_text(fields *from) {
    take(from, take_number(from, 2));
}

/* ---- properties -------------------------------------------------------------------------------------------------- */

enum { BYTE = 1, SHORT = 2, LONG = 4, VARIABLE, TEXT, PAIR };
enum { RECEIVE_MAXIMUM = 0x21, MAXIMUM_QOS = 0x24, RETAIN_AVAILABLE = 0x25, USER_PROPERTY = 0x26, MAXIMUM_PACKET = 0x27,
       SERVER_KEEP_ALIVE = 0x13, MOST_PROPERTIES = 0x2b };

#define IN(type) (1u << MR_MQTT_##type)
#define ANSWERS (IN(PUBACK) | IN(PUBREL))

/* Those that a broker may send, by number: the form, and the packets that may have it. */
static const struct property {
    uint8_t form;
    uint16_t in;
} properties[MOST_PROPERTIES] = {
    [0x01] = {BYTE, IN(PUBLISH)},
    [0x02] = {LONG, IN(PUBLISH)},
    [0x03] = {TEXT, IN(PUBLISH)},
    [0x08] = {TEXT, IN(PUBLISH)},
    [0x09] = {TEXT, IN(PUBLISH)},
    [0x0b] = {VARIABLE, IN(PUBLISH)},
    [0x11] = {LONG, IN(CONNACK)},
    [0x12] = {TEXT, IN(CONNACK)},
    [SERVER_KEEP_ALIVE] = {SHORT, IN(CONNACK)},
    [0x15] = {TEXT, IN(CONNACK)},
    [0x16] = {TEXT, IN(CONNACK)},
    [0x1a] = {TEXT, IN(CONNACK)},
    [0x1c] = {TEXT, IN(CONNACK) | IN(DISCONNECT)},
    [0x1f] = {TEXT, IN(CONNACK) | ANSWERS | IN(DISCONNECT)},
    [RECEIVE_MAXIMUM] = {SHORT, IN(CONNACK)},
    [0x22] = {SHORT, IN(CONNACK)},
    [0x23] = {SHORT, IN(PUBLISH)},
    [MAXIMUM_QOS] = {BYTE, IN(CONNACK)},
    [RETAIN_AVAILABLE] = {BYTE, IN(CONNACK)},
    [USER_PROPERTY] = {PAIR, IN(CONNACK) | IN(PUBLISH) | ANSWERS | IN(DISCONNECT)},
    [MAXIMUM_PACKET] = {LONG, IN(CONNACK)},
    [0x28] = {BYTE, IN(CONNACK)},
    [0x29] = {BYTE, IN(CONNACK)},
    [0x2a] = {BYTE, IN(CONNACK)},
};

/* Keeps the client's limits. False: the standard forbids that value. */
static bool keep(mr_mqtt_limits *limits, uint32_t property, uint32_t value) {
    if (property == RECEIVE_MAXIMUM)
        limits->open = (int)value;
    else if (property == MAXIMUM_PACKET)
        limits->bytes = value;
    else if (property == MAXIMUM_QOS)
        limits->quality = (int)value;
    else if (property == RETAIN_AVAILABLE)
        limits->retains = value;
    else if (property == SERVER_KEEP_ALIVE)
        limits->keep_alive_s = (int)value;
    if (property == RECEIVE_MAXIMUM || property == MAXIMUM_PACKET)
        return value > 0;
    return (property != MAXIMUM_QOS && property != RETAIN_AVAILABLE) || value <= 1;
}

/* False: malformed. */
static bool read_properties(mr_mqtt_packet *packet, fields *from) {
    const size_t bytes = take_variable(from);
    fields list = {.at = take(from, bytes), .left = bytes};
    uint64_t seen = 0;
    while (!from->short_of && list.left) {
        const uint32_t number = take_variable(&list);
        if (number >= MOST_PROPERTIES || !(properties[number].in >> packet->type & 1) ||
            (number != USER_PROPERTY && seen >> number & 1))
            return false;
        seen |= UINT64_C(1) << number;
        const int form = properties[number].form;
        if (form <= LONG && !keep(&packet->limits, number, take_number(&list, (size_t)form)))
            return false;
        if (form == VARIABLE)
            take_variable(&list);
        if (form == TEXT || form == PAIR)
            skip_text(&list);
        if (form == PAIR)
            skip_text(&list);
        if (list.short_of)
            return false;
    }
    return !from->short_of;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A broker that knows only MQTT 3.1.1 refuses a client of MQTT 5 in its own words, without properties. False: those are
 * not any. */
static bool take_old_reason(mr_mqtt_packet *packet) {
    static const int known[] = {0, MR_MQTT_OLD_VERSION, MR_MQTT_BAD_ID, MR_MQTT_NO_SERVICE, MR_MQTT_BAD_LOGIN,
                                MR_MQTT_NOT_AUTHORIZED};
    const size_t old = (size_t)packet->reason;
    packet->reason = old < sizeof known / sizeof *known ? known[old] : 0;
    return packet->reason;
}

static bool read_connack(mr_mqtt_packet *packet, fields *from, int version) {
    const uint32_t flags = take_number(from, 1);
    packet->reason = (int)take_number(from, 1);
    packet->limits = (mr_mqtt_limits){.open = UINT16_MAX, .bytes = MR_MQTT_MOST_WRITTEN, .quality = 1, .retains = true,
                                      .keep_alive_s = -1};
    if (version == MR_MQTT_5 && !from->left)
        return !flags && take_old_reason(packet);
    return flags <= 1 && (version == MR_MQTT_311 || read_properties(packet, from));
}

/* Without a reason, and without properties, the packet may end earlier. */
static bool read_answer(mr_mqtt_packet *packet, fields *from, int version) {
    packet->id = (uint16_t)take_number(from, 2);
    if (version == MR_MQTT_5 && from->left)
        packet->reason = (int)take_number(from, 1);
    return packet->id && (!from->left || (version == MR_MQTT_5 && read_properties(packet, from)));
}

static bool read_disconnect(mr_mqtt_packet *packet, fields *from, int version) {
    if (from->left)
        packet->reason = (int)take_number(from, 1);
    return version == MR_MQTT_5 && (!from->left || read_properties(packet, from));
}

/* A broker may be set up to subscribe its clients itself. */
static bool read_publish(mr_mqtt_packet *packet, fields *from, int version) {
    skip_text(from);
    if (packet->quality)
        packet->id = (uint16_t)take_number(from, 2);
    return (packet->id || !packet->quality) && (version == MR_MQTT_311 || read_properties(packet, from)) &&
           take(from, from->left);
}

static bool read_body(mr_mqtt_packet *packet, fields *from, int version) {
    switch (packet->type) {
    case MR_MQTT_CONNACK:
        return read_connack(packet, from, version);
    case MR_MQTT_PUBLISH:
        return read_publish(packet, from, version);
    case MR_MQTT_PUBACK:
    case MR_MQTT_PUBREL:
        return read_answer(packet, from, version);
    case MR_MQTT_DISCONNECT:
        return read_disconnect(packet, from, version);
    default: /* PINGRESP */
        return true;
    }
}

/* Whether a packet of a broker can begin with that byte. */
static bool may_come(int type, int flags) {
    if (type == MR_MQTT_PUBLISH)
        return (flags >> 1 & 3) < 3;
    if (type == MR_MQTT_PUBREL)
        return flags == 2;
    return !flags && (type == MR_MQTT_CONNACK || type == MR_MQTT_PUBACK || type == MR_MQTT_PINGRESP ||
                      type == MR_MQTT_DISCONNECT);
}

int mr_mqtt_read(mr_mqtt_packet *packet, size_t *used, const uint8_t *data, size_t bytes, int version) {
    if (!bytes)
        return MR_ERROR_AGAIN;
    fields from = {.at = data + 1, .left = bytes - 1};
    *packet = (mr_mqtt_packet){.type = data[0] >> 4, .quality = data[0] >> 1 & 3};
    if (!may_come(packet->type, data[0] & 15))
        return mr_fail(MR_ERROR_PROTOCOL, "protocol error: a packet that begins with 0x%02x", data[0]);
    const size_t length = take_variable(&from);
    if (from.short_of)
        return bytes < 5 ? MR_ERROR_AGAIN : mr_fail(MR_ERROR_PROTOCOL, "protocol error: a packet without a length");
    if (length > MR_MQTT_MOST_READ)
        return mr_fail(MR_ERROR_PROTOCOL, "protocol error: a packet of %zu bytes", length);
    if (length > from.left)
        return MR_ERROR_AGAIN;
    from.left = length;
    if (!read_body(packet, &from, version) || from.short_of || from.left)
        return mr_fail(MR_ERROR_PROTOCOL, "protocol error: a malformed packet of type %d", packet->type);
    *used = (size_t)(from.at - data);
    return MR_OK;
}

/* ---- reasons ----------------------------------------------------------------------------------------------------- */

const char *mr_mqtt_reason(int reason, int version) {
    static const char *const old[] = {"Connection accepted", "Unacceptable protocol version", "Identifier rejected",
                                      "Server unavailable", "Bad user name or password", "Not authorized"};
    static const char *const words[] = {
        [0x00] = "Unspecified error", "Malformed packet", "Protocol error", "Implementation specific error",
        "Unsupported protocol version", "Client identifier not valid", "Bad user name or password", "Not authorized",
        "Server unavailable", "Server busy", "Banned", "Server shutting down", "Bad authentication method",
        "Keep alive timeout", "Session taken over", "Topic filter invalid", "Topic name invalid",
        "Packet identifier in use", "Packet identifier not found", "Receive maximum exceeded", "Topic alias invalid",
        "Packet too large", "Message rate too high", "Quota exceeded", "Administrative action",
        "Payload format invalid", "Retain not supported", "QoS not supported", "Use another server", "Server moved",
        "Shared subscriptions not supported", "Connection rate exceeded", "Maximum connect time",
        "Subscription identifiers not supported", "Wildcard subscriptions not supported"};
    const size_t number = (size_t)reason;
    if (version == MR_MQTT_311)
        return number < sizeof old / sizeof *old ? old[number] : "Unknown reason";
    return number >= MR_MQTT_FAILURE && number - MR_MQTT_FAILURE < sizeof words / sizeof *words
               ? words[number - MR_MQTT_FAILURE] : "Unknown reason";
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static uint8_t *put(uint8_t *to, const void *data, size_t bytes) {
    memcpy(to, data, bytes);
    return to + bytes;
}

static uint8_t *put_short(uint8_t *to, size_t number) {
    *to++ = (uint8_t)(number >> 8);
    *to++ = (uint8_t)number;
    return to;
}

static uint8_t *put_text(uint8_t *to, const char *text) {
    const size_t bytes = strlen(text);
    return put(put_short(to, bytes), text, bytes);
}

static size_t variable_bytes(size_t number) {
    return number < 0x80 ? 1 : number < 0x4000 ? 2 : number < 0x200000 ? 3 : 4;
}

/* Makes room for a packet whose rest has `length` bytes, and writes the beginning. Returns where the rest goes; NULL:
 * no memory. */
static uint8_t *begin(mr_mqtt_out *out, int first, size_t length) {
    const size_t bytes = 1 + variable_bytes(length) + length;
    if (!mr_grow_bytes((void **)&out->data, &out->room, out->bytes + bytes))
        return NULL;
    uint8_t *to = out->data + out->bytes;
    out->bytes += bytes;
    *to++ = (uint8_t)first;
    for (; length >= 0x80; length >>= 7)
        *to++ = (uint8_t)(length | 0x80);
    *to++ = (uint8_t)length;
    return to;
}

static size_t text_bytes(const char *text) {
    return text ? 2 + strlen(text) : 0;
}

bool mr_mqtt_write_connect(mr_mqtt_out *out, const mr_mqtt_connect *what) {
    enum { CLEAN = 2, WILL = 4, WILL_QOS_1 = 8, WILL_RETAIN = 0x20, PASSWORD = 0x40, USER = 0x80 };
    const bool five = what->version == MR_MQTT_5;
    const uint8_t property[] = {5, MAXIMUM_PACKET, 0, MR_MQTT_MOST_READ >> 16, MR_MQTT_MOST_READ >> 8 & 0xff,
                                MR_MQTT_MOST_READ & 0xff};
    const size_t length = 10 + (five ? sizeof property + 1 : 0) + text_bytes(what->id) + text_bytes(what->will_topic) +
                          text_bytes(what->will) + text_bytes(what->user) + text_bytes(what->password);
    uint8_t *to = begin(out, MR_MQTT_CONNECT << 4, length);
    if (!to)
        return false;
    to = put_text(to, "MQTT");
    *to++ = five ? 5 : 4;
    *to++ = (uint8_t)(CLEAN | WILL | WILL_QOS_1 | (what->will_retain ? WILL_RETAIN : 0) | (what->user ? USER : 0) |
                      (what->password ? PASSWORD : 0));
    to = put_short(to, (size_t)what->keep_alive_s);
    if (five)
        to = put(to, property, sizeof property);
    to = put_text(to, what->id);
    if (five)
        *to++ = 0; /* the will's properties */
    to = put_text(put_text(to, what->will_topic), what->will);
    if (what->user)
        to = put_text(to, what->user);
    if (what->password)
        put_text(to, what->password);
    return true;
}

static size_t publish_length(int version, const char *topic, size_t bytes) {
    return text_bytes(topic) + 2 + (version == MR_MQTT_5) + bytes;
}

size_t mr_mqtt_publish_bytes(int version, const char *topic, size_t bytes) {
    const size_t length = publish_length(version, topic, bytes);
    return 1 + variable_bytes(length) + length;
}

bool mr_mqtt_write_publish(mr_mqtt_out *out, int version, uint16_t id, const char *topic, const void *payload,
                           size_t bytes, bool retain) {
    enum { QOS_1 = 2 };
    uint8_t *to = begin(out, MR_MQTT_PUBLISH << 4 | QOS_1 | retain, publish_length(version, topic, bytes));
    if (!to)
        return false;
    to = put_short(put_text(to, topic), id);
    if (version == MR_MQTT_5)
        *to++ = 0; /* properties */
    if (bytes)
        put(to, payload, bytes);
    return true;
}

bool mr_mqtt_write_answer(mr_mqtt_out *out, int type, uint16_t id) {
    uint8_t *to = begin(out, type << 4, 2);
    if (to)
        put_short(to, id);
    return to;
}

bool mr_mqtt_write_empty(mr_mqtt_out *out, int type) {
    return begin(out, type << 4, 0);
}

bool mr_mqtt_is_topic(const char *topic) {
    const size_t bytes = strlen(topic);
    if (!bytes || bytes > UINT16_MAX || strpbrk(topic, "+#"))
        return false;
    for (size_t at = 0, one; at < bytes; at += one) {
        if (!(one = mr_utf8_bytes(topic + at, bytes - at)))
            return false;
        const uint32_t code = mr_utf8_code(topic + at, one);
        if (code < 0x20 || (code >= 0x7f && code < 0xa0))
            return false;
    }
    return true;
}
