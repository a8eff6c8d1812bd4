/* Shared by zmq.pull and zmq.sub: other programs' messages become source frames.
 *
 * A message is [topic] record [payload]. The record is JSON or protobuf (proto/results.proto), recognised by its first
 * byte; the fields id, pts, format and end are used. The payload is an encoded image, recognised by content, or a
 * picture or tensor if the source has a `format`. Any other message is refused: it counts as a dropped frame, "bad
 * message", and cannot end the source. Threads: as for a source with one thread. */
#pragma once

#include <zmq.h>

#include "stages/zmq/zmq_link.h"
#include "stages/zmq/zmq_record.h"

typedef struct mr_zmq_source_options {
    mr_zmq_link link;
    mr_format format;
    mr_size size;
    int64_t max_message, idle, ends;
    const char *topic; /* zmq.sub */
} mr_zmq_source_options;

typedef struct mr_zmq_source {
    mr_zmq *socket;
    bool topics;          /* messages begin with one */
    uint32_t epoch;
    uint64_t next;        /* next frame's number */
    int64_t ends;         /* number received */
    int64_t heard_ns;     /* when the last message came, on the pipeline's clock */
    mr_media *media;      /* for images with one codec: the last image's */
} mr_zmq_source;

#define MR_ZMQ_SOURCE_FIELD(name) offsetof(mr_zmq_source_options, name)
#define MR_ZMQ_SOURCE_OPTIONS                                                                                          \
    MR_ZMQ_LINK_OPTIONS(mr_zmq_source_options, MR_FILE_NONE, "how many messages of one peer may wait to be taken"),    \
    {.name = "format", .kind = MR_OPTION_FORMAT, .offset = MR_ZMQ_SOURCE_FIELD(format),                                \
     .help = "pictures or tensors that messages bring, planes and rows without padding, such as \"RGB24 640x480\" or " \
             "\"f32 3x224x224\"; sizes that are left out stand in each record. Without it messages bring encoded "     \
             "images, which decode takes"},                                                                            \
    {.name = "size", .kind = MR_OPTION_SIZE, .offset = MR_ZMQ_SOURCE_FIELD(size), .fallback = "auto",                  \
     .min = 1, .max = 65535, .unit = "px",                                                                             \
     .help = "size of the largest encoded image to expect, for which memory is planned; auto: any"},                   \
    {.name = "max_message", .kind = MR_OPTION_BYTES, .offset = MR_ZMQ_SOURCE_FIELD(max_message), .fallback = "64MiB",  \
     .min = 1024, .max = 2147483647, .help = "a peer whose message has a larger part is disconnected"},                \
    {.name = "ends", .kind = MR_OPTION_INT, .offset = MR_ZMQ_SOURCE_FIELD(ends), .fallback = "1", .min = 0,            \
     .max = 1000000, .unit = "records", .help = "the source ends after this many records with `end`; 0: never"},       \
    {.name = "idle", .kind = MR_OPTION_DURATION, .offset = MR_ZMQ_SOURCE_FIELD(idle), .fallback = "0s", .min = 0,      \
     .max = 31536000e9, .help = "the source ends when nothing came for this long; 0: it waits without end"}

int mr_zmq_source_negotiate(mr_negotiation *negotiation);
int mr_zmq_source_open(mr_stage *self, int type);
int mr_zmq_source_process(mr_stage *self, mr_io *io);
void mr_zmq_source_close(mr_stage *self);

/* What both stage types have in common. */
#define MR_ZMQ_SOURCE_TYPE                                                                                             \
    .options_bytes = sizeof(mr_zmq_source_options), .state_bytes = sizeof(mr_zmq_source),                              \
    .entry = MR_ENTRY_PER_SOURCE, .blocking = true, .awaits = true, .negotiate = mr_zmq_source_negotiate,              \
    .process = mr_zmq_source_process, .close = mr_zmq_source_close
