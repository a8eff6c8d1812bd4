/* Sockets for stages that exchange messages with other programs over ZeroMQ: endpoint and permissions.
 *
 * Only transport/zmq/socket.h opens sockets, so only the safe way is used. The stage's thread uses each socket and
 * waits in short steps: stopping a run need never wait for a peer. */
#pragma once

#include "engine/transport/zmq/socket.h"
#include "millrace/stage.h"

typedef struct mr_zmq_link {
    const char *endpoint;
    bool bind;
    int64_t high_water, max_peers;
    const char *key, *allow, *server;
} mr_zmq_link;

/* Option table rows for a struct with an mr_zmq_link named `link`. */
#define MR_ZMQ_LINK_FIELD(options, member) (offsetof(options, link) + offsetof(mr_zmq_link, member))
#define MR_ZMQ_LINK_OPTIONS(options, file_kind, what)                                                                  \
    {.name = "endpoint", .kind = MR_OPTION_STRING, .file = file_kind, .offset = MR_ZMQ_LINK_FIELD(options, endpoint),  \
     .required = true, .example = "tcp://127.0.0.1:5555",                                                              \
     .help = "tcp://HOST:PORT, or ipc://FOLDER/NAME; beyond this machine only with keys"},                             \
    {.name = "bind", .kind = MR_OPTION_BOOL, .offset = MR_ZMQ_LINK_FIELD(options, bind), .fallback = "true",           \
     .help = "wait for connections at the endpoint; if false, connect to it"},                                         \
    {.name = "high_water", .kind = MR_OPTION_INT, .offset = MR_ZMQ_LINK_FIELD(options, high_water),                    \
     .fallback = "100", .min = 1, .max = 1000000, .unit = "messages", .help = what},                                   \
    {.name = "max_peers", .kind = MR_OPTION_INT, .offset = MR_ZMQ_LINK_FIELD(options, max_peers), .fallback = "100",   \
     .min = 1, .max = 10000, .unit = "connections",                                                                    \
     .help = "if binding: connections at once, unfinished ones included; more are refused"},                           \
    {.name = "key", .kind = MR_OPTION_PATH, .offset = MR_ZMQ_LINK_FIELD(options, key), .example = "keys/center.key",   \
     .help = "file with the own key pair, made by `millrace keygen`: encrypts all messages; only known "               \
             "peers connect"},                                                                                         \
    {.name = "allow", .kind = MR_OPTION_PATH, .offset = MR_ZMQ_LINK_FIELD(options, allow), .example = "keys/allowed",  \
     .help = "if binding with a key: file with the public keys that may connect, one a line"},                         \
    {.name = "server", .kind = MR_OPTION_PATH, .offset = MR_ZMQ_LINK_FIELD(options, server),                           \
     .example = "keys/center.pub", .help = "if connecting with a key: file with the other end's public key"}

/* Refuses a socket that cannot be opened, and declares the link's threads. */
int mr_zmq_link_negotiate(mr_negotiation *negotiation, const mr_zmq_link *link);
/* Creates a socket without attaching it. `most_bytes`: the limit for a received part; 0: none. */
int mr_zmq_link_create(mr_zmq **socket, const mr_stage *self, const mr_zmq_link *link, int type, int64_t most_bytes);
/* Attaches it and logs the endpoint. */
int mr_zmq_link_attach(mr_zmq *socket, const mr_stage *self, const mr_zmq_link *link);
/* Waits briefly until the socket can send or receive (ZMQ_POLLOUT, ZMQ_POLLIN): 1 if it can, 0 if not yet,
 * MR_ERROR_CANCELLED if the run is being stopped. */
int mr_zmq_link_wait(mr_zmq *socket, const mr_stage *self, short events);
