/* ZeroMQ sockets, opened the one safe way. The caller names endpoint and keys; the rest is the same for all: off this
 * machine only with CURVE and an allow-list, an ipc socket only in a folder of its owner, limits on message sizes and
 * handshake times, and a line in the audit log for each peer that was accepted or refused.
 *
 * A socket has a context of its own, so that closing one never waits for another: libzmq starts two threads for it
 * (MR_ZMQ_THREADS), and a socket that binds has a third, its guard, which answers libzmq's authentication requests
 * (ZAP, https://rfc.zeromq.org/spec/27). The handle belongs to one thread at a time; open and close may be called by
 * any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_zmq mr_zmq;

/* Threads of one socket: those of its context, and the guard's if it binds. */
enum { MR_ZMQ_THREADS = 2, MR_ZMQ_GUARDED_THREADS = 3 };
enum { MR_ZMQ_MOST_KNOWN = 64 };

typedef struct mr_zmq_params {
    const char *id;          /* of the stage or cut, for messages and the audit log; at most 255 bytes */
    int type;                /* ZMQ_PUSH, ... */
    const char *endpoint;    /* tcp://HOST:PORT or ipc://PATH */
    bool bind;               /* else it connects */
    const char *key;         /* file of the own key pair; NULL: no CURVE */
    size_t allow_count;      /* binding with a key: the public keys that may connect, or files of them */
    const char *const *allow;
    const char *server;      /* connecting with a key: public key of the other end, or a file with it */
    int send_hwm, receive_hwm; /* messages that wait; 0: no limit */
    int64_t max_message_bytes; /* of one part: a peer that sends more is disconnected; 0: no limit */
    int max_peers;           /* binding: connections at once; more are refused; 0: no limit */
    int64_t handshake_ns;    /* how long a peer may take for it; 0: 10 seconds */
    int64_t unknown_ns;      /* binding: how long a connection may be open before the owner knows its peer
                                (mr_zmq_know); 0: unlimited. With it, strangers are closed first if there are more than
                                max_peers */
} mr_zmq_params;

/* Whether that is a socket which may be opened; reads no file. MR_ERROR_CONFIG with the message, and in *wrong (may be
 * NULL) the member to blame: "endpoint", "key", "allow" or "server". */
int mr_zmq_check(const mr_zmq_params *params, const char **wrong);
/* The same, and reads the files with the keys. */
int mr_zmq_check_files(const mr_zmq_params *params, const char **wrong);

/* Checks all that, and makes a socket with its keys and limits that is not attached yet, so that its owner may set
 * options of its own through the handle. Errors are those of mr_zmq_check_files, MR_ERROR_UNAVAILABLE (libzmq without
 * CURVE, too many sockets, too few file descriptors), MR_ERROR_MEMORY. Strings of `params` live until it is attached.
 */
int mr_zmq_create(mr_zmq **socket, const mr_zmq_params *params);
/* Binds or connects; on failure only closing is left. MR_ERROR_UNAVAILABLE (the address is taken, or none of this
 * machine), MR_ERROR_PERMISSION (a folder of ipc sockets that others own or may enter), MR_ERROR_IO, MR_ERROR_CONFIG.
 */
int mr_zmq_attach(mr_zmq *socket);
/* One that connects: closes the connection, with all that is under way on it, and makes another. */
void mr_zmq_renew(mr_zmq *socket);
/* For zmq_poll, zmq_msg_send and so on. */
void *mr_zmq_handle(const mr_zmq *socket);
/* The endpoint that it listens at, with the port that the system chose for "tcp://127.0.0.1:*"; or that it connects to.
 */
const char *mr_zmq_endpoint(const mr_zmq *socket);
/* That connection (ZMQ_SRCFD of its messages) belongs to that peer, below MR_ZMQ_MOST_KNOWN; its former connection is a
 * stranger's. Any thread. */
void mr_zmq_know(const mr_zmq *socket, uint32_t peer, int fd);
/* Peers that have completed their handshake and are connected, as far as libzmq has reported; of a socket that connects
 * 1. Any thread. */
int mr_zmq_present(const mr_zmq *socket);
/* Peers that were refused so far. Any thread. */
uint64_t mr_zmq_refused(const mr_zmq *socket);
/* Closes it and sets it to NULL; NULL is allowed. Waits up to linger_ms for queued messages. */
void mr_zmq_close(mr_zmq **socket, int linger_ms);
