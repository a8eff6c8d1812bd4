/* millrace/channel.h: PUSH and PULL sockets. */
#include "millrace/channel.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/transport/zmq/socket.h"
#include "millrace/status.h"

/* Messages that wait at either end. A sender tries to connect again ever more slowly. */
enum { KEPT = 8, FIRST_TRY_MS = 200, LATER_TRY_MS = 5000 };
/* A machine that has disappeared answers nothing, and the system would send it the same data again for a quarter of an
 * hour. libzmq's own thread answers for a receiver. */
enum { ASK_MS = 5000, ANSWER_MS = 20000 };
/* How long a close may take, besides the linger time. */
enum { LOOK_MS = 2, PATIENCE_MS = 200 };

struct mr_channel {
    mr_zmq *socket;
    bool connects;
    int linger_ms;     /* once it is closed */
    zmq_msg_t message; /* the last one received */
};

static int open_channel(mr_channel **result, const mr_zmq_params *params) {
    mr_channel *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a channel");
    made->connects = !params->bind;
    zmq_msg_init(&made->message);
    int status = mr_zmq_create(&made->socket, params);
    /* No message is kept while there is no connection. ZMQ_CONFLATE, which keeps the newest, loses it at the close. */
    const int one = 1, first = FIRST_TRY_MS, later = LATER_TRY_MS, ask = ASK_MS, answer = ANSWER_MS;
    void *socket = status ? NULL : mr_zmq_handle(made->socket);
    if (!status && !params->bind && (zmq_setsockopt(socket, ZMQ_IMMEDIATE, &one, sizeof one) ||
                                     zmq_setsockopt(socket, ZMQ_RECONNECT_IVL, &first, sizeof first) ||
                                     zmq_setsockopt(socket, ZMQ_RECONNECT_IVL_MAX, &later, sizeof later) ||
                                     zmq_setsockopt(socket, ZMQ_HEARTBEAT_IVL, &ask, sizeof ask) ||
                                     zmq_setsockopt(socket, ZMQ_HEARTBEAT_TIMEOUT, &answer, sizeof answer)))
        status = mr_fail(MR_ERROR_INTERNAL, "ZeroMQ refuses an option: %s", zmq_strerror(errno));
    if (!status)
        status = mr_zmq_attach(made->socket);
    *result = made;
    if (status)
        mr_channel_close(result, 0);
    return status;
}

int mr_channel_connect(mr_channel **channel, const char *endpoint, const char *key, const char *server) {
    return open_channel(channel, &(mr_zmq_params){.id = "hub", .type = ZMQ_PUSH, .endpoint = endpoint, .key = key,
                                                  .server = server, .send_hwm = KEPT, .receive_hwm = 1,
                                                  .keeps = true});
}

int mr_channel_listen(mr_channel **channel, const char *endpoint, const char *key, const char *allow, size_t most_bytes,
                      int most_peers) {
    return open_channel(channel, &(mr_zmq_params){.id = "hub", .type = ZMQ_PULL, .endpoint = endpoint, .bind = true,
                                                  .key = key, .allow_count = allow ? 1 : 0, .allow = &allow,
                                                  .send_hwm = 1, .receive_hwm = KEPT, .max_peers = most_peers,
                                                  .max_message_bytes = (int64_t)most_bytes});
}

int mr_channel_allow(mr_channel *channel, const char *allow) {
    return mr_zmq_allow(channel->socket, allow);
}

const char *mr_channel_endpoint(const mr_channel *channel) {
    return mr_zmq_endpoint(channel->socket);
}

int mr_channel_send(mr_channel *channel, const void *data, size_t bytes) {
    int sent;
    mr_zmq_keep(channel->socket);
    do
        sent = zmq_send(mr_zmq_handle(channel->socket), data, bytes, ZMQ_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN)
        return mr_fail(MR_ERROR_IO, "cannot send a message: %s", zmq_strerror(errno));
    return sent >= 0 ? MR_OK : MR_ERROR_AGAIN;
}

/* Reads the rest of a message that has several parts. */
static void drop_parts(mr_channel *channel) {
    while (zmq_msg_more(&channel->message))
        if (mr_zmq_receive(channel->socket, &channel->message) < 0)
            return;
}

int mr_channel_receive(mr_channel *channel, const void **data, size_t *bytes, int64_t timeout_ns) {
    zmq_pollitem_t item = {.socket = mr_zmq_handle(channel->socket), .events = ZMQ_POLLIN};
    const int came = zmq_poll(&item, 1, (long)(timeout_ns / 1000000));
    if (came < 0 && errno != EINTR)
        return mr_fail(MR_ERROR_IO, "cannot wait for messages: %s", zmq_strerror(errno));
    if (came == 0)
        mr_zmq_note_empty(channel->socket);
    if (came <= 0 || mr_zmq_receive(channel->socket, &channel->message) < 0)
        return MR_ERROR_AGAIN;
    if (zmq_msg_more(&channel->message)) {
        drop_parts(channel);
        return MR_ERROR_AGAIN;
    }
    *data = zmq_msg_data(&channel->message);
    *bytes = zmq_msg_size(&channel->message);
    return MR_OK;
}

int mr_channel_peers(const mr_channel *channel) {
    return mr_zmq_present(channel->socket);
}

uint64_t mr_channel_refused(const mr_channel *channel) {
    return mr_zmq_refused(channel->socket);
}

static void *close_channel(void *context) {
    mr_channel *gone = context;
    zmq_msg_close(&gone->message);
    mr_zmq_close(&gone->socket, gone->linger_ms);
    mr_free(gone);
    return NULL;
}

/* libzmq's close waits while its thread looks a name up, which may take a minute if no name server answers. So another
 * thread closes a channel that connects. If that takes longer, it is left alone; usually the process ends then. */
void mr_channel_close(mr_channel **channel, int linger_ms) {
    mr_channel *gone = *channel;
    pthread_t thread;
    *channel = NULL;
    if (!gone)
        return;
    gone->linger_ms = linger_ms;
    if (!gone->connects || mr_thread_create(&thread, close_channel, gone)) {
        close_channel(gone);
        return;
    }
    for (int waited_ms = 0; waited_ms < linger_ms + PATIENCE_MS; waited_ms += LOOK_MS) {
        if (!pthread_tryjoin_np(thread, NULL))
            return;
        usleep(LOOK_MS * 1000);
    }
    pthread_detach(thread);
}
