/* Shared by zmq.pub and zmq.push: frames become messages.
 *
 * A message is [topic] record [payload]. Only zmq.pub has a topic: the source's id, unless the option sets another. A
 * frame is in flight until libzmq has written its message to a connection (zmq_unsent.h), and then counts as delivered.
 * At the run's end the stage waits as long as messages are still being sent. If none is sent for `linger`, the rest is
 * dropped. Threads and errors: as for a shared, blocking stage. */
#pragma once

#include "stages/sink/record_json.h"
#include "stages/zmq/zmq_link.h"
#include "stages/zmq/zmq_message.h"
#include "stages/zmq/zmq_unsent.h"

enum { MR_ZMQ_JSON, MR_ZMQ_PROTOBUF };
enum { MR_ZMQ_PAYLOAD_NONE, MR_ZMQ_PAYLOAD_RAW };
enum { MR_ZMQ_SLOW_DROP, MR_ZMQ_SLOW_LEAVE_OUT }; /* zmq.pub */

typedef struct mr_zmq_sink_options {
    mr_zmq_link link;
    int encoding, payload;
    bool features, tensors, end;
    int64_t linger;
    const char *topic;   /* zmq.pub */
    int64_t subscribers; /* zmq.pub */
    int slow;            /* zmq.pub */
} mr_zmq_sink_options;

typedef struct mr_zmq_sink {
    mr_zmq *socket; /* NULL: nothing is sent, since the run only measures */
    mr_record record;
    mr_zmq_message *message;
    mr_zmq_unsent unsent;
    int64_t subscribers; /* now; zmq.pub */
    bool topics;         /* messages begin with one; zmq.pub */
    bool begun;          /* as many peers came as were waited for */
} mr_zmq_sink;

extern const char *const mr_zmq_encodings[];
extern const char *const mr_zmq_payloads[];

#define MR_ZMQ_SINK_FIELD(name) offsetof(mr_zmq_sink_options, name)
#define MR_ZMQ_SINK_OPTIONS                                                                                            \
    MR_ZMQ_LINK_OPTIONS(mr_zmq_sink_options, MR_FILE_SENT, "how many messages may wait for one peer"),                 \
    {.name = "encoding", .kind = MR_OPTION_ENUM, .offset = MR_ZMQ_SINK_FIELD(encoding), .fallback = "json",            \
     .choices = mr_zmq_encodings,                                                                                      \
     .help = "the record's encoding: json, as jsonl writes it, or protobuf, message Record in proto/results.proto"},   \
    {.name = "payload", .kind = MR_OPTION_ENUM, .offset = MR_ZMQ_SINK_FIELD(payload), .fallback = "none",              \
     .choices = mr_zmq_payloads,                                                                                       \
     .help = "the part after the record: none, or the picture, tensor or packet itself, without padding"},             \
    {.name = "features", .kind = MR_OPTION_BOOL, .offset = MR_ZMQ_SINK_FIELD(features), .fallback = "false",           \
     .help = "put the tensor that the frame carries into the record"},                                                 \
    {.name = "tensors", .kind = MR_OPTION_BOOL, .offset = MR_ZMQ_SINK_FIELD(tensors), .fallback = "false",             \
     .help = "put the named tensors that stages before gave into the record"},                                         \
    {.name = "end", .kind = MR_OPTION_BOOL, .offset = MR_ZMQ_SINK_FIELD(end), .fallback = "true",                      \
     .help = "send a record with only source and end when a source ends; zmq.push sends one to each program"},         \
    {.name = "linger", .kind = MR_OPTION_DURATION, .offset = MR_ZMQ_SINK_FIELD(linger), .fallback = "3s", .min = 0,    \
     .max = 86400e9,                                                                                                   \
     .help = "how long the end of the run waits for the next message to be sent, if peers take none; messages that "   \
             "are left then are dropped, \"not taken\""}

int mr_zmq_sink_negotiate(mr_negotiation *negotiation);
/* Opens a socket of that type and sets these options to 1; 0 ends the list. */
int mr_zmq_sink_open(mr_stage *self, int type, const int *switches);
int mr_zmq_sink_process(mr_stage *self, mr_io *io);
int mr_zmq_sink_flush(mr_stage *self, mr_io *io, uint32_t source);
void mr_zmq_sink_close(mr_stage *self);

/* What both stage types have in common. */
#define MR_ZMQ_SINK_TYPE                                                                                               \
    .options_bytes = sizeof(mr_zmq_sink_options), .state_bytes = sizeof(mr_zmq_sink), .entry = MR_ENTRY_SHARED,        \
    .blocking = true, .resumes = true, .negotiate = mr_zmq_sink_negotiate, .process = mr_zmq_sink_process,             \
    .flush = mr_zmq_sink_flush, .close = mr_zmq_sink_close
