/* Finds peers that send a message which never ends. libzmq bounds each part of a message, but not the number of parts,
 * and gives a message to the program only when its last part has come. So the guard compares the bytes that libzmq has
 * read from a connection with those that the socket's owner has received from it. The difference is at most all
 * messages that may wait, whatever the speed. It may stay above one message only while the owner takes some.
 *
 * The owner's thread counts (mr_zmq_taken); the guard's thread looks at each connection several times a second
 * (mr_zmq_endless_look). Only TCP connections are looked at. Internal to engine/transport. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_ZMQ_MOST_FD = 65536 };
/* Bytes a second beside messages that every peer may send: heartbeats, ten a second with CURVE are 420. */
enum { MR_ZMQ_BESIDE = 1024 };

/* Owned by the guard. Descriptors beyond MR_ZMQ_MOST_FD share the counts of others, so fewer peers are suspected. */
typedef struct mr_zmq_taken {
    _Atomic uint64_t from[MR_ZMQ_MOST_FD]; /* bytes received, by libzmq's descriptor, with what libzmq sends beside */
    _Atomic uint64_t all;                  /* whole messages from all peers */
    _Atomic uint64_t found_empty;          /* how often there was no whole message */
    _Atomic bool waits;                    /* there was none, and the owner waits: one would wake it */
} mr_zmq_taken;

typedef struct mr_zmq_bound {
    uint64_t message_bytes; /* the largest part, and nearly all of a whole message; 0: nothing is looked at */
    uint64_t most;          /* messages of each peer that libzmq or the owner may have */
    uint64_t beside;        /* bytes a second that a peer may send beside messages for good */
} mr_zmq_bound;

/* A connection as it was last looked at; zero at first. */
typedef struct mr_zmq_endless {
    uint64_t settled;             /* bytes that the owner has received, and those beside messages */
    uint64_t owned;               /* mr_zmq_taken's count */
    int64_t looked_ns;
    int64_t suspected_ns;         /* 0: it is not */
    uint64_t all, found_empty;    /* of mr_zmq_taken, when the suspicion began */
} mr_zmq_endless;

/* The owner has received a part of a message from that connection (-1: not known). */
void mr_zmq_taken_note(mr_zmq_taken *taken, int fd, size_t bytes, bool last);
/* The owner has found that there is no whole message. */
void mr_zmq_taken_note_empty(mr_zmq_taken *taken);
/* The owner begins to wait after it found none, or has ceased to. */
void mr_zmq_taken_note_wait(mr_zmq_taken *taken, bool waits);

/* Whether the connection must be closed. `fd` is libzmq's, `kept` a duplicate; `open`: connections of the socket. */
bool mr_zmq_endless_look(mr_zmq_endless *of, const mr_zmq_taken *taken, const mr_zmq_bound *bound, int fd, int kept,
                         int open, int64_t now_ns);
