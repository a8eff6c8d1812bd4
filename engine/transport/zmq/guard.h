/* The guard for a ZeroMQ socket that binds. Its thread answers libzmq's authentication requests (ZAP) and follows
 * connections as they open and close. It limits how many there are and how long they can stay silent. Each answer goes
 * to the audit log. If there are many refusals, only a sample is written, but all are counted, and entries report the
 * count. Internal to engine/transport.
 *
 * Any program that can reach the socket can connect without ever completing a handshake, so the limits apply to
 * connections that completed one. A connection beyond the limit gets no handshake until a peer has left or libzmq
 * closes it after the handshake time. The peer can then try again. If the socket's owner learns which peer a connection
 * belongs to, it must report it here. All others are strangers: they are closed when the time is over, or earlier and
 * in random order if there are too many. So strangers cannot keep a known peer out, and can delay a new one only until
 * libzmq's next attempt. */
#pragma once

#include <stdint.h>

#include "engine/transport/zmq/curve_keys.h"
#include "engine/transport/zmq/endless.h"

typedef struct mr_zmq_guard mr_zmq_guard;

typedef struct mr_zmq_guard_params {
    const char *id;       /* the socket's, for messages and the audit log; copied */
    int most;             /* connections at once; 0: no limit */
    int64_t handshake_ns; /* libzmq closes connections without a complete handshake after this time */
    mr_zmq_bound bound;   /* of what a peer may send without a whole message */
    int64_t unknown_ns;   /* how long one may be a stranger's; 0: they need not be known, and shaking hands is enough */
} mr_zmq_guard_params;

/* Begins to guard `socket` in `context`; must be called before it is bound. Takes the list over on success. `allow`
 * empty: peers without CURVE. Else peers must have one of the keys. */
int mr_zmq_guard_begin(mr_zmq_guard **guard, void *context, void *socket, const mr_zmq_guard_params *params,
                       mr_allow_list *allow);
/* From now on peers must have one of these keys. Those that are connected stay. Takes the list over. Any thread. */
void mr_zmq_guard_allow(mr_zmq_guard *guard, mr_allow_list *allow);
/* As mr_zmq_know. Any thread. */
void mr_zmq_guard_know(mr_zmq_guard *guard, uint32_t peer, int fd);
/* As mr_zmq_receive reports. The owner's thread. */
mr_zmq_taken *mr_zmq_guard_taken(mr_zmq_guard *guard);
/* How many connections have completed a handshake. Any thread. */
int mr_zmq_guard_present(const mr_zmq_guard *guard);
uint64_t mr_zmq_guard_refused(const mr_zmq_guard *guard);
/* After zmq_ctx_shutdown. Sets *guard to NULL; NULL is allowed. */
void mr_zmq_guard_end(mr_zmq_guard **guard);
