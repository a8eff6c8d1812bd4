/* ZeroMQ sockets, opened the one safe way. The caller names endpoint and keys; the rest is the same for all. A socket
 * that is reachable from other machines must have CURVE and an allow-list. An ipc socket must be in a folder that its
 * owner owns. Message sizes and handshake times have limits. The audit log gets a line for each peer that was accepted
 * or refused.
 *
 * Each socket has a separate context, so that closing one need not wait for another. libzmq starts two threads for it
 * (MR_ZMQ_THREADS). A socket that binds has a third, the guard, which answers libzmq's authentication requests (ZAP,
 * https://rfc.zeromq.org/spec/27). One that connects with `keeps` also has a third, which watches the connection. The
 * handle belongs to one thread at a time; any thread may open and close. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_zmq mr_zmq;

/* Threads for one socket: the context's; and with those, the guard or the one that watches. */
enum { MR_ZMQ_THREADS = 2, MR_ZMQ_WATCHED_THREADS = 3 };
enum { MR_ZMQ_MOST_KNOWN = 64 };

typedef struct mr_zmq_params {
    const char *id;          /* the stage's or cut's, for messages and the audit log; at most 255 bytes */
    int type;                /* ZMQ_PUSH, ... */
    const char *endpoint;    /* tcp://HOST:PORT or ipc://PATH */
    bool bind;               /* else it connects */
    const char *key;         /* file with the own key pair; NULL: no CURVE */
    size_t allow_count;      /* binding with a key: the public keys that may connect, or files of them */
    const char *const *allow;
    const char *server;      /* connecting with a key: public key of the other end, or a file with it */
    int send_hwm, receive_hwm; /* messages that wait; 0: no limit */
    int64_t max_message_bytes; /* largest part: a peer that sends more is disconnected; 0: no limit. Binding: also one
                                  whose message has several parts, is longer by some MiB and does not end (endless.h);
                                  messages must be received with mr_zmq_receive */
    int max_peers;           /* binding: connections at once; more are refused; 0: no limit */
    int64_t handshake_ns;    /* how long a peer may take for it; 0: 10 seconds */
    int64_t unknown_ns;      /* binding: how long a connection can be open before the owner knows the peer
                                (mr_zmq_know); 0: unlimited. With it, strangers are closed first if there are more than
                                max_peers */
    bool keeps;              /* connecting: the owner calls mr_zmq_keep */
} mr_zmq_params;

/* Whether that is a socket which may be opened; reads no file. MR_ERROR_CONFIG with the message, and in *wrong (may be
 * NULL) the member to blame: "endpoint", "key", "allow" or "server". */
int mr_zmq_check(const mr_zmq_params *params, const char **wrong);
/* The same, and reads the files with the keys. */
int mr_zmq_check_files(const mr_zmq_params *params, const char **wrong);

/* Checks all that, and makes a socket with keys and limits that is not attached yet, so that the owner can set options
 * through the handle. Errors: as mr_zmq_check_files, MR_ERROR_UNAVAILABLE (libzmq without CURVE, too many sockets, too
 * few file descriptors), MR_ERROR_MEMORY. Strings in `params` must live until it is attached. */
int mr_zmq_create(mr_zmq **socket, const mr_zmq_params *params);
/* Binds or connects. On failure the caller can only close it. MR_ERROR_UNAVAILABLE (the address is taken, or is not on
 * this machine), MR_ERROR_PERMISSION (others own or can enter a folder for ipc sockets), MR_ERROR_IO,
 * MR_ERROR_CONFIG. */
int mr_zmq_attach(mr_zmq *socket);
/* One that connects: closes the connection, with all that is under way on it, and makes another. */
void mr_zmq_renew(mr_zmq *socket);
/* One that connects with `keeps`: makes a new connection if libzmq has given it up (reconnect.h). The owner calls this
 * before it sends, and ten times a second while it waits; it may leave the socket alone between. What has come and is
 * not read is not dropped: the new connection is made after it. */
void mr_zmq_keep(mr_zmq *socket);
/* For zmq_poll, zmq_msg_send and so on. */
void *mr_zmq_handle(const mr_zmq *socket);
/* Receives a message's next part into `part`, an initialised one, without waiting. Returns its bytes; -1 with errno:
 * EAGAIN if there is none. A program that only waits for messages must also report when none has come
 * (mr_zmq_note_empty), and one that waits for longer than a second, while it does so (mr_zmq_note_wait). All note what
 * the peers' messages are compared with (endless.h). */
long mr_zmq_receive(mr_zmq *socket, void *part);
void mr_zmq_note_empty(mr_zmq *socket);
void mr_zmq_note_wait(mr_zmq *socket, bool waits);
/* The endpoint that it listens at, with the port that the system chose for "tcp://127.0.0.1:*"; or that it connects to.
 */
const char *mr_zmq_endpoint(const mr_zmq *socket);
/* That connection (ZMQ_SRCFD in its messages) belongs to that peer, below MR_ZMQ_MOST_KNOWN. The peer's former
 * connection is a stranger's. Any thread. */
void mr_zmq_know(const mr_zmq *socket, uint32_t peer, int fd);
/* One that binds with a key: from now on peers need one of these keys (one key, or a file of them). Those that are
 * connected stay. Any thread. On failure the earlier keys remain; the errors of mr_allow_list_add. */
int mr_zmq_allow(mr_zmq *socket, const char *key_or_path);
/* How many peers have completed a handshake and are connected, as far as libzmq has reported. 1 for a socket that
 * connects. Any thread. */
int mr_zmq_present(const mr_zmq *socket);
/* Peers that were refused so far. Any thread. */
uint64_t mr_zmq_refused(const mr_zmq *socket);
/* Closes it and sets it to NULL; NULL is allowed. Waits up to linger_ms for queued messages. */
void mr_zmq_close(mr_zmq **socket, int linger_ms);
