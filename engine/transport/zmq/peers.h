/* Who is connected to a ZeroMQ socket that binds, as libzmq tells of it: how many there are, who is too many, and who
 * has been a stranger for too long. Of the guard's thread, but for mr_zmq_peers_know. Internal to engine/transport.
 *
 * libzmq names connections by descriptors, which are its own and may be another's by the time that one hears of them.
 * So each is kept by a descriptor beside libzmq's, which stays that of this connection, whatever libzmq's means later.
 * What is kept of one that had ended before is found out once all that libzmq has told so far was heard; only then may
 * mr_zmq_peers_cut be asked. */
#ifndef MILLRACE_TRANSPORT_ZMQ_PEERS_H
#define MILLRACE_TRANSPORT_ZMQ_PEERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/transport/zmq/socket.h"

enum { MR_ZMQ_ADDRESS = 64 };

typedef struct mr_zmq_connection mr_zmq_connection;

typedef struct mr_zmq_peers {
    int most;                 /* connections; 0: no limit */
    int64_t handshake_ns;     /* after which libzmq gives up a connection that has not shaken hands */
    int64_t unknown_ns;       /* how long one may be a stranger's; 0: shaking hands is enough */
    mr_zmq_connection *first; /* those that are open, oldest first */
    int open;                 /* how many, without those that were cut */
    int asked, made;          /* of which libzmq has asked, and was told that they may; that have shaken hands */
    uint32_t chance;
    _Atomic int known[MR_ZMQ_MOST_KNOWN]; /* descriptors, by peer; -1: none */
} mr_zmq_peers;

void mr_zmq_peers_init(mr_zmq_peers *peers, int most, int64_t handshake_ns, int64_t unknown_ns);
void mr_zmq_peers_fini(mr_zmq_peers *peers);

/* A connection was accepted. Without memory for it, it is open without limit. */
void mr_zmq_peers_come(mr_zmq_peers *peers, int fd, int64_t now_ns);
/* One of them has shaken hands. libzmq does not say which. */
void mr_zmq_peers_made(mr_zmq_peers *peers);
/* One was closed; `failed`: before it had shaken hands. Whether that is news: it was not cut here. */
bool mr_zmq_peers_go(mr_zmq_peers *peers, int fd, bool failed);
/* Whether one more that would shake hands now is too many. One that may is counted from here on. */
bool mr_zmq_peers_ask(mr_zmq_peers *peers, int64_t now_ns);
/* As mr_zmq_know. Any thread. */
void mr_zmq_peers_know(mr_zmq_peers *peers, uint32_t peer, int fd);

/* Cuts the connection of a stranger who has no time left, or is one too many. Why, and whence it came: an address
 * without a port, "" where there is none. `stranger`: false where it was a peer's, who has another one since. NULL: all
 * may stay. */
const char *mr_zmq_peers_cut(mr_zmq_peers *peers, int64_t now_ns, char address[MR_ZMQ_ADDRESS], bool *stranger);
/* When that is to be asked again; INT64_MAX: once something has happened. */
int64_t mr_zmq_peers_wake_ns(const mr_zmq_peers *peers);

#endif
