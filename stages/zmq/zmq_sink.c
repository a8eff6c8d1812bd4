#include "stages/zmq/zmq_sink.h"

#include <errno.h>
#include <string.h>
#include <zmq.h>

#include "stages/sink/output.h"

const char *const mr_zmq_encodings[] = {"json", "protobuf", NULL};
const char *const mr_zmq_payloads[] = {"none", "raw", NULL};

/* The socket receives subscriptions. */
enum { MOST_RECEIVED = 65536 };

int mr_zmq_sink_negotiate(mr_negotiation *negotiation) {
    const mr_zmq_sink_options *given = negotiation->options;
    mr_payload payload = negotiation->inputs[0].set.payload;
    int status = mr_zmq_link_negotiate(negotiation, &given->link);
    if (!status && given->payload == MR_ZMQ_PAYLOAD_RAW && payload == MR_PAYLOAD_RESULTS)
        status = mr_refuse(negotiation, "payload", "%s gives results alone: there is no payload to send",
                           negotiation->inputs[0].from);
    return status ? status : mr_record_check(negotiation, given->features, given->tensors);
}

int mr_zmq_sink_open(mr_stage *self, int type, const int *switches) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    const int yes = 1;
    at->topics = type == ZMQ_XPUB;
    at->record = (mr_record){.features = given->features, .tensors = given->tensors};
    int status = mr_record_open(&at->record);
    if (!status)
        status = mr_zmq_message_create(&at->message, given->features, given->tensors);
    if (status || !given->link.endpoint)
        return status;
    status = mr_zmq_link_create(&at->socket, self, &given->link, type, MOST_RECEIVED);
    for (const int *one = switches; !status && *one; one++)
        if (zmq_setsockopt(mr_zmq_handle(at->socket), *one, &yes, sizeof yes))
            status = mr_fail(MR_ERROR_INTERNAL, "ZeroMQ refuses an option: %s", zmq_strerror(errno));
    return status ? status : mr_zmq_link_attach(at->socket, self, &given->link);
}

void mr_zmq_sink_close(mr_stage *self) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    mr_zmq_close(&at->socket, mr_stage_cancelled(self) ? 0 : (int)(given->linger / 1000000));
    mr_zmq_message_destroy(&at->message);
    mr_record_close(&at->record);
}

/* ---- subscribers ----------------------------------------------------------------------------------------------- */

/* Reads subscriptions: 1 and a topic, or 0 and a topic that is cancelled. */
static void hear_subscribers(mr_zmq_sink *at) {
    char update[1];
    while (zmq_recv(mr_zmq_handle(at->socket), update, sizeof update, ZMQ_DONTWAIT) > 0)
        at->subscribers += update[0] == 1 ? 1 : update[0] == 0 ? -1 : 0;
}

static int await_subscribers(mr_stage *self) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    hear_subscribers(at);
    while (!at->begun && at->subscribers < given->subscribers) {
        int status = mr_zmq_link_wait(at->socket, self, ZMQ_POLLIN);
        if (status < 0)
            return status;
        hear_subscribers(at);
    }
    at->begun = true;
    return MR_OK;
}

/* ---- sending --------------------------------------------------------------------------------------------------- */

typedef struct outgoing {
    const char *topic; /* NULL: none */
    const void *record;
    size_t bytes;
    const mr_frame *payload; /* NULL: none */
} outgoing;

/* Parts behind the first are taken with it: ZeroMQ has no half messages. */
static int send_part(mr_zmq_sink *at, const mr_stage *self, zmq_msg_t *part, bool more) {
    for (;;) {
        if (zmq_msg_send(part, mr_zmq_handle(at->socket), ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0)
            return MR_OK;
        int status = errno == EAGAIN || errno == EINTR
                         ? mr_zmq_link_wait(at->socket, self, ZMQ_POLLOUT)
                         : mr_fail(MR_ERROR_IO, "%s: %s", mr_zmq_endpoint(at->socket), zmq_strerror(errno));
        if (status < 0)
            return status;
    }
}

static int send_bytes(mr_zmq_sink *at, const mr_stage *self, const void *data, size_t bytes, bool more) {
    zmq_msg_t part;
    if (zmq_msg_init_size(&part, bytes))
        return mr_fail(MR_ERROR_MEMORY, "no memory for a message of %zu bytes", bytes);
    memcpy(zmq_msg_data(&part), data, bytes);
    int status = send_part(at, self, &part, more);
    zmq_msg_close(&part);
    return status;
}

/* MR_ERROR_AGAIN: the peer that had the record has disconnected, and ZeroMQ has withdrawn it. */
static int send_payload(mr_zmq_sink *at, const mr_frame *frame) {
    zmq_msg_t part;
    size_t bytes = mr_zmq_payload_bytes(frame);
    if (zmq_msg_init_size(&part, bytes))
        return mr_fail(MR_ERROR_MEMORY, "no memory for a message of %zu bytes", bytes);
    if (bytes)
        mr_zmq_payload_copy(frame, zmq_msg_data(&part));
    int status = MR_OK;
    if (zmq_msg_send(&part, mr_zmq_handle(at->socket), ZMQ_DONTWAIT) < 0)
        status = errno == EAGAIN || errno == EINTR
                     ? MR_ERROR_AGAIN
                     : mr_fail(MR_ERROR_IO, "%s: %s", mr_zmq_endpoint(at->socket), zmq_strerror(errno));
    zmq_msg_close(&part);
    return status;
}

/* MR_ERROR_AGAIN: a subscriber has no room for it. ZeroMQ asks only before the first part. */
static int send_topic(mr_zmq_sink *at, const char *topic) {
    if (zmq_send(mr_zmq_handle(at->socket), topic, strlen(topic), ZMQ_DONTWAIT | ZMQ_SNDMORE) >= 0)
        return MR_OK;
    return errno == EAGAIN || errno == EINTR
               ? MR_ERROR_AGAIN
               : mr_fail(MR_ERROR_IO, "%s: %s", mr_zmq_endpoint(at->socket), zmq_strerror(errno));
}

static int send_all(mr_stage *self, const outgoing *message) {
    mr_zmq_sink *at = self->state;
    if (!at->socket)
        return MR_OK;
    int status = message->topic ? await_subscribers(self) : MR_OK;
    if (!status && message->topic)
        status = send_topic(at, message->topic);
    if (status)
        return status;
    do {
        status = send_bytes(at, self, message->record, message->bytes, message->payload != NULL);
        if (!status && message->payload)
            status = send_payload(at, message->payload);
    } while (status == MR_ERROR_AGAIN && !message->topic);
    return status;
}

/* The first part of the message, by which subscribers choose; NULL: messages have none. */
static const char *topic_of(const mr_stage *self, uint32_t source) {
    const mr_zmq_sink_options *given = self->options;
    const mr_zmq_sink *at = self->state;
    return !at->topics ? NULL : given->topic ? given->topic : mr_stage_source_id(self, source);
}

int mr_zmq_sink_process(mr_stage *self, mr_io *io) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    const mr_frame *frame = mr_io_input(io);
    char text[MR_FORMAT_TEXT];
    const char *format = given->payload == MR_ZMQ_PAYLOAD_RAW ? mr_zmq_payload_format(frame, text) : NULL;
    outgoing message = {.topic = topic_of(self, frame->identity.source), .payload = format ? frame : NULL};
    int status = MR_OK;
    if (given->encoding == MR_ZMQ_PROTOBUF) {
        const uint8_t *data = NULL;
        status = mr_zmq_message_make(at->message, self, frame, format, &data, &message.bytes);
        message.record = data;
    } else {
        at->record.format = format;
        message.record = mr_record_make(&at->record, self, frame, &message.bytes);
        message.bytes--; /* the newline */
    }
    if (!status)
        status = send_all(self, &message);
    if (status == MR_ERROR_AGAIN)
        mr_io_drop(io, frame, "slow subscriber");
    return !status || status == MR_ERROR_AGAIN ? MR_DONE : mr_output_failed(io, frame, status);
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

/* Frames may be dropped, but subscribers should know of the end: waits a while until all have room. */
static int send_end(mr_stage *self, mr_io *io, const outgoing *message) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    int64_t until_ns = mr_io_now_ns(io) + given->linger;
    int status = send_all(self, message);
    while (status == MR_ERROR_AGAIN && mr_io_now_ns(io) < until_ns) {
        status = mr_zmq_link_wait(at->socket, self, ZMQ_POLLIN);
        hear_subscribers(at);
        if (status >= 0)
            status = send_all(self, message);
    }
    if (status == MR_ERROR_AGAIN)
        mr_stage_warn(self, "the message of the end was not sent: a subscriber has no room for it");
    return status == MR_ERROR_AGAIN || status == MR_ERROR_CANCELLED ? MR_DONE : status;
}

int mr_zmq_sink_flush(mr_stage *self, mr_io *io, uint32_t source) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    const char *id = mr_stage_source_id(self, source);
    outgoing message = {.topic = topic_of(self, source)};
    int status = MR_OK;
    if (!given->end)
        return MR_DONE;
    if (given->encoding == MR_ZMQ_PROTOBUF) {
        const uint8_t *data = NULL;
        status = mr_zmq_message_make_end(at->message, id, &data, &message.bytes);
        message.record = data;
    } else {
        message.record = mr_record_make_end(&at->record, id, &message.bytes);
        message.bytes--;
    }
    return status ? status : send_end(self, io, &message);
}
