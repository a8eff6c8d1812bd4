/* A connection to an MQTT broker, over TCP or TLS, that publishes with QoS 1. It is our own, since the libraries trust
 * brokers: libmosquitto 2.0.11 ends the process at packets that it does not know, and Paho 1.3.12 allocates whatever
 * length a broker announces (256 MB) and has two threads that no plan names. Here a packet of the broker can have
 * 64 KiB, and one that breaks the protocol only ends the connection.
 *
 * Nothing waits but open, and turn and end as long as they are told to. One thread at a time. */
#pragma once

#include "stages/deliver/mqtt_packet.h"

typedef struct mr_mqtt_client mr_mqtt_client;

typedef struct mr_mqtt_client_params {
    const char *url;                                       /* for messages */
    const char *host;
    int port;
    bool secure;
    const char *ca_file, *certificate_file, *key_file;     /* may be NULL */
    mr_mqtt_connect connect;
    int64_t timeout_ns;                                    /* to connect, and to answer a ping */
    int wake;                                              /* readable: open returns; -1: never */
    void (*acknowledged)(void *context, uint16_t id, int reason); /* called by turn and publish */
    void *context;
} mr_mqtt_client_params;

/* Reads the files with certificates, which open reads again. MR_ERROR_CONFIG. */
int mr_mqtt_client_check(const mr_mqtt_client_params *params);
/* Connects, and waits for the broker's answer. The texts of `params` must live as long as the client, but for those in
 * `connect`. MR_ERROR_AGAIN: no connection; if the broker refuses it, *reason is why, else 0. MR_ERROR_CANCELLED,
 * MR_ERROR_MEMORY. */
int mr_mqtt_client_open(mr_mqtt_client **client, const mr_mqtt_client_params *params, int *reason);
/* The broker's limits. */
const mr_mqtt_limits *mr_mqtt_client_limits(const mr_mqtt_client *client);
/* Adds a message, which must respect the limits; the topic must be one (mr_mqtt_is_topic). *id is its
 * number. If much waits, it sends, and may also receive: MR_ERROR_AGAIN as turn; else a lost connection is noticed by
 * turn. MR_ERROR_MEMORY. */
int mr_mqtt_client_publish(mr_mqtt_client *client, uint16_t *id, const char *topic, const void *payload, size_t bytes,
                           bool retain);
/* Sends and receives; waits that long if there is nothing to do. MR_ERROR_AGAIN: the connection is lost. */
int mr_mqtt_client_turn(mr_mqtt_client *client, int wait_ms);
/* After a failed turn or publish: the broker's reason; 0: it gave none. */
int mr_mqtt_client_reason(const mr_mqtt_client *client);
/* After a failed turn or publish: the broker broke the protocol. */
bool mr_mqtt_client_broke(const mr_mqtt_client *client);
/* Says good-bye: the broker then publishes no last will. Sends it until that time. */
void mr_mqtt_client_end(mr_mqtt_client *client, int64_t until_ns);
/* Closes at once. NULL is allowed. */
void mr_mqtt_client_close(mr_mqtt_client **client);
