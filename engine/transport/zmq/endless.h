/* Finds peers that send a message which never ends. libzmq bounds each part of a message, but not the number of parts,
 * and gives a message to the program only when its last part has come. So the guard compares the bytes that libzmq has
 * read from a connection with the messages that the socket's owner has received from it.
 *
 * The owner's thread counts messages (mr_zmq_taken); the guard's thread looks at each connection several times a
 * second (mr_zmq_endless_look). Only TCP connections are looked at. Internal to engine/transport. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { MR_ZMQ_MOST_FD = 65536 };

/* Owned by the guard. Descriptors beyond MR_ZMQ_MOST_FD share the counts of others, so fewer peers are suspected. */
typedef struct mr_zmq_taken {
    _Atomic uint32_t from[MR_ZMQ_MOST_FD]; /* messages received, by libzmq's descriptor */
    _Atomic uint64_t all;                  /* messages from all peers */
    _Atomic uint64_t found_empty;          /* how often there was no whole message */
    _Atomic bool empty;                    /* there was none when the owner last looked */
} mr_zmq_taken;

typedef struct mr_zmq_bound {
    uint64_t message_bytes; /* the largest part, and nearly all of a whole message; 0: nothing is looked at */
    uint64_t queued;        /* messages that can wait for the owner, from each peer */
    uint64_t beside;        /* bytes a second that a peer may send beside messages, such as heartbeats, for good */
} mr_zmq_bound;

/* A connection as it was last looked at; zero at first. */
typedef struct mr_zmq_endless {
    uint64_t read, settled;       /* bytes that libzmq has read; those before the last whole message */
    uint32_t messages;
    int64_t looked_ns;
    int64_t suspected_ns;         /* 0: it is not */
    uint64_t all, found_empty;    /* of mr_zmq_taken, when the suspicion began */
} mr_zmq_endless;

/* The owner has received the last part of a message from that connection (-1: not known). */
void mr_zmq_taken_note(mr_zmq_taken *taken, int fd);
/* The owner has found that there is no whole message. */
void mr_zmq_taken_note_empty(mr_zmq_taken *taken);

/* Whether the connection must be closed. `fd` is libzmq's, `kept` a duplicate; `open`: connections of the socket. */
bool mr_zmq_endless_look(mr_zmq_endless *of, const mr_zmq_taken *taken, const mr_zmq_bound *bound, int fd, int kept,
                         int open, int64_t now_ns);
