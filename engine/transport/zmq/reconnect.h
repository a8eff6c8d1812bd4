/* Finds out whether libzmq has given up a connection that it made. libzmq connects again after most failures, but not
 * after the other end has refused the key, or one end has broken the protocol, for instance by a message that is too
 * long. Then the socket stays without that connection for good.
 *
 * The owner of the socket looks as often as it waits. All functions belong to its thread. Internal to
 * engine/transport. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_zmq_reconnect {
    void *events;        /* libzmq's events; NULL: none are read */
    const char *why;     /* the connection may be given up; NULL: nothing says so */
    int64_t since_ns;    /* when it failed */
    int64_t renewed_ns;  /* when it was last made anew */
    int64_t pause_ns;    /* before the next time */
} mr_zmq_reconnect;

/* `socket`, of that type, is not connected yet. MR_ERROR_UNAVAILABLE. */
int mr_zmq_reconnect_begin(mr_zmq_reconnect *of, void *context, void *socket, int type);
/* Whether the caller must make a new connection now. The pauses double, up to a minute. `id` and `endpoint` are for the
 * log. */
bool mr_zmq_reconnect_due(mr_zmq_reconnect *of, const char *id, const char *endpoint, int64_t now_ns);
/* Before the socket is closed. All zero is ended. */
void mr_zmq_reconnect_end(mr_zmq_reconnect *of, void *socket);
