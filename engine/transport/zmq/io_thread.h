/* A carrier: the thread behind one end of a cut, with its ZeroMQ sockets. It brings whole messages from and to its
 * owner and knows nothing of what they say.
 *
 * One ROUTER that binds, where every peer is a route with a number of its own, never used again; or some DEALERs that
 * connect, whose routes are 0, 1, ... Nothing waits for a peer: what cannot be sent at once is lost, without a word,
 * which the protocol above is made for; it has credit, so that queues need no limit of their own.
 *
 * All of the owner's functions are called by whoever has the carrier's duty: its thread or, of `listen` and `work` and
 * what they bring about, whoever takes a turn while that sleeps. It is one thread at a time. mr_io_thread_wake may be
 * called by any thread; it costs a system call only where the carrier sleeps. */
#ifndef MILLRACE_TRANSPORT_CARRIER_H
#define MILLRACE_TRANSPORT_CARRIER_H

#include "engine/transport/wire/wire.h"
#include "engine/transport/zmq/socket.h"

typedef struct mr_io_thread mr_io_thread;

typedef struct mr_io_thread_params {
    const char *id;              /* of the cut: its thread's name, and for messages */
    size_t socket_count;
    const mr_zmq_params *sockets; /* one of type ZMQ_ROUTER, or any number of ZMQ_DEALER */
    size_t most_routes;          /* of a ROUTER: who was not heard of for longest is forgotten where there are more, but for
                                    those that are known */
    /* A message: parts are borrowed, those with a buffer may be kept by a reference to it. No parts: what came can be
     * no message. */
    void (*receive)(void *context, uint32_t route, const mr_wire_part *parts, size_t count);
    /* Nobody can be reached there any more. */
    void (*lost)(void *context, uint32_t route);
    /* Does what there is to do, now that messages have come, the carrier was woken, or it is *wake_ns (on the clock of
     * mr_clock_real). Sets *wake_ns to when it is to be called again at the latest. False: the thread ends. */
    bool (*work)(void *context, int64_t *wake_ns);
    /* Hears what has come by another way than the sockets, and does no more; `work` does so, too. NULL: there is none. */
    void (*listen)(void *context);
    void *context;
} mr_io_thread_params;

/* Opens the sockets; nothing is called before mr_io_thread_start. Errors are those of mr_zmq_create and mr_zmq_attach. */
int mr_io_thread_open(mr_io_thread **io_thread, const mr_io_thread_params *params);
/* Before it begins: `work` is called, too, when that descriptor is readable, which `work` sees to. */
void mr_io_thread_watch(mr_io_thread *io_thread, int fd);
/* Starts the thread. MR_ERROR_MEMORY. */
int mr_io_thread_start(mr_io_thread *io_thread);
void mr_io_thread_wake(mr_io_thread *io_thread);
/* The same, but where it sleeps the caller does the work itself, at once, and lets it sleep on. Any thread but its own
 * that holds no lock which `work` may take. */
void mr_io_thread_work_inline(mr_io_thread *io_thread);
/* As that, but where it sleeps the caller only listens, so as to go on with what has come at once: true, and it is to
 * take a turn soon. */
bool mr_io_thread_receive_inline(mr_io_thread *io_thread);
/* By whoever has its duty: sends a message, whose parts with buffers are referred to until they are out. Where the
 * route is gone, `lost` is called by the way. False: not sent, since nobody is connected there (yet). */
bool mr_io_thread_send(mr_io_thread *io_thread, uint32_t route, const mr_wire_part *parts, size_t count);
/* By whoever has its duty, of a ROUTER: the route is that peer's, below MR_ZMQ_MOST_KNOWN, and any that was its before
 * is a stranger's again, see mr_zmq_know. */
void mr_io_thread_identify(mr_io_thread *io_thread, uint32_t route, uint32_t peer);
/* By whoever has its duty: closes the connection of a DEALER, and makes another. What was under way is lost. */
void mr_io_thread_renew(mr_io_thread *io_thread, uint32_t route);
/* Connections that its sockets have refused so far, see mr_zmq_refused. Any thread. */
uint64_t mr_io_thread_refused(const mr_io_thread *io_thread);
/* Waits for the thread's end, which `work` must bring about, and closes the sockets: for `linger_ms` what is not sent
 * yet may still go out. Sets *carrier to NULL; NULL is allowed. */
void mr_io_thread_close(mr_io_thread **io_thread, int linger_ms);

#endif
