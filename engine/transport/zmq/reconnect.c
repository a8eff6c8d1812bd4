#include "engine/transport/zmq/reconnect.h"

#include <errno.h>
#include <string.h>
#include <zmq.h>

#include "millrace/log.h"
#include "millrace/status.h"

static const int64_t FIRST_PAUSE_NS = INT64_C(1000000000), LONGEST_PAUSE_NS = INT64_C(60000000000);

/* Sockets that receive are looked at all the time. Those that only send may have nothing to do for hours: events that
 * come again and again, such as tries to connect, would pile up. */
enum {
    RARE = ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_SUCCEEDED,
    ALL = RARE | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED
};

int mr_zmq_reconnect_begin(mr_zmq_reconnect *of, void *context, void *socket, int type) {
    static const char events[] = "inproc://events";
    const int unlimited = 0; /* else libzmq's thread would wait until they are read */
    *of = (mr_zmq_reconnect){.events = zmq_socket(context, ZMQ_PAIR), .pause_ns = FIRST_PAUSE_NS};
    if (!of->events || zmq_setsockopt(of->events, ZMQ_RCVHWM, &unlimited, sizeof unlimited) ||
        zmq_socket_monitor(socket, events, type == ZMQ_PULL || type == ZMQ_SUB ? ALL : RARE) ||
        zmq_connect(of->events, events))
        return mr_fail(MR_ERROR_UNAVAILABLE, "ZeroMQ cannot create sockets: %s", zmq_strerror(errno));
    return MR_OK;
}

static void note(mr_zmq_reconnect *of, uint16_t event, int64_t now_ns) {
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED || event == ZMQ_EVENT_CONNECT_RETRIED) {
        of->why = NULL;
        return;
    }
    if (!of->why)
        of->since_ns = now_ns;
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        of->why = "refuses the key";
    else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
        of->why = "breaks the protocol";
    else if (!of->why)
        of->why = "has ended the connection";
}

/* An event is a kind of 16 bits and a value, and an address. */
static void read_events(mr_zmq_reconnect *of, int64_t now_ns) {
    unsigned char data[64];
    uint16_t event;
    while (zmq_recv(of->events, data, sizeof data, ZMQ_DONTWAIT) >= (int)sizeof event) {
        memcpy(&event, data, sizeof event);
        zmq_recv(of->events, data, sizeof data, ZMQ_DONTWAIT);
        note(of, event, now_ns);
    }
}

bool mr_zmq_reconnect_due(mr_zmq_reconnect *of, const char *id, const char *endpoint, int64_t now_ns) {
    if (!of->events)
        return false;
    const char *before = of->why;
    read_events(of, now_ns);
    if (of->why && !before && now_ns - of->renewed_ns > 2 * LONGEST_PAUSE_NS)
        of->pause_ns = FIRST_PAUSE_NS;
    if (!of->why || now_ns < of->since_ns + of->pause_ns)
        return false;
    mr_log_repeating(MR_LOG_WARNING, id, "%s: %s %s: connects again", id, endpoint, of->why);
    of->why = NULL;
    of->renewed_ns = now_ns;
    of->pause_ns = of->pause_ns < LONGEST_PAUSE_NS / 2 ? 2 * of->pause_ns : LONGEST_PAUSE_NS;
    return true;
}

void mr_zmq_reconnect_end(mr_zmq_reconnect *of, void *socket) {
    if (!of->events)
        return;
    zmq_socket_monitor(socket, NULL, 0);
    zmq_close(of->events);
    of->events = NULL;
}
