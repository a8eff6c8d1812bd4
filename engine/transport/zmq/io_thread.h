/* The I/O thread for one end of a cut, with the ZeroMQ sockets. It carries whole messages from and to its owner and
 * does not interpret them.
 *
 * It has one ROUTER that binds, where every peer is a route with a number that is never reused. Or it has DEALERs that
 * connect, with routes 0, 1, ... Nothing waits for a peer: a message that cannot be sent at once is lost silently,
 * which the protocol above can repair. That protocol has credit, so queues need no limit.
 *
 * The owner's functions are called on the I/O thread. `listen` and `work`, and calls from these, can also run on
 * another thread that works for the I/O thread while it sleeps (mr_io_thread_work_inline). A lock keeps it to one
 * thread at a time. "I/O thread only" means the thread that holds this lock. Any thread may call mr_io_thread_wake; it
 * needs a system call only if the I/O thread sleeps. */
#pragma once

#include "engine/transport/wire/wire.h"
#include "engine/transport/zmq/socket.h"

typedef struct mr_io_thread mr_io_thread;

typedef struct mr_io_thread_params {
    const char *id;              /* the cut's, for the thread name and messages */
    size_t socket_count;
    const mr_zmq_params *sockets; /* one with type ZMQ_ROUTER, or any number with ZMQ_DEALER */
    size_t most_routes;          /* ROUTER: beyond this number the route that was silent longest is forgotten,
                                    identified ones last */
    /* A message: parts are borrowed; those with a buffer may be kept by a reference to it. No parts: malformed message.
     */
    void (*receive)(void *context, uint32_t route, const mr_wire_part *parts, size_t count);
    /* The route is closed: no message comes over it any more. */
    void (*lost)(void *context, uint32_t route);
    /* Does pending work, after messages were received, after a wake-up, or at *wake_ns (on the clock of mr_clock_real).
     * Sets *wake_ns to the latest time of the next call. False: the thread ends. */
    bool (*work)(void *context, int64_t *wake_ns);
    /* Receives messages that arrived by other ways than the sockets, and does nothing else; `work` does so, too. NULL:
     * there is no other way. */
    void (*listen)(void *context);
    void *context;
} mr_io_thread_params;

/* Opens the sockets; nothing is called before mr_io_thread_start. Errors are those of mr_zmq_create and mr_zmq_attach.
 */
int mr_io_thread_open(mr_io_thread **io_thread, const mr_io_thread_params *params);
/* Before it begins: `work` is called, too, when that descriptor is readable, which `work` sees to. */
void mr_io_thread_watch(mr_io_thread *io_thread, int fd);
/* Starts the thread. MR_ERROR_MEMORY. */
int mr_io_thread_start(mr_io_thread *io_thread);
void mr_io_thread_wake(mr_io_thread *io_thread);
/* As wake, but if the thread sleeps, the caller does the work at once and lets it sleep. Any other thread, which must
 * hold no lock that `work` can take. */
void mr_io_thread_work_inline(mr_io_thread *io_thread);
/* Likewise, but only calls `listen`, so that the caller can go on with received frames at once. True if it did: call
 * mr_io_thread_work_inline soon. */
bool mr_io_thread_receive_inline(mr_io_thread *io_thread);
/* I/O thread only: sends a message, whose parts with buffers are referred to until they are sent. If the route is
 * closed, `lost` is called, once the messages that came before have been received. False: not sent, since no connection
 * is established (yet, or any more). */
bool mr_io_thread_send(mr_io_thread *io_thread, uint32_t route, const mr_wire_part *parts, size_t count);
/* I/O thread only, for a ROUTER: the route belongs to that peer, below MR_ZMQ_MOST_KNOWN. The peer's former route is a
 * stranger's again, see mr_zmq_know. */
void mr_io_thread_identify(mr_io_thread *io_thread, uint32_t route, uint32_t peer);
/* I/O thread only: closes the connection of a DEALER and establishes another. Messages under way are lost. */
void mr_io_thread_renew(mr_io_thread *io_thread, uint32_t route);
/* How many connections the sockets have refused so far, see mr_zmq_refused. Any thread. */
uint64_t mr_io_thread_refused(const mr_io_thread *io_thread);
/* Waits until the thread ends, which `work` must bring about, and closes the sockets: for `linger_ms` queued messages
 * may still be sent. Sets *io_thread to NULL; NULL is allowed. */
void mr_io_thread_close(mr_io_thread **io_thread, int linger_ms);
