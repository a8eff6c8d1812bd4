/* A connection to an MQTT broker over TCP or TLS, which publishes posts (post.h) with QoS 1.
 *
 * A record is delivered once the broker has acknowledged it (PUBACK). Sessions are clean: what was not acknowledged
 * when a connection was lost is published again from the delivery's queue. The client id follows from the run and the
 * stage, which only one process has: it is unique, and the same after a restart.
 *
 * The state topic has a retained JSON object: "online" with counts, "ended", or, by the broker as last will,
 * "offline".
 *
 * MQTT 5 is the default, since only its acknowledgements say that a broker has refused a topic or that another client
 * took the client id. Statuses: a refused login or protocol version is a failure if the broker was never reached
 * (MR_ERROR_PERMISSION, MR_ERROR_UNAVAILABLE). All else that ends a connection is MR_ERROR_AGAIN. Records that the
 * broker refuses, that are larger than it takes, or that end the connection each time, are marked as refused.
 *
 * Threads: as mr_service_type says. */
#pragma once

#include "millrace/option.h"
#include "stages/deliver/delivery.h"
#include "stages/deliver/mqtt_packet.h"

typedef struct mr_mqtt_params {
    const char *url;
    mr_credentials login;
    const char *user_file, *password_file;                 /* may be NULL, as the next three */
    const char *ca_file, *certificate_file, *key_file;
    const char *topic, *state_topic, *template;            /* templates; `template` may be NULL */
    const char *home_assistant;                            /* the prefix of its topics; NULL: none */
    bool retain, picture;
    int version;                                           /* MR_MQTT_5, ... */
    int64_t timeout_ns;
} mr_mqtt_params;

typedef struct mr_mqtt_link mr_mqtt_link;

/* Checks the URL. MR_ERROR_CONFIG. */
int mr_mqtt_link_check(const mr_mqtt_params *params);
/* `params` must live as long as the link. Reads the files: MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_DATA.
 * MR_ERROR_CONFIG: the URL, or a file with certificates. MR_ERROR_MEMORY. */
int mr_mqtt_link_create(mr_mqtt_link **link, const mr_mqtt_params *params);
extern const mr_service_type mr_mqtt_service;
