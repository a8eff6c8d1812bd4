#include "stages/zmq/zmq_sink.h"

#include <errno.h>
#include <string.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "stages/sink/output.h"

const char *const mr_zmq_encodings[] = {"json", "protobuf", NULL};
const char *const mr_zmq_payloads[] = {"none", "raw", NULL};

/* The socket receives subscriptions. */
enum { MOST_RECEIVED = 65536 };
/* How long a message waits before the log says so. */
static const int64_t QUIET_NS = INT64_C(3000000000);

int mr_zmq_sink_negotiate(mr_negotiation *negotiation) {
    const mr_zmq_sink_options *given = negotiation->options;
    mr_payload payload = negotiation->inputs[0].set.payload;
    if (given->payload != MR_ZMQ_PAYLOAD_RAW) {
        negotiation->shows = given->features ? MR_IN_SET(MR_PAYLOAD_TENSOR) : 0;
        negotiation->blind = !given->features;
    }
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
    mr_zmq_unsent_init(&at->unsent, self);
    at->topics = type == ZMQ_XPUB;
    int status = mr_record_open(&at->record);
    if (!status)
        status = mr_zmq_message_create(&at->message);
    if (status || !given->link.endpoint)
        return status;
    status = mr_zmq_link_create(&at->socket, self, &given->link, type, MOST_RECEIVED);
    for (const int *one = switches; !status && *one; one++)
        if (zmq_setsockopt(mr_zmq_handle(at->socket), *one, &yes, sizeof yes))
            status = mr_fail(MR_ERROR_INTERNAL, "ZeroMQ refuses an option: %s", zmq_strerror(errno));
    return status ? status : mr_zmq_link_attach(at->socket, self, &given->link);
}

/* Even if nothing is left, libzmq may still hold the end of the last message. */
static void close_socket(mr_stage *self, const char *reason) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    const size_t left = mr_zmq_unsent_drop(&at->unsent, MR_SOURCE_NONE, reason);
    mr_zmq_close(&at->socket, left || mr_stage_cancelled(self) ? 0 : (int)(given->linger / 1000000));
}

void mr_zmq_sink_close(mr_stage *self) {
    mr_zmq_sink *at = self->state;
    if (at->unsent.self)
        close_socket(self, MR_REASON_STOPPED);
    mr_zmq_unsent_fini(&at->unsent);
    mr_zmq_message_destroy(&at->message);
    mr_record_close(&at->record);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

typedef struct outgoing {
    mr_io *io;
    const mr_frame *frame; /* NULL: the source has ended */
    uint32_t source;
    const char *topic; /* NULL: none */
    const void *record;
    size_t bytes;
    bool payload; /* the frame's follows */
} outgoing;

/* A message that waits: since it began, or since another one was sent. */
typedef struct waiting {
    int64_t since_ns; /* 0: it has not waited */
    uint64_t sent;
    bool told;
} waiting;

/* Waits for programs. MR_ERROR_AGAIN: the message of an end has waited for `linger`, and none was sent. Then no program
 * may ever come for it. `counted`: the frame is among the unsent ones. */
static int await(const mr_stage *self, const outgoing *message, bool counted, waiting *w) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    const int64_t now_ns = mr_now_ns();
    const uint64_t sent = mr_zmq_unsent_sent(&at->unsent);
    if (!w->since_ns || w->sent != sent)
        *w = (waiting){.since_ns = now_ns, .sent = sent, .told = w->told};
    const int64_t untaken = message->frame && !counted;
    mr_stage_count_untaken(self, untaken);
    const int status = mr_zmq_link_wait(at->socket, self, at->topics ? ZMQ_POLLIN : ZMQ_POLLOUT);
    mr_stage_count_untaken(self, -untaken);
    const int64_t waits_ns = now_ns - w->since_ns;
    if (!status && !message->frame && waits_ns >= given->linger)
        return MR_ERROR_AGAIN;
    if (!status && !w->told && waits_ns >= QUIET_NS) {
        w->told = true;
        mr_stage_warn(self, at->topics ? "waits for subscribers at %s" : "waits until a program takes messages at %s",
                      mr_zmq_endpoint(at->socket));
    }
    return status < 0 ? status : MR_OK;
}

/* ---- subscribers ----------------------------------------------------------------------------------------------- */

/* Reads subscriptions: 1 and a topic; 0 and a cancelled topic. */
static void hear_subscribers(mr_zmq_sink *at) {
    zmq_msg_t update;
    zmq_msg_init(&update);
    while (mr_zmq_receive(at->socket, &update) > 0) {
        const char first = *(const char *)zmq_msg_data(&update);
        at->subscribers += first == 1 ? 1 : first == 0 ? -1 : 0;
    }
    zmq_msg_close(&update);
}

static int await_subscribers(const mr_stage *self, const outgoing *message) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    waiting w = {0};
    hear_subscribers(at);
    while (!at->begun && at->subscribers < given->subscribers) {
        int status = await(self, message, false, &w);
        if (status)
            return status;
        hear_subscribers(at);
    }
    at->begun = true;
    return MR_OK;
}

/* ---- sending --------------------------------------------------------------------------------------------------- */

/* Makes a message's last part. */
static int make_last(mr_zmq_sink *at, const outgoing *message, zmq_msg_t *part, size_t bytes) {
    mr_receipt *held = message->frame ? mr_io_hold(message->io, message->frame) : NULL;
    int status = mr_zmq_unsent_make(&at->unsent, part, bytes, &held, message->source);
    mr_stage_release(at->unsent.self, &held, NULL);
    return status;
}

/* libzmq accepts later parts with the first: a message cannot be sent in part. */
static int send_first(const mr_stage *self, const outgoing *message, zmq_msg_t *part) {
    mr_zmq_sink *at = self->state;
    waiting w = {0};
    for (;;) {
        if (zmq_msg_send(part, mr_zmq_handle(at->socket), ZMQ_DONTWAIT | (message->payload ? ZMQ_SNDMORE : 0)) >= 0)
            return MR_OK;
        int status = errno == EAGAIN || errno == EINTR
                         ? await(self, message, !message->payload, &w)
                         : mr_fail(MR_ERROR_IO, "%s: %s", mr_zmq_endpoint(at->socket), zmq_strerror(errno));
        if (status)
            return status;
    }
}

/* MR_ERROR_AGAIN: see `await`. */
static int send_record(mr_zmq_sink *at, const mr_stage *self, const outgoing *message) {
    zmq_msg_t part;
    int status = MR_OK;
    if (!message->payload)
        status = make_last(at, message, &part, message->bytes);
    else if (zmq_msg_init_size(&part, message->bytes))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for a message of %zu bytes", message->bytes);
    if (status)
        return status;
    memcpy(zmq_msg_data(&part), message->record, message->bytes);
    status = send_first(self, message, &part);
    zmq_msg_close(&part);
    return status;
}

/* MR_ERROR_AGAIN: the peer that got the record has disconnected, and ZeroMQ has withdrawn it. */
static int send_payload(mr_zmq_sink *at, const outgoing *message) {
    zmq_msg_t part;
    size_t bytes = mr_zmq_payload_bytes(message->frame);
    int status = make_last(at, message, &part, bytes);
    if (status)
        return status;
    if (bytes)
        mr_zmq_payload_copy(message->frame, zmq_msg_data(&part));
    if (zmq_msg_send(&part, mr_zmq_handle(at->socket), ZMQ_DONTWAIT) < 0)
        status = errno == EAGAIN || errno == EINTR
                     ? MR_ERROR_AGAIN
                     : mr_fail(MR_ERROR_IO, "%s: %s", mr_zmq_endpoint(at->socket), zmq_strerror(errno));
    zmq_msg_close(&part);
    return status;
}

/* MR_ERROR_AGAIN: a subscriber has no room. ZeroMQ checks only before the first part. */
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
    mr_zmq_keep(at->socket); /* one that publishes never waits */
    int status = message->topic ? await_subscribers(self, message) : MR_OK;
    if (!status && message->topic)
        status = send_topic(at, message->topic);
    if (status)
        return status;
    do {
        status = send_record(at, self, message);
        if (!status && message->payload)
            status = send_payload(at, message);
    } while (status == MR_ERROR_AGAIN && message->frame && !message->topic);
    return status;
}

/* A message's first part, which subscribers filter by; NULL: messages have none. */
static const char *topic_of(const mr_stage *self, uint32_t source) {
    const mr_zmq_sink_options *given = self->options;
    const mr_zmq_sink *at = self->state;
    return !at->topics ? NULL : given->topic ? given->topic : mr_stage_source_id(self, source);
}

static int write_record(mr_stage *self, const mr_recorded *recorded, outgoing *message) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    if (given->encoding == MR_ZMQ_PROTOBUF) {
        const uint8_t *data = NULL;
        int status = mr_zmq_message_make(at->message, recorded, &data, &message->bytes);
        message->record = data;
        return status;
    }
    message->record = mr_record_make(&at->record, recorded, &message->bytes);
    message->bytes--; /* the newline */
    return MR_OK;
}

int mr_zmq_sink_process(mr_stage *self, mr_io *io) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    const mr_frame *frame = mr_io_input(io);
    char text[MR_FORMAT_TEXT];
    const char *format = given->payload == MR_ZMQ_PAYLOAD_RAW ? mr_zmq_payload_format(frame, text) : NULL;
    outgoing message = {.io = io, .frame = frame, .source = frame->identity.source, .payload = format,
                        .topic = topic_of(self, frame->identity.source)};
    const mr_recorded recorded = {.frame = frame, .source = mr_stage_source_id(self, frame->identity.source),
                                  .format = format, .features = given->features, .tensors = given->tensors};
    int status = write_record(self, &recorded, &message);
    if (!status)
        status = send_all(self, &message);
    if (status == MR_ERROR_AGAIN)
        mr_io_drop(io, frame, "slow subscriber");
    if (!status || status == MR_ERROR_AGAIN)
        return MR_DONE;
    status = mr_output_failed(io, frame, status);
    if (status < 0 && at->socket)
        close_socket(self, "failed"); /* After a failure, no end message follows. */
    return status;
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

/* Frames may be dropped, but subscribers should learn about the end: waits until all have room, as long as messages are
 * being sent. */
static int publish_end(mr_stage *self, const outgoing *message) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    int status = send_all(self, message);
    if (status == MR_ERROR_AGAIN && at->begun) {
        status = mr_zmq_unsent_await(&at->unsent, MR_SOURCE_NONE, given->linger);
        hear_subscribers(at);
        if (status != MR_ERROR_CANCELLED)
            status = send_all(self, message);
    }
    if (status == MR_ERROR_AGAIN)
        mr_stage_warn(self, "the message of the end was not sent: %s",
                      at->begun ? "a subscriber has no room for it" : "too few subscribers came");
    return status;
}

/* libzmq notices new room for messages when asked for events, and only sometimes when it sends. */
static void hear_of_room(mr_zmq_sink *at) {
    int events;
    size_t bytes = sizeof events;
    zmq_getsockopt(mr_zmq_handle(at->socket), ZMQ_EVENTS, &events, &bytes);
}

/* ZeroMQ gives each message to the next program with room. For each program to get one, all must have room, which they
 * do once all messages are sent. */
static int push_end(mr_stage *self, const outgoing *message) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    int programs = mr_zmq_present(at->socket), status = MR_OK;
    if (programs > 1)
        status = mr_zmq_unsent_await(&at->unsent, MR_SOURCE_NONE, given->linger);
    if (status == MR_ERROR_AGAIN)
        mr_stage_warn(self, "the message of the end goes to one program only: another takes no messages");
    if (status == MR_ERROR_CANCELLED)
        return status;
    programs = status || programs < 1 ? 1 : programs;
    hear_of_room(at);
    for (int i = 0; i < programs; i++)
        if ((status = send_all(self, message)))
            break;
    if (status == MR_ERROR_AGAIN)
        mr_stage_warn(self, "the message of the end was not sent: no program took it for %.1f s (linger)",
                      (double)given->linger / 1e9);
    return status;
}

static int send_end(mr_stage *self, mr_io *io, uint32_t source) {
    mr_zmq_sink *at = self->state;
    const mr_recorded recorded = {.source = mr_stage_source_id(self, source)};
    outgoing message = {.io = io, .source = source, .topic = topic_of(self, source)};
    int status = write_record(self, &recorded, &message);
    if (status)
        return status;
    return at->topics ? publish_end(self, &message) : push_end(self, &message);
}

/* Waits until frames that must not stay in flight were sent, or drops them. */
static void settle(mr_stage *self, mr_io *io, uint32_t source) {
    const mr_zmq_sink_options *given = self->options;
    mr_zmq_sink *at = self->state;
    const mr_release which = mr_io_must_release(io);
    const uint32_t of = which == MR_RELEASE_ALL ? MR_SOURCE_NONE : source;
    if (which == MR_RELEASE_NONE)
        return;
    int status = mr_zmq_unsent_await(&at->unsent, of, given->linger);
    if (!status)
        return;
    const size_t left = mr_zmq_unsent_drop(&at->unsent, of, status == MR_ERROR_AGAIN ? "not taken" : MR_REASON_STOPPED);
    if (left && status == MR_ERROR_AGAIN)
        mr_stage_warn(self, "%zu messages are dropped: none was taken for %.1f s (linger)", left,
                      (double)given->linger / 1e9);
    if (which == MR_RELEASE_ALL)
        mr_zmq_close(&at->socket, 0); /* libzmq must not send them any more */
}

int mr_zmq_sink_flush(mr_stage *self, mr_io *io, uint32_t source) {
    const mr_zmq_sink_options *given = self->options;
    const mr_zmq_sink *at = self->state;
    if (!at->socket)
        return MR_DONE;
    int status = given->end ? send_end(self, io, source) : MR_OK;
    if (status == MR_ERROR_AGAIN || status == MR_ERROR_CANCELLED)
        status = MR_OK;
    settle(self, io, source);
    return status ? status : MR_DONE;
}
