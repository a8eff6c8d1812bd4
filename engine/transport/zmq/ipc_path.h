/* Checks before libzmq opens a socket. libzmq does not check: it takes the path of an ipc socket from a process that
 * listens there, or of any file, and aborts if it gets no file descriptor. Any thread. */
#pragma once

#include "engine/transport/zmq/socket.h"

/* The path of an ipc endpoint; NULL for others. */
const char *mr_ipc_path_of(const char *endpoint);

/* Checks that a socket at ipc://PATH may be bound: it must be in a folder that only this user may enter (unless keys
 * restrict the peers; created if missing). No other process may be listening there, and no other file may be there. A
 * socket that a dead process left is ignored. MR_ERROR_PERMISSION, MR_ERROR_UNAVAILABLE, MR_ERROR_CONFIG, MR_ERROR_IO.
 * Other endpoints: MR_OK. *made becomes true if it made the folder. */
int mr_ipc_path_check(const mr_zmq_params *params, bool *made);
/* Removes the file of an ipc endpoint that this process has bound, before it stops listening: then the path is free for
 * others. If it has made the folder, and that is empty now, removes it, too. Other endpoints: nothing. */
void mr_ipc_path_remove(const char *endpoint, bool made);
/* Checks that enough file descriptors are free for a socket and its peers. MR_ERROR_UNAVAILABLE. */
int mr_zmq_room_check(const mr_zmq_params *params);
