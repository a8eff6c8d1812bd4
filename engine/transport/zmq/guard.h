/* The guard of a ZeroMQ socket that binds: a thread that answers libzmq's questions who may connect (ZAP), hears of
 * connections that come and go, and limits how many they are and how long they may say nothing. Each answer goes to the
 * audit log; of many refusals not every one does, but all are counted, and entries tell how many they are. Internal to
 * engine/transport.
 *
 * Whoever can reach the socket can connect, also without ever shaking hands; so what is limited are those that have.
 * Where the socket's owner learns whose connections are, it says so, and all others are strangers: they are cut off
 * when their time is over, and before that where there are too many, any of them in turn. So they keep nobody out who
 * is known, and whoever is about to introduce itself only for a while, which libzmq's next attempt ends. */
#ifndef MILLRACE_TRANSPORT_ZMQ_GUARD_H
#define MILLRACE_TRANSPORT_ZMQ_GUARD_H

#include <stdint.h>

#include "engine/transport/zmq/keys.h"

typedef struct mr_zmq_guard mr_zmq_guard;

typedef struct mr_zmq_guard_params {
    const char *id;       /* of the socket, for messages and the audit log; copied */
    int most;             /* connections at once; 0: no limit */
    int64_t handshake_ns; /* after which libzmq gives up a connection that has not shaken hands */
    int64_t unknown_ns;   /* how long one may be a stranger's; 0: they need not be known, and shaking hands is enough */
} mr_zmq_guard_params;

/* Begins to guard `socket` of `context`, before it is bound. Takes the list over on success. `allow` empty: everybody
 * who speaks no CURVE; else whoever has one of the keys. */
int mr_zmq_guard_begin(mr_zmq_guard **guard, void *context, void *socket, const mr_zmq_guard_params *params,
                       mr_allow_list *allow);
/* As mr_zmq_know. Any thread. */
void mr_zmq_guard_know(mr_zmq_guard *guard, uint32_t peer, int fd);
uint64_t mr_zmq_guard_refused(const mr_zmq_guard *guard);
/* After zmq_ctx_shutdown. Sets *guard to NULL; NULL is allowed. */
void mr_zmq_guard_end(mr_zmq_guard **guard);

#endif
