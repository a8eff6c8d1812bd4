/* The guard of a ZeroMQ socket that binds: a thread that answers libzmq's authentication requests (ZAP), follows
 * connections as they open and close, and limits their number and how long they may stay silent. Each answer goes to
 * the audit log; many refusals are sampled, but all are counted, and entries report the count. Internal to
 * engine/transport.
 *
 * Any program that can reach the socket can connect without ever completing a handshake; so the limits apply to
 * connections that completed one. The handshake of one too many is not answered until a peer has left, or libzmq closes
 * the connection, since its time is over; the peer then tries again by itself. If the socket's owner learns which peer
 * a connection belongs to, it reports it here, and all others are strangers: they are closed when their time is over,
 * and earlier if there are too many, in random order. So strangers do not keep a known peer out, and delay a new one
 * only until libzmq's next attempt. */
#pragma once

#include <stdint.h>

#include "engine/transport/zmq/curve_keys.h"

typedef struct mr_zmq_guard mr_zmq_guard;

typedef struct mr_zmq_guard_params {
    const char *id;       /* of the socket, for messages and the audit log; copied */
    int most;             /* connections at once; 0: no limit */
    int64_t handshake_ns; /* libzmq closes connections without a complete handshake after this time */
    int64_t unknown_ns;   /* how long one may be a stranger's; 0: they need not be known, and shaking hands is enough */
} mr_zmq_guard_params;

/* Begins to guard `socket` of `context`, before it is bound. Takes the list over on success. `allow` empty: peers
 * without CURVE; else peers with one of the keys. */
int mr_zmq_guard_begin(mr_zmq_guard **guard, void *context, void *socket, const mr_zmq_guard_params *params,
                       mr_allow_list *allow);
/* As mr_zmq_know. Any thread. */
void mr_zmq_guard_know(mr_zmq_guard *guard, uint32_t peer, int fd);
/* Connections that have completed their handshake. Any thread. */
int mr_zmq_guard_present(const mr_zmq_guard *guard);
uint64_t mr_zmq_guard_refused(const mr_zmq_guard *guard);
/* After zmq_ctx_shutdown. Sets *guard to NULL; NULL is allowed. */
void mr_zmq_guard_end(mr_zmq_guard **guard);
