/* What has to be there before libzmq is asked for a socket. It does not look for itself: it takes the path of an ipc
 * socket from whoever listens there, and ends the process where it gets no file descriptor. Any thread. */
#ifndef MILLRACE_TRANSPORT_ZMQ_PLACE_H
#define MILLRACE_TRANSPORT_ZMQ_PLACE_H

#include "engine/transport/zmq/socket.h"

/* Whether a socket at ipc://PATH may be bound: in a folder that only its owner, who is us, may enter (unless keys say
 * who may connect; made where it is missing), and not where another process listens already. A file that a process left
 * which is gone is nobody's. MR_ERROR_PERMISSION, MR_ERROR_UNAVAILABLE, MR_ERROR_IO. Others than ipc: MR_OK. */
int mr_zmq_place_check(const mr_zmq_params *params);
/* The port of tcp://localhost:PORT, which is 127.0.0.1 at both ends: libzmq binds to addresses, not to names, and may
 * find [::1] under that one. Of other endpoints NULL. */
const char *mr_zmq_place_localhost(const char *endpoint);
/* Takes the file of an ipc endpoint away that this process has bound, before it ends to listen there: from then on the
 * path is free for others. Others than ipc: nothing. */
void mr_zmq_place_leave(const char *endpoint);
/* Whether so many file descriptors are free as a socket and its peers may take. MR_ERROR_UNAVAILABLE. */
int mr_zmq_room_check(const mr_zmq_params *params);

#endif
