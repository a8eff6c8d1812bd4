/* The connections on a ZeroMQ socket that binds, as libzmq reports them: how many there are, which exceed the limit,
 * and which have been strangers for too long. Only the guard's thread may use it, except mr_zmq_peers_know. Internal to
 * engine/transport.
 *
 * libzmq identifies connections by descriptors. It owns these and can reuse one before an event is read. So each
 * connection is kept by a duplicate descriptor, which cannot be reused. If a connection ended before it was duplicated,
 * that is detected once all events so far were read. mr_zmq_peers_cut must only be called then. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/transport/zmq/endless.h"
#include "engine/transport/zmq/socket.h"

enum { MR_ZMQ_ADDRESS = 64 };
static const int64_t MR_ZMQ_LOOK_NS = 250000000;

typedef struct mr_zmq_connection mr_zmq_connection;

typedef struct mr_zmq_peers {
    int most;                 /* connections; 0: no limit */
    int64_t handshake_ns;     /* libzmq closes connections without a complete handshake after this time */
    int64_t unknown_ns;       /* how long one may be a stranger's; 0: shaking hands is enough */
    mr_zmq_connection *first; /* those that are open, oldest first */
    int open;                 /* how many, without those that were cut */
    int asked, made;          /* handshakes that libzmq has asked about and that were allowed; completed ones */
    mr_zmq_bound bound;       /* of what a peer may send without a whole message */
    int64_t looked_ns;        /* when that was last checked */
    uint32_t chance;
    _Atomic int known[MR_ZMQ_MOST_KNOWN]; /* descriptors, by peer; -1: none */
} mr_zmq_peers;

void mr_zmq_peers_init(mr_zmq_peers *peers, int most, int64_t handshake_ns, int64_t unknown_ns);
/* From now on a peer that sends a message without end is closed. */
void mr_zmq_peers_bind(mr_zmq_peers *peers, const mr_zmq_bound *bound);
void mr_zmq_peers_fini(mr_zmq_peers *peers);

/* A connection was accepted. Without memory for it, it is open without limit. */
void mr_zmq_peers_come(mr_zmq_peers *peers, int fd, int64_t now_ns);
/* A peer has completed a handshake. libzmq does not say which. */
void mr_zmq_peers_made(mr_zmq_peers *peers);
/* One was closed; `failed`: before it had shaken hands. Whether that is news: it was not cut here. */
bool mr_zmq_peers_go(mr_zmq_peers *peers, int fd, bool failed);
/* Whether one more that would shake hands now is too many. One that may is counted from here on. */
bool mr_zmq_peers_ask(mr_zmq_peers *peers, int64_t now_ns);
/* It had gone before the answer. */
void mr_zmq_peers_unask(mr_zmq_peers *peers);
/* As mr_zmq_know. Any thread. */
void mr_zmq_peers_know(mr_zmq_peers *peers, uint32_t peer, int fd);

/* Closes a stranger's connection if its time is over or there are too many. Returns the reason, and the address without
 * a port ("": none). `stranger`: false if the connection belonged to a peer that has another one since. NULL: nothing
 * to close. */
const char *mr_zmq_peers_cut(mr_zmq_peers *peers, int64_t now_ns, char address[MR_ZMQ_ADDRESS], bool *stranger);
/* Closes the connection of a peer that sends a message without end, as above. Looks once in MR_ZMQ_LOOK_NS. */
const char *mr_zmq_peers_cut_endless(mr_zmq_peers *peers, const mr_zmq_taken *taken, int64_t now_ns,
                                     char address[MR_ZMQ_ADDRESS]);
/* When these are to be asked again; INT64_MAX: once something has happened. */
int64_t mr_zmq_peers_wake_ns(const mr_zmq_peers *peers);
