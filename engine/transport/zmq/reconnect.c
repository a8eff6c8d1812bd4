#include "engine/transport/zmq/reconnect.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "millrace/log.h"
#include "millrace/status.h"

static const int64_t FIRST_PAUSE_NS = INT64_C(1000000000), LONGEST_PAUSE_NS = INT64_C(60000000000);

enum {
    EVENTS = ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
             ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED
};

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void note(mr_zmq_reconnect *of, uint16_t event) {
    MR_LOCKED(&of->lock);
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED || event == ZMQ_EVENT_CONNECT_RETRIED) {
        of->why = NULL;
        return;
    }
    if (!of->why)
        of->since_ns = mr_now_ns();
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        of->why = "refuses the key";
    else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
        of->why = "breaks the protocol";
    else if (!of->why)
        of->why = "has ended the connection";
}

static int receive(void *events, void *data, size_t bytes) {
    int received;
    do
        received = zmq_recv(events, data, bytes, 0);
    while (received < 0 && errno == EINTR);
    return received;
}

/* An event is a kind of 16 bits and a value, and an address. Ends when the context is shut down. */
static void *watch(void *context) {
    mr_zmq_reconnect *of = context;
    unsigned char data[64];
    uint16_t event;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (receive(of->events, data, sizeof data) >= (int)sizeof event) {
        memcpy(&event, data, sizeof event);
        if (receive(of->events, data, sizeof data) >= 0)
            note(of, event);
    }
    return NULL;
}

/* ---- the owner's calls ------------------------------------------------------------------------------------------- */

int mr_zmq_reconnect_begin(mr_zmq_reconnect *of, void *context, void *socket) {
    static const char events[] = "inproc://events";
    *of = (mr_zmq_reconnect){.events = zmq_socket(context, ZMQ_PAIR), .pause_ns = FIRST_PAUSE_NS};
    mr_lock_init(&of->lock);
    if (!of->events || zmq_socket_monitor(socket, events, EVENTS) || zmq_connect(of->events, events))
        return mr_fail(MR_ERROR_UNAVAILABLE, "ZeroMQ cannot create sockets: %s", zmq_strerror(errno));
    const int error = mr_thread_create(&of->thread, watch, of);
    if (error)
        return mr_thread_fail(error, "a thread for a socket");
    of->running = true;
    pthread_setname_np(of->thread, "mr-zmq-watch");
    return MR_OK;
}

/* Why the connection is to be made anew now; NULL: it is not. */
static const char *take_reason(mr_zmq_reconnect *of, int64_t now_ns) {
    MR_LOCKED(&of->lock);
    const char *why = of->why;
    if (why && of->since_ns - of->renewed_ns > 2 * LONGEST_PAUSE_NS)
        of->pause_ns = FIRST_PAUSE_NS;
    if (!why || now_ns < of->since_ns + of->pause_ns)
        return NULL;
    of->why = NULL;
    return why;
}

bool mr_zmq_reconnect_due(mr_zmq_reconnect *of, const char *id, const char *endpoint, int64_t now_ns) {
    const char *why = of->events ? take_reason(of, now_ns) : NULL;
    if (!why)
        return false;
    mr_log_repeating(MR_LOG_WARNING, id, "%s: %s %s: connects again", id, endpoint, why);
    of->renewed_ns = now_ns;
    of->pause_ns = of->pause_ns < LONGEST_PAUSE_NS / 2 ? 2 * of->pause_ns : LONGEST_PAUSE_NS;
    return true;
}

void mr_zmq_reconnect_end(mr_zmq_reconnect *of) {
    if (of->running)
        pthread_join(of->thread, NULL);
    if (!of->events)
        return;
    zmq_close(of->events);
    pthread_mutex_destroy(&of->lock);
    of->events = NULL;
}
