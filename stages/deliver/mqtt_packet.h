/* Packets of MQTT 5 and 3.1.1 (OASIS standards), as a client needs them that publishes and subscribes to nothing.
 *
 * Reading is strict: a packet of an unknown type, with wrong flags, an unknown or repeated property, or a length that
 * its parts do not have, is an error. Reading allocates nothing. Pure functions: any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_MQTT_5, MR_MQTT_311 };

/* Types of packets, in the upper half of the first byte. */
enum {
    MR_MQTT_CONNECT = 1, MR_MQTT_CONNACK = 2, MR_MQTT_PUBLISH = 3, MR_MQTT_PUBACK = 4, MR_MQTT_PUBREC = 5,
    MR_MQTT_PUBREL = 6, MR_MQTT_PUBCOMP = 7, MR_MQTT_PINGREQ = 12, MR_MQTT_PINGRESP = 13, MR_MQTT_DISCONNECT = 14,
};

/* Reasons of MQTT 5; those from MR_MQTT_FAILURE on are failures. */
enum {
    MR_MQTT_FAILURE = 0x80, MR_MQTT_OLD_VERSION = 0x84, MR_MQTT_BAD_ID = 0x85, MR_MQTT_BAD_LOGIN = 0x86,
    MR_MQTT_NOT_AUTHORIZED = 0x87, MR_MQTT_NO_SERVICE = 0x88, MR_MQTT_BANNED = 0x8a,
    MR_MQTT_BAD_METHOD = 0x8c, MR_MQTT_TAKEN_OVER = 0x8e, MR_MQTT_BAD_TOPIC = 0x90, MR_MQTT_TOO_LARGE = 0x95,
    MR_MQTT_BAD_PAYLOAD = 0x99, MR_MQTT_NO_RETAIN = 0x9a,
};

/* The largest packet that a broker may send, and the largest that can be sent. */
enum { MR_MQTT_MOST_READ = 64 * 1024, MR_MQTT_MOST_WRITTEN = 268435455 };

/* A broker's limits in CONNACK. */
typedef struct mr_mqtt_limits {
    int open;            /* messages that may be published before their acknowledgements come */
    uint32_t bytes;      /* of a packet */
    int quality;         /* the highest QoS */
    bool retains;        /* it keeps messages */
    int keep_alive_s;    /* the time that it asks for instead of the client's; -1: it asks for none */
} mr_mqtt_limits;

typedef struct mr_mqtt_packet {
    int type;
    int reason;            /* of CONNACK, PUBACK and DISCONNECT; that of a broker which knows only 3.1.1, and
                              answers a CONNECT of MQTT 5, in MQTT 5's words */
    uint16_t id;           /* of PUBACK and PUBREL, and of PUBLISH with a QoS */
    int quality;           /* of PUBLISH: its QoS */
    mr_mqtt_limits limits; /* of CONNACK */
} mr_mqtt_packet;

/* Reads the first packet; *used is its length. MR_ERROR_AGAIN: it is not whole yet, and *used is unchanged.
 * MR_ERROR_PROTOCOL: it is malformed, larger than MR_MQTT_MOST_READ, or one that a broker may not send; mr_message says
 * which. */
int mr_mqtt_read(mr_mqtt_packet *packet, size_t *used, const uint8_t *data, size_t bytes, int version);

/* The reason in words, as the standard has them. */
const char *mr_mqtt_reason(int reason, int version);

/* Packets that are to be sent, one after the other. The owner frees `data`. */
typedef struct mr_mqtt_out {
    uint8_t *data;
    size_t bytes, room;
} mr_mqtt_out;

typedef struct mr_mqtt_connect {
    const char *id;
    const char *user, *password;         /* NULL: none */
    const char *will_topic, *will;       /* the last will, a text */
    bool will_retain;
    int keep_alive_s, version;
} mr_mqtt_connect;

/* All write a whole packet, or nothing. False: no memory. Texts must have at most 65,535 bytes. */
bool mr_mqtt_write_connect(mr_mqtt_out *out, const mr_mqtt_connect *what);
/* QoS 1. mr_mqtt_publish_bytes must be at most MR_MQTT_MOST_WRITTEN. */
bool mr_mqtt_write_publish(mr_mqtt_out *out, int version, uint16_t id, const char *topic, const void *payload,
                           size_t bytes, bool retain);
/* The whole packet's length. */
size_t mr_mqtt_publish_bytes(int version, const char *topic, size_t bytes);
/* PUBACK, PUBREC or PUBCOMP without a reason. */
bool mr_mqtt_write_answer(mr_mqtt_out *out, int type, uint16_t id);
/* PINGREQ, or DISCONNECT without a reason. */
bool mr_mqtt_write_empty(mr_mqtt_out *out, int type);

/* Whether a message can be published to that topic: UTF-8 without control characters, wildcards, or more than 65,535
 * bytes. */
bool mr_mqtt_is_topic(const char *topic);
