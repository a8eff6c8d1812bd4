/* Finds out whether libzmq has given up a connection that it made. libzmq connects again after most failures, but not
 * after the other end has refused the key, or one end has broken the protocol, for instance by a message that is too
 * long. Then the socket stays without that connection for good.
 *
 * A thread reads libzmq's events and keeps only the last state: they come ten times a second while nobody listens at
 * the other end, and the owner may do nothing with the socket for hours. The owner looks before it waits or sends.
 *
 * All functions belong to the owner's thread. Internal to engine/transport. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mr_zmq_reconnect {
    void *events;         /* libzmq's, for the thread; NULL: none are read */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* of the next two */
    const char *why;      /* the connection may be given up; NULL: nothing says so */
    int64_t since_ns;     /* when it failed */
    int64_t renewed_ns;   /* when it was last made anew */
    int64_t pause_ns;     /* before the next time */
} mr_zmq_reconnect;

/* `socket` is not connected yet; *of stays where it is. MR_ERROR_UNAVAILABLE, MR_ERROR_MEMORY; then the caller ends it
 * all the same. */
int mr_zmq_reconnect_begin(mr_zmq_reconnect *of, void *context, void *socket);
/* Whether the caller must make a new connection now. The pauses double, up to a minute. `id` and `endpoint` are for the
 * log. */
bool mr_zmq_reconnect_due(mr_zmq_reconnect *of, const char *id, const char *endpoint, int64_t now_ns);
/* After the socket was closed and the context shut down, which ends the thread. All zero is ended. */
void mr_zmq_reconnect_end(mr_zmq_reconnect *of);
